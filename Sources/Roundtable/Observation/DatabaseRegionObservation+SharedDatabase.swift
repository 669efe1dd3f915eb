import GRDB

extension DatabaseRegionObservation {
    /// GRDB's function, on a shared database: the observation goes on after the database was suspended, whatever its
    /// ``SuspensionPolicy``. The closure is called once for all commits that were made meanwhile. (Started through `any DatabaseWriter`, it does
    /// not survive ``SuspensionPolicy/everything``.)
    public func start(
        in database: SharedDatabase,
        onError: @escaping @Sendable (any Error) -> Void,
        onChange: @escaping @Sendable (Database) -> Void
    ) -> AnyDatabaseCancellable {
        database.addObservation(self, onError: onError, onChange: onChange)
    }
}

extension SharedDatabase {
    fileprivate func addObservation(
        _ observation: DatabaseRegionObservation,
        onError: @escaping @Sendable (any Error) -> Void,
        onChange: @escaping @Sendable (Database) -> Void
    ) -> AnyDatabaseCancellable {
        let persistent = PersistentObservation(onWriter: true, tellsAnew: false) { queue, _ in
            observation.start(in: queue, onError: onError, onChange: onChange)
        }
        do {
            try checkProcess()
            try observatory.start(persistent)
        } catch {
            onError(error)
        }
        return AnyDatabaseCancellable { [self] in
            withExtendedLifetime(self) { observatory.end(persistent) }
        }
    }
}
