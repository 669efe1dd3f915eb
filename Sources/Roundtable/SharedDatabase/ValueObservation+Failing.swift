import GRDB
import Synchronization

extension ValueObservation where Reducer: ValueReducer {
    /// Starts this observation where it tells an error and nothing else: of a database that is closed, or cannot be opened.
    func failing(
        with error: any Error,
        _ scheduler: some ValueObservationScheduler,
        _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        // Not in another cancellable: nobody may keep what is returned, and the error is told all the same.
        DatabasePool.failing(with: error)
            ._add(observation: self, scheduling: Later(base: scheduler), onChange: onChange)
    }
}

extension DatabasePool {
    /// Only a fetch can tell an observation of an error, and this one fails to open the connection for it. GRDB observes a read-only pool by
    /// reading once.
    fileprivate static func failing(with error: any Error) -> DatabasePool {
        let opening = Opening()
        var configuration = Configuration()
        configuration.readonly = true
        configuration.prepareDatabase { _ in
            // The first connection of a pool is its writer's.
            if opening.isDone.exchange(true, ordering: .relaxed) { throw error }
        }
        do {
            return try DatabasePool(path: ":memory:", configuration: configuration)
        } catch {
            preconditionFailure("a database in memory can be opened: \(error)")
        }
    }
}

private final class Opening: Sendable {
    let isDone = Atomic(false)
}

/// A scheduler that never wants the first value at once.
struct Later<Base: ValueObservationScheduler>: ValueObservationScheduler {
    let base: Base
    func immediateInitialValue() -> Bool { false }
    func schedule(_ action: @escaping @Sendable () -> Void) { base.schedule(action) }
}
