import Foundation
import GRDB
import ReadingList
import Roundtable

public struct Article: Codable, Equatable, Identifiable, Sendable, FetchableRecord, PersistableRecord {
    public var id: Int64?
    public var url: URL
    public var title: String?
    public var added: Date
    public var isRead: Bool

    /// The title, or else the host of the link.
    public var name: String { title ?? url.host ?? url.absoluteString }

    /// The unread articles, the oldest first.
    public static func unread() -> QueryInterfaceRequest<Article> {
        filter(Column("isRead") == false).order(Column("added"), Column("id"))
    }

    /// The unread articles, and then those that were read, the latest first.
    static func list(_ db: Database) throws -> [Article] {
        try unread().fetchAll(db) + filter(Column("isRead") == true).order(Column("id").desc).fetchAll(db)
    }

    /// What the widget shows.
    static func widgetState(_ db: Database) throws -> WidgetState {
        let next = try unread().limit(WidgetState.published).fetchAll(db)
        return WidgetState(
            unread: try unread().fetchCount(db),
            next: next.compactMap { article in article.id.map { WidgetState.Article(id: $0, title: article.name) } }
        )
    }
}

let readingListSchema = SharedSchema(migrator)

private var migrator: DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("articles") { db in
        try db.create(table: "article") { table in
            table.autoIncrementedPrimaryKey("id")
            table.column("url", .text).notNull().unique(onConflict: .ignore)
            table.column("title", .text)
            table.column("added", .datetime).notNull()
            table.column("isRead", .boolean).notNull()
        }
        try db.create(index: "unread", on: "article", columns: ["isRead", "added"])
    }
    return migrator
}

/// What each command does. The buttons of the app perform the same commands, so this is all that writes.
var readingListHandlers: OutboxHandlers {
    var handlers = OutboxHandlers()
    handlers.handle(AddLink.self) { db, link in
        guard ["http", "https"].contains(link.url.scheme?.lowercased()) else {
            // The sender gets this reason, and the command is not retried.
            throw OutboxRefusal("only web pages can be read later, and this is not one: \(link.url)")
        }
        // A link that is already in the list is ignored, by the constraint of its column.
        try Article(url: link.url, title: link.title, added: link.added, isRead: false).insert(db)
    }
    handlers.handle(MarkRead.self) { db, command in
        try Article.filter(key: command.article).updateAll(db, Column("isRead").set(to: true))
    }
    return handlers
}
