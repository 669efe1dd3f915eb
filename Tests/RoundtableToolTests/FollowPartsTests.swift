import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Testing

@testable import RoundtableTool

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
    @testable import RoundtableReplication
    @testable import RoundtableToolSupport
#endif

@Suite struct FollowPartsTests {
    private let begun = Date(timeIntervalSince1970: 1_000_000)
    private func later(_ seconds: Double) -> Date { begun.addingTimeInterval(seconds) }
    private static let one = "0000000000000001"
    private static let two = "0000000000000002"

    private func monitor(after last: ReplicaStatus? = nil) throws -> FollowMonitor {
        var monitor = FollowMonitor(
            url: try ReplicaURL("file:///replica"),
            version: "0.5.17",
            follower: ProcessIdentity(pid: 7, startTime: 70, namespace: 700),
            continuing: last,
            at: begun
        )
        monitor.handle(.started(pid: 8), at: begun)
        return monitor
    }

    private func transactions(_ transactions: String...) throws -> FollowedTransactions {
        let files = transactions.enumerated().map { index, transaction in
            """
            {"level": 0, "min_txid": "\(transaction)", "max_txid": "\(transaction)", "size": 1, "timestamp": "2026-11-23T19:00:0\(index)Z"}
            """
        }
        return try #require(FollowedTransactions("[\(files.joined(separator: ","))]"))
    }

    @Test func aStateComesAndIsOvertaken() throws {
        var monitor = try monitor()
        #expect(monitor.status.state == .starting && monitor.status.lag == nil)
        monitor.handle(.copied(transaction: Self.one), at: later(1))
        #expect(monitor.status.state == .following && monitor.status.arrived == later(1))
        monitor.handle(.listed(try transactions(Self.one), inTerm: .first), at: later(2))
        #expect(monitor.status.lag == .zero && monitor.status.time != nil)
        monitor.handle(.listed(try transactions(Self.one, Self.two), inTerm: .first), at: later(3))
        #expect(monitor.status.lag == .seconds(1) && monitor.status.state == .following)
        monitor.handle(.copied(transaction: Self.two), at: later(4))
        #expect(monitor.status.lag == .zero && monitor.status.time == nil, "the time is known from the next list")
    }

    /// Each term counts its transactions from the start, so that those of two terms cannot be compared.
    @Test func theLagBehindANewTerm() {
        var status = ReplicaStatus(state: .following, since: begun)
        (status.transaction, status.term, status.time) = (Self.two, 1, later(1))
        (status.newestTransaction, status.newestTerm, status.newestTime) = (Self.one, 2, later(4))
        #expect(status.lag == .seconds(3))
        status.newestTerm = 1
        #expect(status.lag == .zero)
    }

    @Test func anErrorCountsUntilAState() throws {
        var monitor = try monitor()
        monitor.handle(.copied(transaction: Self.one), at: later(1))
        monitor.handle(.log(LitestreamLine(#"{"level":"ERROR","msg":"follow","err":"access denied"}"#)), at: later(2))
        #expect(monitor.status.state == .failing && monitor.status.problem != nil)
        monitor.handle(.listed(try transactions(Self.one), inTerm: .first), at: later(3))
        #expect(monitor.status.state == .failing)
        monitor.handle(.listed(try transactions(Self.one), inTerm: .first), at: later(33))
        #expect(monitor.status.state == .following && monitor.status.problem == nil, "nothing newer, no error for long")
    }

    /// **Q8**.
    @Test func aFollowerThatGetsNoNearerBeginsAgain() throws {
        var monitor = try monitor()
        monitor.handle(.copied(transaction: Self.one), at: later(1))
        monitor.handle(.listed(try transactions(Self.one, Self.two), inTerm: .first), at: later(2))
        #expect(!monitor.isStuck(at: later(61)))
        #expect(monitor.isStuck(at: later(63)))
        monitor.handle(.started(pid: 9), at: later(64))
        #expect(!monitor.isStuck(at: later(100)))
        monitor.handle(.copied(transaction: Self.two), at: later(65))
        #expect(!monitor.isStuck(at: later(1000)))
    }

    /// **Q3**: in a container that starts again, the next follower may have the pid of the one before.
    @Test func aFollowerIsNotTakenForTheOneBefore() throws {
        let folder = try TemporaryFolder()
        let path = folder.url.appendingPathComponent("a.db").path
        func follow(startedAt start: UInt64) throws -> FollowedDatabase {
            var report = ReplicaStatus(state: .ended, since: begun)
            let own = ProcessIdentity.current
            report.identity = ProcessIdentity(pid: own.pid, startTime: start, namespace: own.namespace)
            try ReplicaStatus.file(besideDatabaseAt: path).write(report)
            return try FollowedDatabase(path) { _ in }
        }
        #expect(try follow(startedAt: ProcessIdentity.current.startTime - 1).last?.state == .abandoned)
        #expect(throws: ToolError.self) { try follow(startedAt: ProcessIdentity.current.startTime) }
    }

    /// **Q7**.
    @Test func aReplicaThatWasReplacedIsNamed() throws {
        var last = ReplicaStatus(state: .abandoned, since: begun)
        last.transaction = Self.two
        var monitor = try monitor(after: last)
        monitor.handle(.listed(try transactions(Self.one), inTerm: .first), at: later(1))
        #expect(monitor.status.state == .failing)
        #expect(monitor.status.problem?.contains("has been replaced") == true)
    }

    @Test func anEndHasAReason() throws {
        var monitor = try monitor()
        monitor.handle(.log(LitestreamLine("Error: something new")), at: later(1))
        monitor.handle(.ended(.status(1)), at: later(1))
        #expect(monitor.status.state == .ended && monitor.status.litestream == nil)
        #expect(monitor.status.problem?.contains("something new") == true)
        #expect(monitor.pause == 1)
    }

    /// A writer that has not replicated yet is waited for, with short pauses, and named as what it is.
    @Test func aURLWithoutAStateIsWaitedFor() throws {
        var monitor = try monitor()
        for second in stride(from: 1.0, through: 20, by: 1) {
            monitor.handle(.started(pid: 8), at: later(second))
            monitor.handle(.log(LitestreamLine("Error: no matching backup files available")), at: later(second))
            monitor.handle(.ended(.status(1)), at: later(second))
            #expect(monitor.status.state == .failing && monitor.status.litestream == nil)
            #expect(monitor.status.problem == "there is no state at the URL yet")
            #expect(monitor.pause == 2)
        }
        monitor.handle(.isInTerm(ReplicaTerm(number: 3, token: 7)), at: later(21))
        monitor.handle(.log(LitestreamLine("Error: no matching backup files available")), at: later(21))
        #expect(monitor.status.problem == "there is no state at the URL yet (term 3)")
    }

    /// **D8**: each term counts its transactions from the start, and two terms of one number are two.
    @Test func transactionsOfAnotherTermAreNotCompared() throws {
        var monitor = try monitor()
        monitor.handle(.copied(transaction: Self.two), at: later(1))
        #expect(monitor.transactionInTerm == Self.two)
        for token in [UInt64(7), 8] {
            let term = ReplicaTerm(number: 1, token: token)
            monitor.handle(.isInTerm(term), at: later(2))
            #expect(monitor.transactionInTerm == nil)
            monitor.handle(.listed(try transactions(Self.one, Self.two), inTerm: .first), at: later(2))
            #expect(monitor.status.newestTransaction == nil, "a list of another term")
            monitor.handle(.copied(transaction: Self.one), at: later(3))
            #expect(monitor.transactionInTerm == Self.one && monitor.status.term == 1)
            #expect(monitor.status.state == .following)
        }
    }

    @Test func listsOfAnyKindAreRead() throws {
        #expect(FollowedTransactions("") == nil && FollowedTransactions("{}") == nil)
        #expect(FollowedTransactions("[]")?.newest == nil)
        #expect(try transactions(Self.two, Self.one).newest?.transaction == Self.two)
    }

    @Test func theClockOfFiles() {
        #expect(StagedDatabase.Wholeness(pages: 1, transaction: 2) == .whole)
        #expect(StagedDatabase.Wholeness(pages: 2, transaction: 2) == .sameTick)
        #expect(StagedDatabase.Wholeness(pages: 3, transaction: 2) == .notWhole)
    }

    /// **Q5**.
    @Test func onlyWholeStatesAreRead() throws {
        let folder = try TemporaryFolder()
        let staged = StagedDatabase(path: folder.url.appendingPathComponent("a b?.db").path)
        func read(isWholeInDoubt: Bool = true) throws -> String {
            try staged.readState(isWholeInDoubt: { isWholeInDoubt }) { state, transaction in
                let count = try state.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM t") }
                return "\(transaction) \(count ?? 0)"
            }
        }
        func setTimes(pages: Double, transaction: Double) throws {
            for (path, time) in [(staged.path, pages), (staged.transactionPath, transaction)] {
                try FileManager.default.setAttributes(
                    [.modificationDate: Date(timeIntervalSince1970: time)],
                    ofItemAtPath: path
                )
            }
        }
        let queue = try DatabaseQueue(path: staged.path)
        try queue.write { db in try db.execute(sql: "CREATE TABLE t (x); INSERT INTO t VALUES (1), (2)") }
        try queue.close()
        #expect(throws: StagedDatabase.Obstacle.isNotWhole) { try read() }
        try Data("\(Self.one)\n".utf8).write(to: URL(fileURLWithPath: staged.transactionPath))
        try setTimes(pages: 1000, transaction: 1001)
        #expect(try read() == "\(Self.one) 2")
        try setTimes(pages: 1000, transaction: 1000)
        #expect(try read() == "\(Self.one) 2")
        #expect(throws: StagedDatabase.Obstacle.isNotWhole) { try read(isWholeInDoubt: false) }
        try setTimes(pages: 1001, transaction: 1000)
        #expect(throws: StagedDatabase.Obstacle.isNotWhole) { try read() }
        try Data("garbage".utf8).write(to: URL(fileURLWithPath: staged.transactionPath))
        #expect(throws: StagedDatabase.Obstacle.isNotWhole) { try read() }
    }
}
