import GRDB
import RoundtableCore
import RoundtableGate
import RoundtableKernel
import Synchronization

/// A job that a handler of ``JobQueue/run(in:workers:untilEmpty:_:)`` works on: one attempt.
///
/// What is written in the transaction that completes the job is in the database exactly once. Everything else that the handler does may
/// be repeated by a later attempt: send the id of the job along, so that others can recognize a repetition.
public struct Job<Payload: Codable & Sendable>: Sendable {
    public let id: Int64
    public let payload: Payload
    public let priority: Int
    /// The number of this attempt, from 1 on. No other attempt of the job has it.
    public let attempt: Int64
    /// The number of attempts that have failed before.
    public let failures: Int
    /// Whether the job is ``JobState/dead`` if this attempt fails.
    public let isLastAttempt: Bool

    let running: RunningJob

    /// Completes the job in the transaction of `db`, which holds the effects of the job. Call it first in the transaction: if the attempt
    /// has lost the job, nothing else is then done in vain.
    ///
    /// - throws: ``JobError/attemptLost(queue:job:attempt:reason:)``: let it end the transaction, which is rolled back; `DatabaseError`.
    public func complete(in db: Database) throws {
        try running.complete(in: db)
    }

    /// Runs `updates` in a write transaction that also completes the job: either both are committed, or neither.
    ///
    /// Call it once: a second call of the same attempt runs its `updates`, too.
    ///
    /// It is not cancelled with the handler's task, and waits while the database is suspended. `updates` runs once at most. It fails with
    /// `SQLITE_ABORT_ROLLBACK` if another write of this process has ended the transaction that they shared (<doc:WritesAndCheckpoints>).
    ///
    /// - throws: what `updates` throws; ``JobError/attemptLost(queue:job:attempt:reason:)``, without having called `updates`;
    ///   `DatabaseError`.
    @discardableResult
    public func complete<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        let running = running
        let result = try await uncancelled {
            try await running.database.write(whileSuspended: .wait) { db in
                try running.complete(in: db)
                return try updates(db)
            }
        }
        running.settle()
        return result
    }

    /// Whether the worker knows that this attempt has lost the job. The handler's task is then cancelled.
    public var isLost: Bool { running.isLost }
}

/// An attempt in progress.
final class RunningJob: Sendable {
    private struct State {
        var task: Task<Void, Never>?
        var isLost = false
        /// Whether a transaction has completed the job that may still have been rolled back.
        var mayBeComplete = false
        /// Whether the job is complete.
        var isSettled = false
    }

    let token: JobToken
    let database: SharedDatabase
    let began = MonotonicClock.now
    private let clock: JobClock
    private let state = Mutex(State())

    init(_ token: JobToken, _ database: SharedDatabase, _ clock: @escaping JobClock) {
        (self.token, self.database, self.clock) = (token, database, clock)
    }

    func complete(in db: Database) throws {
        try JobTable.complete(token, at: clock(), db)
        state.withLock { $0.mayBeComplete = true }
    }

    func settle() { state.withLock { $0.isSettled = true } }
    var isSettled: Bool { state.withLock { $0.isSettled } }
    var mayBeComplete: Bool { state.withLock { $0.mayBeComplete } }
    var isLost: Bool { state.withLock { $0.isLost } }

    func begin(_ task: Task<Void, Never>) { state.withLock { $0.task = task } }
    var task: Task<Void, Never>? { state.withLock { $0.task } }
    func cancel() { task?.cancel() }

    func lose() {
        state.withLock { $0.isLost = true }
        cancel()
    }
}

/// Runs `body` to its end, even if the calling task is cancelled.
func uncancelled<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) async throws -> T {
    try await Task { try await body() }.value
}
