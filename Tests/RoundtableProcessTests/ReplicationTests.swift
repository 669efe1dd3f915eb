import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// `roundtable replicate` with the real Litestream (rules K13 and Y). `make test-replication` installs it.
    @Suite(
        .timeLimit(.minutes(3)),
        .enabled(if: Litestream.path != nil, "litestream is not in PATH: run 'make test-replication'")
    )
    struct Replication {
        /// Commits of peers, whose rows the replica must have at the end.
        private func commits(_ fleet: PeerFleet) throws -> Int {
            try Ledger(of: fleet.database).entries.values.reduce(0, +)
        }

        /// **K13**, **Y5**: nothing is lost at a clean end, the participants leave checkpoints to Litestream, and make them again.
        @Test func aDatabaseIsReplicated() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let options = PeerOptions(checkpointing: .automatic(threshold: 100))
                let peers = try fleet.spawnOpen(2, options: options)
                let supervisor = try fleet.replicate()
                try supervisor.wait(for: .replicating)
                let before = try fleet.status().wal?.counters?.checkpoints
                for peer in peers {
                    try peer.send(.writeLoop(WriteLoad(seconds: 60, commits: 500)))
                }
                for peer in peers { _ = try peer.report() }
                let status = try fleet.status()
                #expect(status.wal?.counters?.checkpoints == before, "the participants leave checkpoints to Litestream")
                #expect(status.participants.contains { $0.author == "litestream" && $0.pid == supervisor.process.pid })
                supervisor.process.signal(SIGTERM)
                #expect(
                    try supervisor.process.waitForExit(within: .seconds(60)) == .status(0),
                    "\(supervisor.process.errorText)"
                )
                let ledger = try fleet.restored()
                #expect(ledger.integrity == "ok")
                #expect(ledger.entries.values.reduce(0, +) == 1000)
                #expect(try fleet.status().replication == nil, "the report is removed")
                try peers[0].send(.writeLoop(WriteLoad(seconds: 60, commits: 300)))
                _ = try peers[0].report()
                try eventually("the participants checkpoint again") {
                    try fleet.status().wal?.counters?.checkpoints ?? 0 > before ?? 0
                }
            }
        }

        /// **Y4**: Litestream ends with its supervisor, the writers continue, and the next supervisor continues the replication.
        @Test func aSupervisorIsKilled() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("app", options: PeerOptions(checkpointing: .automatic(threshold: 100)))
                let first = try fleet.replicate()
                let litestream = try #require(try first.wait(for: .replicating).litestream)
                try peer.call(.write(rows: 1))
                try first.process.killAndReap()
                let status = try #require(try fleet.status().replication)
                #expect(status.state == .abandoned)
                #expect(status.problem?.contains("has died") == true)
                #if os(Linux)
                    try eventually("Litestream ends", within: .seconds(40)) { ProcessTable.entry(litestream) == nil }
                #endif
                let counters = try fleet.status().wal?.counters?.checkpoints ?? 0
                // The lease of a dead supervisor ends by itself.
                try eventually("the participants checkpoint again", within: .seconds(30)) {
                    try peer.send(.writeLoop(WriteLoad(seconds: 10, commits: 150)))
                    _ = try peer.report()
                    return try fleet.status().wal?.counters?.checkpoints ?? 0 > counters
                }
                let second = try fleet.replicate()
                try second.wait(for: .replicating)
                second.process.signal(SIGTERM)
                #expect(try second.process.waitForExit(within: .seconds(60)) == .status(0))
                let (replica, database) = (try fleet.restored().entries, try Ledger(of: fleet.database).entries)
                #expect(replica == database, "\(second.process.errorText)")
            }
        }

        /// **Y6**: without the supervisor's look, Litestream 0.5.17 continues with the two frames, and the replica never gets 500 commits.
        ///
        ///     WAL while Litestream was there   ■■
        ///     … 500 commits later              ■■□□□□□□□□□□   all copied by a checkpoint
        ///     … and one more                   ▣▣□□□□□□□□□□   begins the WAL again, and leaves what Litestream remembers
        @Test func aWALThatWasRestartedMeanwhile() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("app", options: PeerOptions(checkpointing: .manual))
                for _ in 1...4 { try peer.call(.write(rows: 1)) }
                let first = try fleet.replicate()
                try first.wait(for: .replicating)
                for _ in 1...4 { try peer.call(.write(rows: 1)) }
                first.process.signal(SIGTERM)
                #expect(try first.process.waitForExit(within: .seconds(60)) == .status(0))
                try peer.send(.writeLoop(WriteLoad(seconds: 60, commits: 500)))
                _ = try peer.report()
                #expect(try peer.call(.checkpoint(.passive)).number == 0)
                try peer.call(.write(rows: 1))
                let second = try fleet.replicate()
                try second.wait(for: .replicating)
                second.process.signal(SIGTERM)
                #expect(try second.process.waitForExit(within: .seconds(60)) == .status(0))
                #expect(try fleet.restored().entries == ["app": 509])
            }
        }

        /// **Y6**.
        @Test func aWALThatCannotBeEmptied() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("app", options: PeerOptions(checkpointing: .manual))
                try peer.call(.write(rows: 1))
                let reader = try fleet.spawnOpen("reader")
                try reader.call(.holdRead)
                try peer.call(.write(rows: 1))
                let supervisor = try fleet.replicate()
                let status = try supervisor.wait(for: .ended)
                #expect(status.problem?.contains("'reader' (pid \(reader.pid))") == true, "\(status)")
                try peer.call(.write(rows: 1))
                try reader.call(.release(commit: false))
                try supervisor.wait(for: .replicating)
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                #expect(try fleet.restored().entries == ["app": 3])
            }
        }

        @Test func litestreamIsKilledAndStartedAgain() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("app")
                let supervisor = try fleet.replicate()
                let first = try #require(try supervisor.wait(for: .replicating).litestream)
                kill(first, SIGKILL)
                let ended = try supervisor.wait(for: .ended)
                #expect(ended.problem == "Litestream has ended (signal 9)")
                try peer.call(.write(rows: 1))
                let second = try #require(try supervisor.wait(for: .replicating).litestream)
                #expect(second != first)
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                #expect(try fleet.restored().entries == ["app": 1])
            }
        }

        @Test func aFrozenLitestreamIsNamed() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("app")
                let supervisor = try fleet.replicate()
                let litestream = try #require(try supervisor.wait(for: .replicating).litestream)
                kill(litestream, SIGSTOP)
                defer { kill(litestream, SIGCONT) }
                try peer.call(.write(rows: 1))
                let status = try supervisor.wait(for: .unresponsive)
                #expect(status.problem == "Litestream is stopped")
                let findings = try DatabaseDiagnosis(ofDatabaseAt: fleet.database).findings.filter {
                    $0.topic == .replication
                }
                #expect(findings.contains { $0.processes.contains { $0.pid == litestream } }, "\(findings)")
                // A frozen child does not prevent its supervisor from ending.
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                #expect(try fleet.restored().entries == ["app": 1])
            }
        }

        @Test func aReplicaThatCannotBeWrittenIsNamed() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("app")
                let file = fleet.folder.appendingPathComponent("file")
                try Data().write(to: file)
                let supervisor = try fleet.replicate(to: "file://\(file.path)/replica")
                let status = try supervisor.wait(for: .failing)
                #expect(status.problem?.contains("not a directory") == true, "\(status)")
                let finding = try DatabaseDiagnosis(ofDatabaseAt: fleet.database).findings.first {
                    $0.topic == .replication
                }
                #expect(finding?.message.contains("does not work") == true)
                try peer.call(.write(rows: 1))
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(1))
                #expect(supervisor.process.errorText.contains("the last commits may not be in the replica"))
            }
        }

        #if os(Linux)
            @Test(.enabled(if: SmallVolume.isSupported, "mounting a tmpfs needs the superuser"))
            func aFullDiskIsNamed() throws {
                try PeerFleet.run(ofOneUser: true) { fleet in
                    let peer = try fleet.spawnOpen("app")
                    let volume = try SmallVolume(fleet)
                    defer { volume.unmount() }
                    let replica = "file://\(volume.folder.path)/replica"
                    let supervisor = try fleet.replicate(to: replica)
                    try supervisor.wait(for: .replicating)
                    try volume.fill()
                    try peer.call(.write(rows: 1))
                    let status = try supervisor.wait(for: .failing)
                    #expect(status.problem?.contains("the disk is full") == true, "\(status)")
                    let finding = try DatabaseDiagnosis(ofDatabaseAt: fleet.database).findings.first {
                        $0.topic == .replication
                    }
                    #expect(finding?.message.contains("the disk is full") == true)
                    // The writers continue, and the replica follows when there is room again.
                    try peer.send(.writeLoop(WriteLoad(seconds: 30, commits: 200)))
                    #expect(try peer.report().commits == 200)
                    try volume.empty()
                    try supervisor.wait(for: .replicating)
                    supervisor.process.signal(SIGTERM)
                    #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                    #expect(try fleet.restored(from: replica).entries == ["app": 201])
                }
            }
        #endif

        /// **K13**, **Y3**.
        @Test func aLitestreamOfAnotherOwnerIsRecognised() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("app", options: PeerOptions(checkpointing: .automatic(threshold: 100)))
                let litestream = try fleet.spawn(
                    program: URL(fileURLWithPath: try #require(Litestream.path)),
                    arguments: ["replicate", fleet.database.path, fleet.replica]
                )
                try eventually("Litestream is recognised") { try fleet.status().replication?.state == .unsupervised }
                #expect(try fleet.status().replication?.litestream == litestream.pid)
                // A participant may have looked just before Litestream came, and looks again a second later.
                try eventually("the participant has looked") {
                    let before = try fleet.status().wal?.counters?.checkpoints
                    try peer.send(.writeLoop(WriteLoad(seconds: 30, commits: 150)))
                    _ = try peer.report()
                    return try fleet.status().wal?.counters?.checkpoints == before
                }
                let before = try fleet.status().wal?.counters?.checkpoints
                try peer.send(.writeLoop(WriteLoad(seconds: 30, commits: 500)))
                _ = try peer.report()
                #expect(try fleet.status().wal?.counters?.checkpoints == before)
                let second = try fleet.replicate()
                #expect(try second.process.waitForExit() == .status(1))
                #expect(second.process.errorText.contains("Litestream (pid \(litestream.pid)) replicates it already"))
                litestream.signal(SIGTERM)
                #expect(try litestream.waitForExit(within: .seconds(30)) == .status(0))
                #expect(try fleet.restored().entries == (try Ledger(of: fleet.database)).entries)
            }
        }

        @Test func aSecondSupervisorRefuses() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                _ = try fleet.spawnOpen("app")
                let first = try fleet.replicate()
                try first.wait(for: .replicating)
                let second = try fleet.replicate()
                #expect(try second.process.waitForExit() == .status(1))
                let text = second.process.errorText
                #expect(
                    text.contains("'roundtable replicate' (pid \(first.process.pid)) replicates it already"),
                    "\(text)"
                )
                #expect(text.split(separator: "\n").count == 1)
                #expect(first.process.isRunning)
            }
        }
    }
}

enum Litestream {
    /// The path of the installed program; nil when there is none.
    static let path: String? = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { "\($0)/litestream" }.first { FileManager.default.isExecutableFile(atPath: $0) }
}

/// A running `roundtable replicate`, with the states that it has printed.
final class ReplicationProcess {
    let process: ChildProcess
    private let session: ProgramSession

    init(_ process: ChildProcess) {
        self.process = process
        session = ProgramSession(process)
    }

    /// The next status of this state. Other states before it are skipped.
    @discardableResult
    func wait(for state: ReplicationStatus.State) throws -> ReplicationStatus {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        while true {
            let status = try decoder.decode(
                ReplicationStatus.self,
                from: Data(session.receive(within: .seconds(60)).utf8)
            )
            if status.state == state { return status }
        }
    }
}

extension PeerFleet {
    var replica: String { "file://\(folder.path)/replica" }

    func replicate(to url: String? = nil, interval: Double = 0.2) throws -> ReplicationProcess {
        let process = try spawn(
            program: try PeerFleet.program(named: "roundtable"),
            arguments: ["replicate", database.path, "--to", url ?? replica, "--interval", "\(interval)", "--json"]
        )
        return ReplicationProcess(process)
    }

    /// What a restore gives.
    func restored(from url: String? = nil) throws -> Ledger {
        let copy = folder.appendingPathComponent("restored-\(UUID().uuidString).sqlite")
        let restore = try spawn(
            program: URL(fileURLWithPath: try #require(Litestream.path)),
            arguments: ["restore", "-o", copy.path, url ?? replica]
        )
        #expect(try restore.waitForExit(within: .seconds(60)) == .status(0), "\(restore.errorText)")
        return try Ledger(of: copy)
    }

    func status() throws -> DatabaseStatus { try DatabaseStatus(ofDatabaseAt: database) }
}
