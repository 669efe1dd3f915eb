import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Keeps a snapshot file equal to what a closure fetches from a database.
/// See ``SharedDatabase/publish(to:atMostEvery:reloading:onPublish:_:)``.
///
/// Publishing continues until the publisher is cancelled or released, or the database is closed. The publisher keeps the database
/// open, so the program need not keep the database itself.
public final class SnapshotPublisher: Sendable {
    private let publishing: SnapshotPublishing

    init(_ publishing: SnapshotPublishing) { self.publishing = publishing }

    deinit { publishing.end() }

    /// Ends publishing. Changes that are not published yet stay unpublished: call `publish()` before, if they matter.
    public func cancel() { publishing.end() }

    /// Whether no fetch is running or pending. For tests.
    var isAtRest: Bool { publishing.isAtRest }

    /// Makes the file hold the present state of the database, whatever the interval. This works while the database is suspended, too,
    /// as long as it can be read.
    ///
    /// - returns: the information about the value that readers get. The file is not written when it holds the value already.
    /// - throws: what the closure throws; ``SnapshotFileError``, which is ``SnapshotFileError/publishingEnded(path:)`` once
    ///   publishing has ended; `DatabaseError`.
    @_disfavoredOverload
    @discardableResult
    public func publish() throws -> SnapshotInfo { try publishing.publishTelling() }

    /// Makes the file hold the present state of the database, whatever the interval, without blocking the thread.
    ///
    /// Results and errors are those of the blocking form.
    @discardableResult
    public func publish() async throws -> SnapshotInfo {
        try await offThread { [publishing] in Result { try publishing.publishTelling() } }.get()
    }
}

extension SharedDatabase {
    /// Keeps a snapshot file equal to what a closure fetches, whichever program changes the database: this process, other processes,
    /// or programs that do not know Roundtable.
    ///
    /// ```swift
    /// let publisher = try db.publish(to: file, reloading: WidgetReloads(ofKinds: ["Tasks"])) { db in
    ///     try WidgetState(openTasks: Task.filter(Column("isDone") == false).fetchCount(db))
    /// }
    /// ```
    ///
    /// It fetches immediately, and after each commit that changes a table that the closure reads. Two writes of the file are at least the
    /// interval apart, and the last state is always published. A value whose bytes the file already holds is not written, also after
    /// a restart. Several processes may publish to one file, and a process to several files. A read-only participant may publish,
    /// too, because the file is not the database.
    ///
    /// Pending changes are published before the database is suspended, within the deadline, and when it is closed. A failed attempt
    /// is reported (the event `publishing`, with a ``PublishingEvent``) and retried after 250 ms, 500 ms … at most a minute later; the file
    /// stays as it is until then.
    ///
    /// - Parameters:
    ///   - file: the file to write. If it is removed or damaged meanwhile, it is written again after the next change.
    ///   - interval: the shortest time between two writes.
    ///   - reloads: the widgets that read the file, to be reloaded after it was written.
    ///   - onPublish: called each time the file was written, one call at a time, on a queue of the library. Publishing waits until it
    ///     returns, and suspensions do so until their deadline.
    ///   - fetch: reads the database, on a connection of the library. Its value should be small, and the same for the same content of
    ///     the database: it should not contain the present time.
    /// - returns: the publisher, which ends publishing when it is cancelled or released. It keeps the database open.
    /// - throws: `DatabaseError`, when the database cannot be observed.
    public func publish<Value>(
        to file: SnapshotFile<Value>,
        atMostEvery interval: Duration = .seconds(1),
        reloading reloads: WidgetReloads? = nil,
        onPublish: (@Sendable (SnapshotInfo) -> Void)? = nil,
        _ fetch: @escaping @Sendable (Database) throws -> Value
    ) throws -> SnapshotPublisher {
        try checkProcess()
        let publishing = SnapshotPublishing(
            file.store,
            file.encoding.kind,
            database: self,
            interval: interval.nanoseconds,
            reloads: reloads,
            onPublish: onPublish
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
