import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// A database whose writer is kept busy, so that asynchronous writes form a group.
final class SharedCommitWorld: @unchecked Sendable {
    // @unchecked: `tasks` is used by one test, in one task.
    let folder: TemporaryFolder
    let db: SharedDatabase
    let process: ProcessSuspension
    let commits = Shared(0)
    private let hold = DispatchSemaphore(value: 0)
    private let thread = OneThread()
    private(set) var tasks: [Task<Int, any Error>] = []

    init(
        _ process: ProcessSuspension = ProcessSuspension(),
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws {
        self.process = process
        folder = try TemporaryFolder()
        var options = SharedDatabase.Options()
        options.process = process
        // The slice of 2 ms would end a group early on a machine that pauses.
        options.slice = .seconds(1)
        change(&options)
        db = try SharedDatabase.open(
            at: folder.file("a.db"),
            schema: SharedSchema(migrator()),
            as: "test",
            options: options
        )
        try db.write { db in
            try db.execute(sql: "CREATE TABLE child (parent REFERENCES player DEFERRABLE INITIALLY DEFERRED)")
            db.add(transactionObserver: CommitCounter(commits), extent: .databaseLifetime)
        }
        commits.change { $0 = 0 }
    }

    /// Keeps the writer busy until `release()`, outside of a transaction.
    func keepWriterBusy() {
        db.asyncWriteWithoutTransaction { [hold] _ in hold.wait() }
        // This one is alone, so it waits on the writer's queue, and all that come later form a group.
        add { _ in 0 }
    }

    func release() { hold.signal() }

    /// Requests a write, and waits until it has its place.
    ///
    /// - parameter line: the line of code that the write names as its own.
    func add(
        line: UInt = 1,
        sharing: Bool? = nil,
        whileSuspended: WhileSuspended? = nil,
        _ updates: @escaping @Sendable (Database) throws -> Int
    ) {
        let before = db.sharedCommits.requestCount
        tasks.append(
            Task(executorPreference: thread) { [db] in
                try await db.write(
                    sharesCommit: sharing,
                    whileSuspended: whileSuspended,
                    file: "Test.swift",
                    line: line,
                    updates
                )
            }
        )
        guard sharing ?? db.options.sharesCommits else { return }
        waitUntil("the write is requested", within: .seconds(30)) { db.sharedCommits.requestCount != before }
        // The thread that requests it schedules it, too, before it does anything else.
        thread.queue.sync {}
    }

    func insert(_ name: String) {
        add { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: [name])
            return Int(db.lastInsertedRowID)
        }
    }

    /// The results of all writes but the first, which keeps its place.
    func results() async -> [Result<Int, any Error>] {
        var results: [Result<Int, any Error>] = []
        for task in tasks.dropFirst() { results.append(await task.result) }
        return results
    }

    var names: [String] {
        get throws { try db.read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") } }
    }
}

/// Counts the commits of a database.
private final class CommitCounter: TransactionObserver {
    let count: Shared<Int>
    init(_ count: Shared<Int>) { self.count = count }
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) { count.change { $0 += 1 } }
    func databaseDidRollback(_ db: Database) {}
}

/// Runs tasks on one thread at a time.
private final class OneThread: TaskExecutor {
    let queue = DispatchQueue(label: "tasks")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
