import Foundation
import GRDB
import RoundtableKernel
import RoundtableTestKit
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Many shared writes run, while every way to lose a transaction occurs at random (rules M5, M5a).
///
/// The test makes 4,000 writes, or 100,000 with `ROUNDTABLE_LONG=1`.
@Suite struct SharedCommitCampaignTests {
    private enum Fate: CaseIterable {
        case committed, thrown, caught
        /// The closure ends the transaction.
        case orRollback, trigger, rollback, commit
        case danglingReference, veto, full, interrupted, cancelled
        /// The gate closes, and aborts what does not end in time.
        case suspended
    }

    /// What happened to one write, as its closure, its completions and its caller saw it.
    private struct Record: Sendable {
        var fate = Fate.committed
        var runs = 0
        var commits = 0
        var rollbacks = 0
        /// nil while the caller waits.
        var hasReturned: Bool?
        var error: (any Error)?
    }

    private struct Thrown: Error {}
    private struct Vetoed: Error {}

    /// Vetoes the commit of a transaction that has written the number -1.
    private final class Veto: TransactionObserver {
        var isDue = false
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
            if case .insert("vetoed") = eventKind { true } else { false }
        }
        func databaseDidChange(with event: DatabaseEvent) { isDue = true }
        func databaseWillCommit() throws { if isDue { throw Vetoed() } }
        func databaseDidCommit(_ db: Database) { isDue = false }
        func databaseDidRollback(_ db: Database) { isDue = false }
    }

    /// Each closure has run at most once, counted in memory. A write that has returned is in the database, and any other is not. A closure that has
    /// run gets the call of one completion, and it is the right one.
    @Test(.timeLimit(.minutes(30))) func eachClosureRunsOnce() async throws {
        var random = SeededGenerator()
        // A transaction of 32 writes is lost with one of three: most return, however many share each.
        let (tasks, count) = (32, isLongRun ? 100_000 : 4000)
        let process = ProcessSuspension(timeToRollBack: 60_000_000_000)
        let world = try SharedCommitWorld(process) { $0.slice = .milliseconds(2) }
        let db = world.db
        try await db.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE written (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
                    CREATE TABLE vetoed (id);
                    CREATE TABLE guarded (id);
                    CREATE TRIGGER guard BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'guarded'); END
                    """
            )
            db.add(transactionObserver: Veto(), extent: .databaseLifetime)
        }
        let records = Shared(Array(repeating: Record(), count: count))
        let seeds = (0..<tasks).map { _ in random.next() }
        let began = ContinuousClock.now
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<tasks {
                group.addTask {
                    var random = SeededGenerator(seed: seeds[task])
                    for number in stride(from: task, to: count, by: tasks) {
                        let isTame = Int.random(in: 0..<64, using: &random) > 0
                        let fate = isTame ? Fate.committed : Fate.allCases.randomElement(using: &random)!
                        records.change { $0[number].fate = fate }
                        await Self.write(number, fate, process, db, records)
                    }
                }
            }
        }
        try await db.writeWithoutTransaction { db in
            let rows = try Int.fetchAll(db, sql: "SELECT n FROM written")
            let committed = Set(rows)
            #expect(committed.count == rows.count, "a write is there twice")
            var (returned, lost, calls) = (0, 0, 0)
            for (number, record) in records.value.enumerated() {
                if record.runs > 1 { Issue.record("\(number) has run \(record.runs) times: \(record)") }
                if record.hasReturned != committed.contains(number) {
                    Issue.record("\(number) got a wrong result: \(record)")
                }
                if record.hasReturned == true { returned += 1 }
                let completions = record.runs == 0 ? (0, 0) : record.hasReturned == true ? (1, 0) : (0, 1)
                // A part that is undone alone learns the outcome of the transaction, which other writes may have committed.
                let learnsOfOtherWrites =
                    record.runs == 1 && record.hasReturned == false && !Self.isOfTransaction(record.error)
                let isTrue =
                    learnsOfOtherWrites
                    ? record.commits + record.rollbacks == 1 : completions == (record.commits, record.rollbacks)
                if !isTrue { Issue.record("\(number): completions \(record)") }
                calls += record.commits + record.rollbacks
                if [.committed, .caught].contains(record.fate), let error = record.error {
                    lost += 1
                    if !Self.isOfAnother(error) { Issue.record("\(number) has failed by itself: \(record)") }
                }
                if [.thrown, .orRollback, .trigger, .rollback, .commit, .danglingReference, .veto, .full].contains(
                    record.fate
                ),
                    record.hasReturned == true
                {
                    Issue.record("\(number) has returned: \(record)")
                }
            }
            print(
                "\(count) shared writes: \(returned) returned, \(lost) lost with another's transaction, \(calls) completions,",
                "in \(ContinuousClock.now - began)"
            )
            #expect(lost > count / 1000 && returned > count / 2, "nothing was tested")
        }
    }

    /// Whether the error of an innocent write is that of a transaction that it shared, or of the gate.
    private static func isOfAnother(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return error is Vetoed }
        if error.extendedResultCode == .SQLITE_ABORT_ROLLBACK || error.isSuspension { return true }
        return [.SQLITE_FULL, .SQLITE_INTERRUPT].contains(error.resultCode)
    }

    /// Whether the error says that the whole transaction is lost.
    private static func isOfTransaction(_ error: (any Error)?) -> Bool {
        if error is Vetoed { return true }
        guard let error = error as? DatabaseError else { return false }
        return error.extendedResultCode == .SQLITE_ABORT_ROLLBACK || error.isSuspension
    }

    private static func write(
        _ number: Int,
        _ fate: Fate,
        _ process: ProcessSuspension,
        _ db: SharedDatabase,
        _ records: Shared<[Record]>
    ) async {
        // Each has a line of code of its own, or the closures that end transactions would soon be alone.
        let writing = Task {
            try await db.write(file: "Campaign.swift", line: UInt(number)) { db in
                records.change { $0[number].runs += 1 }
                db.afterNextTransaction(
                    onCommit: { _ in records.change { $0[number].commits += 1 } },
                    onRollback: { _ in records.change { $0[number].rollbacks += 1 } }
                )
                try db.execute(sql: "INSERT INTO written (n) VALUES (?)", arguments: [number])
                try meet(fate, db)
            }
        }
        switch fate {
        case .cancelled: writing.cancel()
        case .interrupted: db.interrupt()
        case .suspended:
            _ = await Task.detached { process.suspend(until: MonotonicClock.now + 60_000_000_000) }.value
            process.resume()
        default: break
        }
        let result = await writing.result
        records.change {
            switch result {
            case .success: $0[number].hasReturned = true
            case .failure(let error): ($0[number].hasReturned, $0[number].error) = (false, error)
            }
        }
    }

    private static func meet(_ fate: Fate, _ db: Database) throws {
        switch fate {
        case .committed, .interrupted, .cancelled, .suspended: break
        case .thrown: throw Thrown()
        case .caught: try? db.execute(sql: "INSERT INTO written (n) VALUES (NULL)")
        case .orRollback:
            try db.execute(sql: "INSERT OR ROLLBACK INTO written (id, n) VALUES (last_insert_rowid(), 0)")
        case .trigger: try db.execute(sql: "INSERT INTO guarded VALUES (1)")
        case .rollback: try db.execute(sql: "ROLLBACK")
        case .commit: try db.execute(sql: "COMMIT")
        case .danglingReference: try db.execute(sql: "INSERT INTO child VALUES (-1)")
        case .veto: try db.execute(sql: "INSERT INTO vetoed VALUES (1)")
        case .full:
            let pages = try Int.fetchOne(db, sql: "PRAGMA page_count")!
            defer { try? db.execute(sql: "PRAGMA max_page_count = 1000000000") }
            try db.execute(sql: "PRAGMA max_page_count = \(pages)")
            try db.execute(sql: "INSERT INTO guarded SELECT 1 WHERE 0; INSERT INTO vetoed VALUES (zeroblob(1000000))")
        }
    }
}
