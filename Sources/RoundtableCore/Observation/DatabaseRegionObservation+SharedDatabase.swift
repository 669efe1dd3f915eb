import GRDB

extension DatabaseRegionObservation {
    /// Starts the observation, like GRDB's function of the same name. On a shared database the observation resumes after a suspension,
    /// whatever the ``SuspensionPolicy``, and the closure is called once for all commits that were made meanwhile. (An observation that
    /// is started through `any DatabaseWriter` does not survive ``SuspensionPolicy/everything``.)
    public func start(
        in database: SharedDatabase,
        onError: @escaping @Sendable (any Error) -> Void,
        onChange: @escaping @Sendable (Database) -> Void
    ) -> AnyDatabaseCancellable {
        let persistent = PersistentObservation(onWriter: true, notifiesAgain: false, fail: onError) { _, queue, _ in
            self.start(in: queue, onError: onError, onChange: onChange)
        }
        do {
            try database.checkProcess()
            try database.observatory.start(persistent)
        } catch {
            onError(error)
        }
        return AnyDatabaseCancellable {
            withExtendedLifetime(database) { database.observatory.end(persistent) }
        }
    }
}
