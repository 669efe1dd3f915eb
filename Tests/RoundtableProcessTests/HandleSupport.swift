import Foundation
import RoundtableTestSupport
import Testing

/// A peer that writes by a raw handle: see `HandlePeer`.
final class RawPeer {
    let name: String
    let process: ChildProcess
    private let session: ProgramSession
    private let progressPath: String

    fileprivate init(name: String, process: ChildProcess, progressPath: String) throws {
        self.name = name
        self.process = process
        self.progressPath = progressPath
        session = ProgramSession(process)
        #expect(try session.receive() == "open")
    }

    /// The number of transactions that it has reported as committed. It is known even after its death.
    var acknowledged: Int { ProgressFile.count(at: progressPath) }

    func send(_ command: String) throws { try session.send(command) }

    func receive(within timeout: Duration = .seconds(30)) throws -> String { try session.receive(within: timeout) }

    func call(_ command: String) throws -> String {
        try send(command)
        return try receive()
    }

    /// What a loop has done: its commits, and its three longest waits in ms, the longest first.
    func loopReport(within timeout: Duration = .seconds(60)) throws -> (commits: Int, longestWaits: [Double]) {
        let numbers = try receive(within: timeout).split(separator: " ").compactMap { Double($0) }
        guard numbers.count == 4 else { throw TestKitError("\(name): not a report: \(numbers)") }
        return (Int(numbers[0]), Array(numbers[1...]))
    }

    /// Rows expected = rows found.
    func expectEverything(in ledger: Ledger, isDead: Bool = false, sourceLocation: SourceLocation = #_sourceLocation) {
        let found = ledger.entries[name] ?? 0
        let acknowledged = acknowledged
        #expect(
            found == acknowledged || isDead && found == acknowledged + 1,
            "\(name): acknowledged \(acknowledged), found \(found)",
            sourceLocation: sourceLocation
        )
        #expect(ledger.highest[name] ?? 0 == found, "\(name): a hole", sourceLocation: sourceLocation)
    }
}

extension PeerFleet {
    /// Starts a peer with a raw handle. The database must be there, with the peers' schema.
    func spawnRaw(_ name: String) throws -> RawPeer {
        let progress = folder.appendingPathComponent("\(name).progress").path
        let process = try spawn(
            program: Self.program(named: "roundtable-peer"),
            arguments: ["handle", database.path, name, progress]
        )
        return try RawPeer(name: name, process: process, progressPath: progress)
    }
}

extension PeerFleet {
    /// Removes `-wal` and `-shm` behind a program that has them open, lets another process commit and close, and checks that its commits are
    /// there after the program has closed the database.
    func expectNothingLost(closing: () throws -> String) throws {
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: database.path + suffix) }
        // A participant does not open the database now (rule W12g), and other programs do.
        let peer = try spawn("peer")
        try peer.call(.openPool(opening(peer)))
        for _ in 0..<5 { try peer.call(.write(rows: 1)) }
        try peer.call(.close)
        #expect(try closing() == "closed")
        try Ledger(of: database).expectEverything(acknowledgedBy: [peer])
    }
}
