import Dispatch
import Synchronization

/// Runs tasks on the thread that a commit wakes, when it is news that they wait for.
///
/// A task that waits for the next change usually goes on on another thread than the one that learned of it; waking that takes several times as
/// long as the news themselves. With this executor it goes on at once:
///
/// ```swift
/// Task(executorPreference: ChangesExecutor.shared) {
///     for try await change in db.changes(in: Player.all()) { … }
/// }
/// ```
///
/// While the task runs there, its process learns of no other commits: it must be quick, or hand over what takes long. What it does after
/// waiting for anything else runs on the system's threads. Other processes never wait.
public final class ChangesExecutor: TaskExecutor {
    public static let shared = ChangesExecutor()

    private init() {}

    /// What the thread that hands out news is to do once it has handed them out.
    private final class Agenda: Sendable {
        private let items = Mutex<[@Sendable () -> Void]>([])
        func add(_ item: @escaping @Sendable () -> Void) { items.withLock { $0.append(item) } }
        func takeAll() -> [@Sendable () -> Void] {
            items.withLock { items in
                defer { items = [] }
                return items
            }
        }
    }

    /// Set on a thread while it hands out news.
    @TaskLocal private static var agenda: Agenda?

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        Self.runSoon { job.runSynchronously(on: executor) }
    }

    /// On the thread that hands out news, once it has; else on a thread of the system.
    static func runSoon(_ body: @escaping @Sendable () -> Void) {
        if let agenda { agenda.add(body) } else { DispatchQueue.global(qos: .userInitiated).async(execute: body) }
    }

    /// Runs `body`, which hands out news, and then what it gave rise to.
    static func handingOut<T>(_ body: () -> T) -> T {
        let agenda = Agenda()
        let result = $agenda.withValue(agenda, operation: body)
        // Each of them may be the one that stops the thread.
        for item in agenda.takeAll() { item() }
        return result
    }
}
