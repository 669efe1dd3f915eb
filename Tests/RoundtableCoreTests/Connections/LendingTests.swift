import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// A connection that is lent comes back although all threads of the borrower's executor are blocked: by accesses that wait for this very
/// connection, for example.
@Suite struct LendingTests {
    enum Access: CaseIterable, Sendable {
        case read, unsafeRead, barrier

        func run(_ db: SharedDatabase) async throws {
            switch self {
            case .read: try await db.read { _ in }
            case .unsafeRead: try await db.unsafeRead { _ in }
            case .barrier: try await db.barrierWriteWithoutTransaction { _ in }
            }
        }
    }

    let folder: TemporaryFolder
    let db: SharedDatabase
    let executor = HaltingExecutor()

    init() async throws {
        folder = try TemporaryFolder()
        var options = SharedDatabase.Options()
        options.maximumReaderCount = 1
        db = try await SharedDatabase.open(
            at: folder.file("players.sqlite"),
            schema: SharedSchema(migrator()),
            as: "app",
            options: options
        )
    }

    /// | held read | task | its executor | blocking read |
    /// | --- | --- | --- | --- |
    /// | begins | | | |
    /// | | waits for the held read | | |
    /// | | | halts | |
    /// | | | | waits for the task's access |
    /// | ends | is granted, runs and ends | | |
    /// | | | | runs |
    @Test(arguments: Access.allCases) func aGrantedAccessEnds(_ access: Access) async throws {
        let held = try takeIdle()
        let task = Task(executorPreference: executor) { [db] in try await access.run(db) }
        defer { executor.resume() }
        try await eventually("the task waits") { db.readers.counts.waiting == 1 }
        executor.halt()
        let read = BlockingRead(db)
        try await eventually("the blocking read waits, too") { db.readers.counts.waiting == 2 }
        db.readers.give(held)
        try await eventually("the blocking read ends") { read.hasEnded }
        executor.resume()
        try await task.value
    }

    @Test(arguments: Access.allCases) func anAccessThatBeginsAtOnceEnds(_ access: Access) async throws {
        let task = Task(executorPreference: executor) { [db, executor] in
            switch access {
            case .read: try await db.read { _ in executor.halt() }
            case .unsafeRead: try await db.unsafeRead { _ in executor.halt() }
            case .barrier: try await db.barrierWriteWithoutTransaction { _ in executor.halt() }
            }
        }
        defer { executor.resume() }
        try await eventually("the access runs") { executor.isHalted }
        let read = BlockingRead(db)
        try await eventually("the blocking read ends") { read.hasEnded }
        executor.resume()
        try await task.value
    }

    /// A task that waits for the end of parking is granted a read, too.
    @Test func aTaskThatWaitsForTheEndOfParkingHoldsNoConnection() async throws {
        _ = db.park(until: MonotonicClock.now + 5_000_000_000)
        let task = Task(executorPreference: executor) { [db] in try await db.makeSnapshot().close() }
        defer { executor.resume() }
        try await eventually("the task waits") { db.readers.counts.waiting == 1 }
        executor.halt()
        db.unpark()
        let read = BlockingRead(db)
        try await eventually("the blocking read ends") { read.hasEnded }
        executor.resume()
        try await task.value
    }

    /// Closures that have no queue of their own, and block, leave threads to tasks.
    @Test func closuresThatBlockLeaveThreadsToTasks() async throws {
        let change = DatabaseChange(
            sequence: 1,
            author: nil,
            pid: nil,
            isOwn: false,
            tables: .fullDatabase,
            time: Date(),
            detail: .commit
        )
        let blocking = Atomic(0)
        let end = DispatchGroup()
        end.enter()
        // These are more closures than Dispatch has threads for a global queue.
        let calls = (0..<70).map { _ in
            let buffer = ChangeBuffer(capacity: 1)
            buffer.append(change)
            return CallbackCalls(buffer: buffer, queue: nil) { _ in
                blocking.add(1, ordering: .sequentiallyConsistent)
                end.wait()
            }
        }
        defer { end.leave() }
        for call in calls { call.schedule() }
        try await eventually("all closures block") { blocking.load(ordering: .sequentiallyConsistent) == calls.count }
        await Task(executorPreference: ChangesExecutor.shared) {}.value
    }

    /// A connection that is free now.
    private func takeIdle() throws -> ReaderConnection {
        let taken = Shared<Result<ReaderConnection, any Error>?>(nil)
        db.readers.take(at: nil) { result in taken.change { $0 = result } }
        return try #require(taken.value).get()
    }
}

/// A read that blocks a thread of its own.
private final class BlockingRead: Sendable {
    private let state = Atomic(false)

    init(_ db: SharedDatabase) {
        Thread.detachNewThread { [self] in
            do { try db.read { _ in } } catch { Issue.record(error) }
            state.store(true, ordering: .sequentiallyConsistent)
        }
    }

    var hasEnded: Bool { state.load(ordering: .sequentiallyConsistent) }
}

/// An executor that runs no job while it is halted, like one whose threads are all blocked.
final class HaltingExecutor: TaskExecutor {
    private struct State {
        var isHalted = false
        var jobs: [UnownedJob] = []
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "halting")

    var isHalted: Bool { state.withLock { $0.isHalted } }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isHalted = state.withLock { state in
            if state.isHalted { state.jobs.append(job) }
            return state.isHalted
        }
        if !isHalted { run(job) }
    }

    func halt() { state.withLock { $0.isHalted = true } }

    func resume() {
        let jobs = state.withLock { state in
            defer { state = State() }
            return state.jobs
        }
        jobs.forEach(run)
    }

    private func run(_ job: UnownedJob) {
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
