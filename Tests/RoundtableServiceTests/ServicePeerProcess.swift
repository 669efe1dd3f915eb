import Foundation
import GRDB
import Roundtable
import RoundtableTestKit
import RoundtableTestSupport

/// One `roundtable-service-peer` process: a service group that obeys the test.
final class ServicePeerProcess {
    let process: ChildProcess
    private let session: ProgramSession

    /// - parameter grace: in ms.
    init(_ folder: TemporaryFolder, as author: String, grace: Int, _ more: [String] = []) throws {
        process = try ChildProcess(
            executable: try PeerFleet.program(named: "roundtable-service-peer"),
            arguments: [Self.database(folder).path, author, "\(grace)"] + more,
            errorOutput: folder.url.appendingPathComponent("\(author).err")
        )
        session = ProgramSession(process)
        _ = try wait(for: "ready")
    }

    static func database(_ folder: TemporaryFolder) -> URL { folder.url.appendingPathComponent("db.sqlite") }

    func send(_ command: String) throws { try session.send(command) }

    /// The next line that begins with a text.
    func wait(for prefix: String) throws -> String {
        while true {
            let line = try session.receive()
            if line.hasPrefix(prefix) { return line }
        }
    }

    func lines(until end: String) throws -> [String] {
        var lines: [String] = []
        while true {
            let line = try session.receive()
            if line == end { return lines }
            lines.append(line)
        }
    }

    func waitForLog(_ text: String) throws {
        try eventually("the log says '\(text)'") { self.process.errorText.contains(text) }
    }

    /// Waits for an orderly end.
    func waitForEnd() throws -> ProgramExit {
        _ = try wait(for: "ended")
        return try process.waitForExit(within: .seconds(30))
    }
}
