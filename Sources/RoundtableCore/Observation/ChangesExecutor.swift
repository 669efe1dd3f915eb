import Dispatch
import Synchronization

/// An executor that resumes a task, when the task waits for changes, on the thread that a commit wakes.
///
/// A task that waits for the next change usually resumes on another thread than the one that detects the commit. Waking that other thread
/// takes several times as long as the notification itself. With this executor the task resumes immediately:
///
/// ```swift
/// Task(executorPreference: ChangesExecutor.shared) {
///     for try await change in db.changes(in: Player.all()) { … }
/// }
/// ```
///
/// While the task runs on that thread, its process detects no other commits: the task must be quick, or leave long work to another task.
/// After the task has waited for anything else, it runs on the system's threads. Other processes never wait for it.
public final class ChangesExecutor: TaskExecutor {
    /// The only instance.
    public static let shared = ChangesExecutor()

    private init() {}

    /// The work that a thread runs after it has delivered changes.
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

    /// The agenda of the present thread; nil unless it is delivering changes.
    @TaskLocal private static var agenda: Agenda?

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        Self.runSoon { job.runSynchronously(on: executor) }
    }

    /// Runs `body` soon. If the current thread is delivering changes, `body` runs on it after the delivery; otherwise on `queue`.
    static func runSoon(
        otherwiseOn queue: DispatchQueue = .global(qos: .userInitiated),
        _ body: @escaping @Sendable () -> Void
    ) {
        if let agenda { agenda.add(body) } else { queue.async(execute: body) }
    }

    /// Runs `body`, which delivers changes, and then the work that was enqueued meanwhile.
    static func handingOut<T>(_ body: () -> T) -> T {
        let agenda = Agenda()
        let result = $agenda.withValue(agenda, operation: body)
        // An item may stop the feed that this thread belongs to.
        for item in agenda.takeAll() { item() }
        return result
    }
}
