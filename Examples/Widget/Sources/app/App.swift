import Foundation
import GRDB
import Journal
import Roundtable

// app FOLDER   applies what the widget asks for, and publishes what it shows, until it is interrupted

struct Entry: Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "entry"
    var id: Int64?
    var text: String
}

@main
struct App {
    static func main() async throws {
        guard CommandLine.arguments.count == 2 else {
            print("usage: app FOLDER")
            exit(64)
        }
        let files = try JournalFiles(in: URL(fileURLWithPath: CommandLine.arguments[1]), as: "app")

        var migrator = DatabaseMigrator()
        migrator.registerMigration("entries") { db in
            try db.create(table: "entry") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("text", .text).notNull()
            }
        }

        var handlers = OutboxHandlers()
        handlers.handle(AddEntry.self) { db, command in try Entry(text: command.text).insert(db) }

        var options = SharedDatabase.Options()
        options.outbox = handlers
        // Instead of the system's log.
        options.eventLog = .closure { event in print("\(event.severity) \(event.category): \(event)") }
        let db = try await SharedDatabase.open(
            at: files.database,
            schema: Schema(migrator),
            as: "app",
            options: options
        )

        let publisher = try db.publish(to: files.snapshot) { db in
            JournalState(
                entries: try Entry.fetchCount(db),
                latest: try Entry.order(Column("id").desc).fetchOne(db)?.text
            )
        }
        // It publishes for as long as it is alive.
        defer { withExtendedLifetime(publisher) {} }
        print("The app runs. End it with Ctrl-C.")
        while true { try await Task.sleep(for: .seconds(3600)) }
    }
}
