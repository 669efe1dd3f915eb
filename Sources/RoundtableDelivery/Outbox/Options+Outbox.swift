import Foundation
import RoundtableCore
import RoundtableFiles

extension SharedDatabase.Options {
    /// How this participant applies the commands that other processes submit for this database (``CommandOutbox``). nil, the
    /// default: other participants apply them. Read-only participants ignore it.
    public var outbox: OutboxHandlers? {
        get { outboxOptions.handlers }
        set { outboxOptions.handlers = newValue }
    }

    /// The folder of the outbox. nil, the default: `NAME-outbox` beside the database. The folder need not exist, but its
    /// parent folder must.
    ///
    /// Set it when senders cannot access the folder of the database, such as the app's own container: choose a folder in the
    /// App Group's container, and let senders use ``CommandOutbox/init(at:as:options:)``. All participants should use the same
    /// folder, because an owner only applies the commands in its own. One folder belongs to one database, because commands do
    /// not name theirs. Owners report a violation: ``OutboxEvent``.
    public var outboxFolder: URL? {
        get { outboxOptions.folder }
        set { outboxOptions.folder = newValue }
    }

    /// Whether the pending commands in the outbox are applied before opening returns, so that the first read sees them. A
    /// command that fails does not make opening fail.
    public var drainOnOpen: Bool {
        get { outboxOptions.drainOnOpen }
        set { outboxOptions.drainOnOpen = newValue }
    }

    /// How long opening applies pending commands. The rest is applied in the background.
    public var drainOnOpenLimit: Duration {
        get { outboxOptions.drainOnOpenLimit }
        set { outboxOptions.drainOnOpenLimit = newValue }
    }

    private struct OutboxOptions: Sendable {
        var handlers: OutboxHandlers?
        var folder: URL?
        var drainOnOpen = true
        var drainOnOpenLimit = Duration.seconds(2)
    }

    private var outboxOptions: OutboxOptions {
        get { features[OutboxOptions.self] ?? OutboxOptions() }
        set { features[OutboxOptions.self] = newValue }
    }

    func outboxFolder(ofDatabaseAt path: String) throws -> OutboxFolder {
        guard let outboxFolder else { return OutboxFolder(databasePath: path) }
        return try OutboxFolder(at: outboxFolder, databasePath: path)
    }
}
