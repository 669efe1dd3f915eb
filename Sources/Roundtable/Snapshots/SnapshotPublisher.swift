import GRDB
import RoundtableKernel

/// Keeps a snapshot file equal to what a closure fetches from a database.
/// See ``SharedDatabase/publish(to:atMostEvery:reloading:onPublish:onError:_:)``.
///
/// Publishing goes on until this is cancelled or released, or the database is closed. Until then, it keeps the database open: keep the publisher,
/// and you need not keep the database.
public final class SnapshotPublisher: Sendable {
    private let publishing: SnapshotPublishing

    init(_ publishing: SnapshotPublishing) { self.publishing = publishing }

    deinit { publishing.end() }

    /// Ends it. What is not published yet stays so: call `publishNow()` before, if it matters.
    public func cancel() { publishing.end() }

    /// Whether nothing is being fetched, nor is to be. For tests.
    var isAtRest: Bool { publishing.isAtRest }

    /// Makes the file hold the present state of the database, whatever the interval; also while the database is suspended, as long as it can be
    /// read.
    ///
    /// - returns: what readers are told of the value. When the file held it already, it was not written.
    /// - throws: what the closure throws; ``SnapshotFileError``, which is ``SnapshotFileError/publishingEnded(path:)`` once publishing has ended;
    ///   `DatabaseError`.
    @_disfavoredOverload
    @discardableResult
    public func publishNow() throws -> SnapshotInfo { try publishing.publishTelling() }

    /// The same, without blocking the thread.
    @discardableResult
    public func publishNow() async throws -> SnapshotInfo {
        try await offThread { [publishing] in Result { try publishing.publishTelling() } }.get()
    }
}

extension SharedDatabase {
    /// Keeps a snapshot file equal to what a closure fetches, whoever changes the database: this process, others, programs that do not know
    /// Roundtable.
    ///
    /// ```swift
    /// let publisher = try db.publish(to: file, reloading: WidgetReloads(ofKinds: ["Tasks"])) { db in
    ///     try WidgetState(openTasks: Task.filter(Column("isDone") == false).fetchCount(db))
    /// }
    /// ```
    ///
    /// It fetches at once, and after each commit that changes a table that the closure reads; between two of its writes lies the interval, and the last
    /// state always arrives. A value whose bytes are those that the file holds is not written, also after a restart. Several processes may
    /// publish to one file, and a process to several; a read-only participant may, too: the file is not the database.
    ///
    /// Before the database is suspended, what is not published yet is, within the deadline; and again when it is closed. What fails is tried again after
    /// 250 ms, 500 ms … at most a minute later; the file stays as it is until then.
    ///
    /// - Parameters:
    ///   - file: where to. If it is removed or damaged meanwhile, it is written again after the next change.
    ///   - interval: the shortest time between two writes.
    ///   - reloads: widgets that read the file.
    ///   - onPublish: called each time the file was written, one call at a time, on a queue of the library's. It holds publishing up, and
    ///     suspensions until their deadline.
    ///   - onError: called, there too, with what `fetch` throws, and with ``SnapshotFileError``.
    ///   - fetch: reads the database, on a connection of the library's. Its value should be small, and the same for the same content of the database: no
    ///     present time in it.
    /// - returns: what ends publishing when it is cancelled or released. It keeps the database open.
    /// - throws: `DatabaseError`, when the database cannot be observed.
    public func publish<Value>(
        to file: SnapshotFile<Value>,
        atMostEvery interval: Duration = .seconds(1),
        reloading reloads: WidgetReloads? = nil,
        onPublish: (@Sendable (SnapshotInfo) -> Void)? = nil,
        onError: (@Sendable (any Error) -> Void)? = nil,
        _ fetch: @escaping @Sendable (Database) throws -> Value
    ) throws -> SnapshotPublisher {
        try checkProcess()
        let publishing = SnapshotPublishing(
            file.store,
            file.encoding.kind,
            database: self,
            interval: interval.nanoseconds,
            reloads: reloads,
            onPublish: onPublish,
            onError: onError
        ) { db in
            let value = try fetch(db)
            return SnapshotPublishing.Fetched { try file.encode(value) }
        }
        publishers.add(publishing)
        let publisher = SnapshotPublisher(publishing)
        try publishing.start()
        return publisher
    }
}
