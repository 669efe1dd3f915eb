import GRDB

extension ValueObservation where Reducer: ValueReducer {
    /// Starts this observation where it tells an error, `SQLITE_MISUSE`, and nothing else: of a database that is closed, or cannot
    /// be opened.
    func failing(
        _ scheduler: some ValueObservationScheduler,
        _ onChange: @escaping @Sendable (Reducer.Value) -> Void
    ) -> AnyDatabaseCancellable {
        // GRDB crashes where it fetches at once on a closed connection; later, it tells the error.
        DatabaseQueue.closed._add(observation: self, scheduling: Later(base: scheduler), onChange: onChange)
    }
}

extension DatabaseQueue {
    fileprivate static let closed: DatabaseQueue = {
        var configuration = Configuration()
        configuration.readonly = true
        do {
            let queue = try DatabaseQueue(configuration: configuration)
            try queue.close()
            return queue
        } catch {
            preconditionFailure("a database in memory can be opened and closed: \(error)")
        }
    }()
}

/// A scheduler that never wants the first value at once.
struct Later<Base: ValueObservationScheduler>: ValueObservationScheduler {
    let base: Base
    func immediateInitialValue() -> Bool { false }
    func schedule(_ action: @escaping @Sendable () -> Void) { base.schedule(action) }
}
