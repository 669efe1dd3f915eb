import RoundtableKernel

extension SharedDatabase {
    /// Applies what waits in the outbox, and makes snapshot files hold the result, also while the process is in the background: for silent pushes,
    /// background tasks, and intents that run in the app.
    ///
    /// ```swift
    /// func application(_ app: UIApplication, didReceiveRemoteNotification info: [AnyHashable: Any]) async -> UIBackgroundFetchResult {
    ///     do { try await db.deliver(); return .newData } catch { return .failed }
    /// }
    /// ```
    ///
    /// It is a ``withProtectedAccess(_:_:)`` that returns when nothing is left to do: all drains of this database have taken what waited
    /// (``Options/outbox``, ``drainOutbox(with:)``), and all its publishers have published, called `onPublish`, and asked for reloads.
    ///
    /// - parameter name: what for, for people.
    /// - returns: what was done by this call. What the drains' threads were faster with is not in it: it does not tell whether there was anything.
    /// - throws: ``SharedDatabaseError/assertionRefused(name:)`` when the database is suspended and the system gives no time; `DatabaseError`, with
    ///   `isSuspension` when it has taken it back: what was not applied waits, and `SQLITE_MISUSE` once the database is closed. ``OutboxError``; ``SnapshotFileError``; what a publisher's
    ///   closure throws.
    @discardableResult
    public func deliver(_ name: String? = nil) async throws -> OutboxReport {
        try checkOpen()
        return try await withProtectedAccess(name) {
            try await offThread { Result { try self.deliverNow() } }.get()
        }
    }

    /// The same, blocking the calling thread.
    @_disfavoredOverload
    @discardableResult
    public func deliver(_ name: String? = nil) throws -> OutboxReport {
        try checkOpen()
        return try withProtectedAccess(name) { try deliverNow() }
    }

    private func deliverNow() throws -> OutboxReport {
        let report = try drains.drainNow()
        try publishers.publishNow()
        return report
    }
}
