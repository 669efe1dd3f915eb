import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableDelivery
import RoundtableFiles
import RoundtableKernel
import Testing

/// What the tests of the outbox submit: a row of the table `entry`.
package struct AddEntry: OutboxCommand, Equatable {
    package static let name = "add-entry"
    package static let version = 1
    package var text: String

    package init(text: String) { self.text = text }
}

/// The same, in a later version of the program.
package struct AddEntry2: OutboxCommand {
    package static let name = "add-entry"
    package static let version = 2
    package var text: String
    package var stars: Int

    package init(text: String, stars: Int) { (self.text, self.stars) = (text, stars) }
}

package struct Refused: Error, Equatable {
    package init() {}
}

extension OutboxHandlers {
    /// Inserts entries. `before` may throw.
    package static func entries(before: @escaping @Sendable (AddEntry) throws -> Void = { _ in }) -> OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.gracePeriod = .zero
        handlers.handle(AddEntry.self) { db, command, info in
            try db.execute(
                sql: "INSERT INTO entry (text, sender) VALUES (?, ?)",
                arguments: [command.text, info.sender]
            )
            try before(command)
        }
        return handlers
    }

    /// With a clock that a test moves, and the events that it tells.
    package func played(_ clock: Shared<Date> = Shared(Date()), events: Shared<[String]> = Shared([])) -> OutboxHandlers
    {
        var handlers = self
        handlers.environment.now = { clock.value }
        handlers.environment.note = { event in
            let text =
                switch event {
                case .attemptFailed(let info, let error, _): "attempt \(info.attempt) failed: \(error)"
                case .setAside(let letter): "set aside \(letter.reason)"
                case .damagedFile(_, let reason): "damaged: \(reason)"
                case .waitsForNewerVersion: "newer"
                case .otherDatabase(_, let database, let owner): "other database: \(database), of \(owner)"
                case .otherFolder(_, let folder, let owner): "other folder: \(folder), of \(owner)"
                case .failed(let error): "failed: \(error)"
                }
            events.change { $0.append(text) }
        }
        return handlers
    }
}

/// A database with a table for entries, and its outbox.
package final class OutboxWorld: Sendable {
    package let folder: TemporaryFolder
    package var url: URL { folder.file("db.sqlite") }
    package var commands: URL { folder.file("db.sqlite-outbox/commands") }

    /// The outcome that a sender receives before there is a database.
    package var noDatabase: OutboxOutcome { .noDatabase(path: url.resolvingSymlinksInPath().path) }

    package init() throws { folder = try TemporaryFolder() }

    /// - parameter path: of a folder that is there.
    package init(inFolder path: String) { folder = TemporaryFolder(path) }

    private static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(sql: "CREATE TABLE entry (id INTEGER PRIMARY KEY, text TEXT NOT NULL, sender TEXT)")
        }
        return SharedSchema(migrator)
    }

    package func open(as author: String = "app", _ change: (inout SharedDatabase.Options) -> Void = { _ in }) throws
        -> SharedDatabase
    {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: Self.schema, as: author, options: options)
    }

    package func outbox(_ sender: String = "widget", _ change: (inout CommandOutbox.Options) -> Void = { _ in }) throws
        -> CommandOutbox
    {
        var options = CommandOutbox.Options()
        options.durability = .process
        change(&options)
        return try CommandOutbox(forDatabaseAt: url, as: sender, options: options)
    }

    /// The names of what lies in a folder of the outbox.
    package func files(_ name: String = "commands") -> [String] {
        let path = folder.file("db.sqlite-outbox/\(name)").path
        return ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
    }

    /// Drained by hand: the drain's thread would be in the way.
    package func rounds(_ db: SharedDatabase, _ handlers: OutboxHandlers) -> HandDrain { HandDrain(db, handlers) }
}

/// A drain without a thread.
package final class HandDrain: @unchecked Sendable {
    // @unchecked: for one thread at a time.
    private let db: SharedDatabase
    private let drain: OutboxDrain

    package init(_ db: SharedDatabase, _ handlers: OutboxHandlers) {
        self.db = db
        drain = OutboxDrain(unattended: db, handlers: handlers)
    }

    @discardableResult
    package func callAsFunction() throws -> OutboxReport { try drain.drain() }
}

extension SharedDatabase {
    package func texts() throws -> [String] {
        try read { try String.fetchAll($0, sql: "SELECT text FROM entry ORDER BY id") }
    }
}

/// Whether an error says that a file is lost to this participant.
package func isLoss(_ error: any Error, of db: SharedDatabase, _ file: LostFile.File = .database) -> Bool {
    if case SharedDatabaseError.fileLost(let path, let lost) = error {
        lost.file == file && path == db.path
    } else {
        false
    }
}
