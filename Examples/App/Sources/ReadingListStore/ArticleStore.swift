import Foundation
import GRDB
import ReadingList
import Roundtable

/// The app's side: the database. No other process opens it.
public final class ArticleStore: Sendable {
    public let database: SharedDatabase
    /// It publishes for as long as it is alive.
    private let publisher: SnapshotPublisher

    /// Opens the database. The commands that waited in the outbox are applied when this returns, up to the limit of `drainOnOpen`; new
    /// commands are applied as they arrive.
    ///
    /// - Parameters:
    ///   - url: the URL of the database, in the app's own container.
    ///   - files: what the app shares with its extensions.
    ///   - options: the options of the database; this adds the outbox.
    public static func open(
        at url: URL,
        sharing files: SharedFiles,
        options: SharedDatabase.Options = SharedDatabase.Options()
    ) async throws -> ArticleStore {
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        var options = options
        options.outbox = readingListHandlers
        options.outboxFolder = files.outboxFolder
        let database = try await SharedDatabase.open(at: url, schema: readingListSchema, as: "app", options: options)
        let publisher = try database.publish(
            to: files.widgetState(as: "app"),
            reloading: WidgetReloads(ofKinds: ["ReadingList"]),
            Article.widgetState
        )
        return ArticleStore(database, publisher)
    }

    private init(_ database: SharedDatabase, _ publisher: SnapshotPublisher) {
        self.database = database
        self.publisher = publisher
    }

    public func articles() async throws -> [Article] { try await database.read(Article.list) }

    /// The list now, and after each change of it.
    public func values() -> AsyncValueObservation<[Article]> {
        ValueObservation.tracking(Article.list).removeDuplicates().values(in: database)
    }

    /// Applies a command now, or leaves it in the outbox if the database is suspended or busy. An intent may run in the background: hence
    /// the protected access, which asks the system for time.
    public func perform(_ command: some OutboxCommand) async throws {
        try await database.withProtectedAccess(type(of: command).name) { _ = try await self.database.perform(command) }
    }

    /// For background tasks: opens the gate, applies what waits in the outbox, publishes, and closes the gate again.
    public func refresh() async throws { try await database.deliver("refresh") }

    /// Publishes what was not published yet, and closes the database.
    public func close() throws { try database.close() }
}
