import GRDB
import Synchronization

extension ValueObservation where Reducer: ValueReducer {
    /// Starts this observation so that it only reports an error, for a database that is closed or cannot be opened.
    func failing(
        with error: any Error,
        _ scheduler: some ValueObservationScheduler,
        _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        // The result is not wrapped in another cancellable, so that the error is reported even if the caller does not keep the
        // result.
        DatabasePool.failing(with: error)
            ._add(observation: self, scheduling: Later(base: scheduler), onChange: onChange)
    }
}

extension DatabasePool {
    /// A pool on which an observation fails with `error`. An observation only reports an error of a fetch, and this pool fails to
    /// open the connection for the fetch. GRDB observes a read-only pool by reading once.
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

/// A scheduler that never delivers the first value immediately.
struct Later<Base: ValueObservationScheduler>: ValueObservationScheduler {
    let base: Base
    func immediateInitialValue() -> Bool { false }
    func schedule(_ action: @escaping @Sendable () -> Void) { base.schedule(action) }
}
