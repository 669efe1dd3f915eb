import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Synchronization
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// `roundtable promote` with the real Litestream (rules D). With ROUNDTABLE_LONG=1, 12 failovers instead of three.
    @Suite(
        .timeLimit(.minutes(10)),
        .enabled(if: Litestream.path != nil, "litestream is not in PATH: run 'make test-replication'")
    )
    struct ReplicationFailover {
        /// The writer's machine is lost under load, another is promoted, and the first one comes back. A follower and its observation continue
        /// all the time, and see no earlier state after a later one (**D3**, **D5**, **D6**, **D8**).
        @Test func machinesAreLostUnderLoad() throws {
            var random = SeededGenerator()
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                var writer = try fleet.spawn("writer-0")
                try machines[0].open(writer)
                try writer.call(.write(rows: 1))
                let follower = try fleet.follow()
                var seen: FollowedStates?
                defer { seen?.end() }
                for round in 0..<(isLongRun ? 12 : 3) {
                    let (lost, next) = (machines[round % 2], machines[(round + 1) % 2])
                    let supervisor = try lost.replicate()
                    let status = try supervisor.wait(for: .replicating)
                    #expect(status.term ?? 0 == round)
                    let litestream = try #require(status.litestream)
                    if seen == nil { seen = try FollowedStates(fleet.followed) }
                    try writer.send(.writeLoop(WriteLoad(seconds: 60)))
                    // The numbers of commits over time, from which the age of the newest one that is restored follows.
                    var progress: [(time: ContinuousClock.Instant, commits: Int)] = []
                    let end = ContinuousClock.now + .seconds(.random(in: 1...2, using: &random))
                    while ContinuousClock.now < end {
                        progress.append((.now, writer.acknowledged))
                        usleep(5000)
                    }
                    for pid in [writer.process.pid, supervisor.process.pid, litestream] { kill(pid, SIGKILL) }
                    let death = ContinuousClock.now
                    let promoted = try next.promote()
                    #expect(promoted == .status(0))
                    let successor = try fleet.spawn("writer-\(round + 1)")
                    try next.open(successor)
                    try successor.call(.write(rows: 1))
                    let outage = (ContinuousClock.now - death) / .seconds(1)
                    let ledger = try Ledger(of: next.database)
                    #expect(ledger.integrity == "ok")
                    #expect(ledger.entries == ledger.highest, "no writer's transactions have a gap")
                    let found = ledger.entries[writer.name] ?? 0
                    let age = progress.last { $0.commits <= found }.map { (death - $0.time) / .seconds(1) } ?? 0
                    print(
                        """
                        failover \(round + 1): \(writer.acknowledged - found) of \(writer.acknowledged) commits lost, those of the last \
                        \(String(format: "%.2f", age)) s; \(String(format: "%.2f", outage)) s without a writer
                        """
                    )
                    try lost.comesBack(as: "returned-\(round)", instead: next)
                    writer = successor
                }
                let last = machines[isLongRun ? 0 : 1]
                let supervisor = try last.replicate()
                try supervisor.wait(for: .replicating)
                try writer.call(.write(rows: 1))
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                let ledger = try Ledger(of: last.database)
                #expect(!ledger.entries.keys.contains { $0.hasPrefix("returned") }, "nothing of a fenced machine comes")
                let restored = try last.restored()
                #expect(restored.entries == ledger.entries && restored.integrity == "ok")
                let states = try #require(seen)
                let rows = ledger.entries.values.reduce(0, +)
                try eventually("the follower has everything", within: .seconds(90)) { states.last == rows }
                #expect(states.all == states.all.sorted(), "\(states.all)")
                #expect(follower.process.isRunning)
            }
        }

        /// Another machine is promoted while the writer works: its supervisor ends, and its participants, a raw handle included, write no
        /// more, while they continue to read (**D5**, **D6**).
        @Test func aWorkingWriterIsFenced() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                let peers = try fleet.spawn(2)
                for peer in peers { try machines[0].open(peer) }
                let supervisor = try machines[0].replicate()
                try supervisor.wait(for: .replicating)
                for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                #expect(try machines[1].promote() == .status(0))
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(1))
                #expect(supervisor.process.errorText.contains("is the writer now, in term 1"))
                for peer in peers {
                    let report = try peer.stopLoop()
                    #expect(report.errorCount > 0 && report.commits > 0)
                    #expect(report.errors.allSatisfy { $0.contains("is fenced") }, "\(report.errors)")
                    #expect(try #require(peer.call(.count).number) >= report.commits)
                    try peer.send(.write(rows: 1))
                    let reply = try peer.reply()
                    #expect(reply.message?.contains("is fenced") == true, "\(reply)")
                }
                let status = try DatabaseStatus(ofDatabaseAt: machines[0].database)
                #expect(status.fence?.term == 1 && status.fence?.path == machines[1].database.path)
                #expect(status.replication == nil)
                let findings = try DatabaseDiagnosis(ofDatabaseAt: machines[0].database).findings
                #expect(findings.contains { $0.topic == .fenced })
                // What it has in addition stays readable there, and the new writer's machine does not have it.
                let (old, new) = (try Ledger(of: machines[0].database), try Ledger(of: machines[1].database))
                #expect(old.entries.allSatisfy { $0.value >= new.entries[$0.key] ?? 0 })
                for peer in peers { try peer.call(.close) }
                #expect(try machines[0].replicate().process.waitForExit(within: .seconds(60)) == .status(1))
            }
        }

        /// Two machines are promoted at the same moment: after their supervisors have looked, one of them is the writer (**D3**).
        @Test func twoArePromotedAtOnce() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let first = try Machine("a", fleet)
                try first.writeAndUploadOneRow()
                let rivals = try [Machine("b", fleet), Machine("c", fleet)]
                let promotions = try rivals.map { try $0.startPromotion() }
                let exits = try promotions.map { try $0.waitForExit(within: .seconds(60)) }
                #expect(exits.contains(.status(0)), "\(promotions.map(\.errorText))")
                for (promotion, exit) in zip(promotions, exits) where exit != .status(0) {
                    #expect(promotion.errorText.contains("another machine was promoted meanwhile"))
                }
                let supervisors = try zip(rivals, exits).filter { $0.1 == .status(0) }.map { try $0.0.replicate() }
                try eventually("one is left", within: .seconds(30)) {
                    supervisors.count { $0.process.isRunning } <= 1
                }
                let left = try #require(supervisors.first { $0.process.isRunning })
                try left.wait(for: .replicating)
            }
        }

        /// `promote` is killed at random moments. The next one succeeds, and the database is whole (the table of **D**).
        @Test func promotionsAreKilled() throws {
            var random = SeededGenerator()
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                try machines[0].writeAndUploadOneRow()
                var (round, killed) = (0, 0)
                let rounds = isLongRun ? 60 : 8
                // Until one was killed: on a fast machine, a promotion has ended at most of these moments.
                while round < rounds || (killed == 0 && round < 10 * rounds) {
                    round += 1
                    let promotion = try machines[1].startPromotion()
                    usleep(UInt32.random(in: 0..<1_200_000, using: &random))
                    if promotion.isRunning { killed += 1 }
                    kill(promotion.pid, SIGKILL)
                    _ = try promotion.waitForExit(within: .seconds(30))
                    if FileManager.default.fileExists(atPath: machines[1].database.path) {
                        #expect(try Ledger(of: machines[1].database).entries == ["a": 1])
                    }
                }
                #expect(killed > 0)
                #expect(try machines[1].promote() == .status(0))
                #expect(try Ledger(of: machines[1].database).entries == ["a": 1])
                let supervisor = try machines[1].replicate()
                #expect(try supervisor.wait(for: .replicating).term ?? 0 > 0)
                let left = try FileManager.default.contentsOfDirectory(atPath: machines[1].folder.path)
                #expect(!left.contains { $0.hasSuffix(".new") }, "\(left)")
            }
        }

        /// A database that was restored, or made, without being promoted replicates nothing to a URL that has another writer (**D4**,
        /// **D5**), and is not fenced.
        @Test func aStrangerIsRefused() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet), Machine("c", fleet)]
                try machines[0].writeAndUploadOneRow()
                #expect(try machines[1].promote() == .status(0))
                let stranger = try fleet.spawn("stranger")
                try machines[2].open(stranger)
                let supervisor = try machines[2].replicate()
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(1))
                #expect(supervisor.process.errorText.contains("never was"), "\(supervisor.process.errorText)")
                try stranger.call(.write(rows: 1))
                // What has nothing to restore claims nothing.
                let empty = try fleet.spawn(
                    program: try PeerFleet.program(named: "roundtable"),
                    arguments: ["promote", "file://\(fleet.folder.path)/nothing", "\(fleet.folder.path)/d.sqlite"]
                )
                #expect(try empty.waitForExit(within: .seconds(60)) == .status(1))
                #expect(empty.errorText.contains("there is no backup"))
                #expect(!FileManager.default.fileExists(atPath: fleet.folder.path + "/nothing"))
            }
        }

        /// A restore to a time before a promotion takes the state from the earlier term (**D7**).
        @Test func aTimeBeforeThePromotionIsRestored() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                // Litestream by itself would use a folder with an encoded name.
                let url = "file://\(fleet.folder.path)/Müşteri %20 ığIİ"
                let machines = try ["a", "ö b"].map { try Machine($0, fleet, url: url) }
                try machines[0].writeAndUploadOneRow()
                #expect(FileManager.default.fileExists(atPath: fleet.folder.path + "/Müşteri   ığIİ/ltx"))
                let before = Date()
                // Litestream records milliseconds, and the time that is asked for has whole seconds.
                try eventually("a second has passed") { Date().timeIntervalSince(before) > 2 }
                #expect(try machines[1].promote() == .status(0))
                let peer = try fleet.spawn("b")
                try machines[1].open(peer)
                try peer.call(.write(rows: 1))
                let supervisor = try machines[1].replicate()
                try supervisor.wait(for: .replicating)
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                #expect(try machines[0].restored().entries == ["a": 1, "b": 1])
                let time = before.addingTimeInterval(1).formatted(.iso8601)
                #expect(try machines[0].restored(at: time).entries == ["a": 1])
            }
        }
    }
}

/// The rows that an observation of a read replica has seen.
final class FollowedStates: Sendable {
    private final class Log: Sendable { let rows = Mutex<[Int]>([]) }

    private let reader: SharedDatabase
    private let log = Log()
    private let observation: AnyDatabaseCancellable

    init(_ database: URL) throws {
        var opened: SharedDatabase?
        try eventually("the first state has come", within: .seconds(60)) {
            let answer = try SharedDatabase.openReplica(at: database, schema: .unmanaged, as: "reader")
            if case .available(let database) = answer { opened = database }
            return opened != nil
        }
        reader = try #require(opened)
        observation = ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT count(*) FROM entry") ?? 0 }
            .start(in: reader, scheduling: .async(onQueue: DispatchQueue(label: "values"))) { error in
                Issue.record("\(error)")
            } onChange: { [log] rows in
                log.rows.withLock { $0.append(rows) }
            }
    }

    var all: [Int] { log.rows.withLock { $0 } }
    var last: Int? { all.last }

    func end() {
        observation.cancel()
        try? reader.close()
    }
}
