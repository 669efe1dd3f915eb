import Foundation
import Testing

@testable import RoundtableKernel

/// A folder that is removed with this value.
final class TemporaryFolder: Sendable {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "/roundtable-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { path + "/" + name }
    var contents: [String] { (try? FileManager.default.contentsOfDirectory(atPath: path).sorted()) ?? [] }
}

/// A process that has ended, and whose pid is free again.
func endedProcess() throws -> ProcessIdentity {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/sleep")
    process.arguments = ["60"]
    try process.run()
    let pid = process.processIdentifier
    let entry = try #require(ProcessTable.entry(pid))
    kill(pid, SIGKILL)
    process.waitUntilExit()
    return ProcessIdentity(pid: pid, startTime: entry.startTime, namespace: ProcessIdentity.current.namespace)
}

extension TurnSettings {
    static func testing(
        priority: UInt8 = 1,
        slice: Duration = .milliseconds(2),
        patience: Duration = .milliseconds(100)
    ) -> TurnSettings {
        TurnSettings(priority: priority, slice: slice.nanoseconds, patience: patience.nanoseconds)
    }
}
