import Foundation
import GRDB
import Roundtable

/// What senders submit: a row.
struct AddRow: OutboxCommand {
    static let name = "add row"
    static let version = 1
    var sender: Int
    var n: Int
    var text = Statements.text
}

/// What the owner publishes: the number of rows. The text follows from the number, so that a value tells whether it is whole.
struct RowCount: Codable, Sendable, Equatable {
    var n: Int
    var text: String

    init(_ n: Int, size: Int = 60) {
        self.n = n
        text = String(repeating: String(n % 10), count: size)
    }

    var isWhole: Bool { text.utf8.allSatisfy { $0 == UInt8(ascii: "0") + UInt8(n % 10) } }
}

/// Where what is shared lies.
struct SharingPlace: Codable {
    /// Of the database.
    var path: String
    var isDurable: Bool

    var url: URL { URL(fileURLWithPath: path) }
    private var folder: String { path + "-snapshots" }
    var commands: String { path + "-outbox/commands" }

    /// An empty database, in a folder.
    init(in folder: URL, name: String, isDurable: Bool) throws {
        path = try Fixture.create(in: folder, name: name)
        self.isDurable = isDurable
        try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: false)
    }

    func outbox(_ sender: String) throws -> CommandOutbox {
        var options = CommandOutbox.Options()
        options.durability = isDurable ? .machine : .process
        options.maximumCount = .max
        options.maximumBytes = .max
        return try CommandOutbox(forDatabaseAt: url, as: sender, options: options)
    }

    /// - parameter name: what the owner publishes is `rows`.
    func snapshot(_ name: String = "rows") -> SnapshotFile<RowCount> {
        var options = SnapshotFileOptions()
        options.durability = isDurable ? .machine : .process
        return SnapshotFile(at: URL(fileURLWithPath: "\(folder)/\(name)"), as: "bench", options: options)
    }

    /// - parameter outbox: nil for who does not drain.
    func open(drainingFor outbox: OutboxHandlers?) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.outbox = outbox
        options.drainOnOpen = outbox != nil
        options.drainOnOpenLimit = .seconds(3600)
        return try SharedDatabase.open(at: url, schema: SharedSchema(Fixture.migrator), as: "owner", options: options)
    }

    static let handlers: OutboxHandlers = {
        var handlers = OutboxHandlers()
        handlers.handle(AddRow.self) { db, row in
            try db.cachedStatement(sql: Statements.insert).execute(arguments: [row.sender, "\(row.n)"])
        }
        return handlers
    }()
}
