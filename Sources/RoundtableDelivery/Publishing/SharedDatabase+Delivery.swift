import RoundtableCore
import RoundtableKernel

extension SharedDatabase {
    /// Applies the commands that wait in the outbox, and publishes the result to the snapshot files, also while the process is in the
    /// background. For silent pushes, background tasks, and intents that run in the app.
    ///
    /// ```swift
    /// func application(_ app: UIApplication, didReceiveRemoteNotification info: [AnyHashable: Any]) async -> UIBackgroundFetchResult {
    ///     do { try await db.deliver(); return .newData } catch { return .failed }
    /// }
    /// ```
    ///
    /// It is a ``withProtectedAccess(_:_:)-method`` that returns when nothing is left to do: all drains of this database have taken the
    /// waiting commands (``Options/outbox``, ``DatabaseOutbox/drain(with:)``), and all its publishers have published, called `onPublish`, and
    /// requested reloads.
    ///
    /// - parameter name: the purpose, in words for people.
    /// - returns: what this call has done. Commands that the drains' own threads have taken meanwhile are not included, so an empty
    ///   report does not mean that no command waited.
    /// - throws: ``SharedDatabaseError/assertionRefused(name:)`` when the database is suspended and the system gives no time;
    ///   `DatabaseError`, with `isSuspension` when the system has taken the time back (commands that were not applied keep waiting),
    ///   and with `SQLITE_MISUSE` once the database is closed; ``OutboxError``; ``SnapshotFileError``; what a publisher's closure
    ///   throws.
    @discardableResult
    public func deliver(_ name: String? = nil) async throws -> OutboxReport {
        try checkOpen()
        return try await withProtectedAccess(name) {
            try await offThread { Result { try self.deliverNow() } }.get()
        }
    }

    /// Applies the commands that wait in the outbox, and publishes the result to the snapshot files, blocking the calling thread.
    ///
    /// Parameters and errors are those of the asynchronous form.
    @_disfavoredOverload
    @discardableResult
    public func deliver(_ name: String? = nil) throws -> OutboxReport {
        try checkOpen()
        return try withProtectedAccess(name) { try deliverNow() }
    }

    private func deliverNow() throws -> OutboxReport {
        let report = try drains.drain()
        try publishers.publish()
        return report
    }
}
