import Foundation
import Glibc
import Roundtable
import RoundtableTestSupport

/// The processes that are at work when the power is cut.
struct PowerCutFleet {
    let folder: URL
    /// Where their standard errors go.
    let notes: URL
    let durability: CommitDurability
    let seed: UInt64
    var environment: [String: String] = [:]
    var journals: URL?
    var recordsHistory = false
    /// From which length of the WAL on participants checkpoint, in frames. A few, so that the WAL restarts often.
    var checkpointThreshold = 16
    private var owner: ChildProcess?
    private(set) var others: [(name: String, process: ChildProcess)] = []

    init(folder: URL, notes: URL, durability: CommitDurability, seed: UInt64) {
        (self.folder, self.notes, self.durability, self.seed) = (folder, notes, durability, seed)
    }

    mutating func start(_ role: PowerCutVictim.Role, _ index: Int, count: Int, first: Int = 1) throws {
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        var arguments = [
            "powercut-victim", "--role", role.rawValue, "--folder", folder.path, "--index", "\(index)",
            "--count", "\(count)", "--seed", "\(seed &+ UInt64(index))", "--durability", durability.rawValue,
            "--first", "\(first)", "--checkpoint-threshold", "\(checkpointThreshold)",
        ]
        if let journals { arguments += ["--journal", journals.appendingPathComponent("\(index).journal").path] }
        if recordsHistory { arguments.append("--records-history") }
        let process = try ChildProcess(
            executable: URL(fileURLWithPath: program),
            arguments: arguments,
            environment: environment,
            errorOutput: notes.appendingPathComponent("\(role)-\(index).errors")
        )
        if role == .owner { owner = process } else { others.append(("\(role) \(index)", process)) }
    }

    /// Whether all but the owner have ended.
    ///
    /// - throws: an error if one of them has failed.
    func othersHaveEnded() throws -> Bool {
        for (name, process) in others + (owner.map { [("owner", $0)] } ?? []) where !process.isRunning {
            let exit = try process.waitForExit()
            guard exit == .status(0), name != "owner" else {
                throw TestKitError("the \(name) ended with \(exit): \(process.errorText)")
            }
        }
        return others.allSatisfy { !$0.process.isRunning }
    }

    func endOwner() throws {
        guard let owner else { return }
        owner.closeInput()
        let exit = try owner.waitForExit(within: .seconds(60))
        guard exit == .status(0) else { throw TestKitError("the owner ended with \(exit): \(owner.errorText)") }
    }

    /// The processes that have ended, and how.
    func endings() throws -> [(name: String, exit: ProgramExit, errors: String)] {
        try (others + (owner.map { [("owner", $0)] } ?? [])).filter { !$0.process.isRunning }
            .map { ($0.name, try $0.process.waitForExit(), $0.process.errorText) }
    }

    /// Kills all processes.
    ///
    /// - returns: the name of one that the system does not end in time; nil if all have ended.
    func kill(within timeout: Duration) -> String? {
        let all = others + (owner.map { [("owner", $0)] } ?? [])
        for (_, process) in all { process.signal(SIGKILL) }
        return all.first { (try? $0.process.waitForExit(within: timeout)) == nil }.map {
            "\($0.name) (pid \($0.process.pid))"
        }
    }

    func end() {
        owner?.end()
        for (_, process) in others { process.end() }
    }
}
