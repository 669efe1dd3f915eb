import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableToolSupport

/// The tables by size, and the consumers of the history: what takes longer to read than a status.
///
/// All of it is one read transaction that SQLite interrupts after `patience`, so that no checkpoint waits for it.
struct TableSizes: Encodable {
    struct Table: Encodable {
        let name: String
        /// With its indexes; nil when the pages were not counted.
        var bytes: Int?
        /// The largest rowid, which is the number of rows if none was deleted; nil for tables without rowids, and where pages were counted.
        var largestRowid: Int64?

        enum CodingKeys: String, CodingKey {
            case name, bytes
            case largestRowid = "largest_rowid"
        }
    }

    struct Consumer: Encodable {
        let name: String
        let backlog: Int
        let lastSeen: Date
        let state: HistoryConsumer.State

        enum CodingKeys: String, CodingKey {
            case name, backlog, state
            case lastSeen = "last_seen"
        }
    }

    /// The largest first.
    var tables: [Table] = []
    /// How many tables are left out.
    var moreTables = 0
    /// nil when no history is recorded, or when it could not be read.
    var consumers: [Consumer]?
    /// Why something is missing, in plain words; nil when nothing is.
    var note: String?

    enum CodingKeys: String, CodingKey {
        case tables, consumers, note
        case moreTables = "more_tables"
    }

    static let patience: Nanoseconds = 50_000_000
    /// Counting the pages of a larger database would take longer than `patience`.
    static let largestCounted = 64 << 20
    private static let mostTables = 40

    init(_ url: URL) {
        do {
            let onlooker = try Onlooker(url)
            let queue = try onlooker.connection(waitingUpTo: .milliseconds(100))
            try queue.read { db in
                try Self.limited(db) {
                    if try db.tableExists("roundtable_history_consumers") {
                        consumers = try DatabaseHistory.consumers(in: db).map {
                            Consumer(name: $0.name, backlog: $0.backlog, lastSeen: $0.lastSeen, state: $0.state)
                        }
                    }
                }
                try readTables(db, size: onlooker.size)
            }
            try queue.close()
        } catch {
            note = ToolError.line(for: error)
        }
        moreTables = max(0, tables.count - Self.mostTables)
        tables = Array(tables.prefix(Self.mostTables))
    }

    private mutating func readTables(_ db: Database, size: Int) throws {
        do {
            guard size <= Self.largestCounted else {
                note = "The pages are not counted: the database is larger than \(Self.largestCounted.byteSize)."
                return try Self.limited(db) { try readLargestRowids(db) }
            }
            try Self.limited(db) {
                // An index counts to its table. A table that SQLite keeps for itself has no row in sqlite_master.
                let rows = try Row.fetchAll(
                    db,
                    sql: """
                        SELECT coalesce(m.tbl_name, s.name) AS name, sum(s.pgsize) AS bytes
                        FROM dbstat AS s LEFT JOIN main.sqlite_master AS m ON m.name = s.name
                        GROUP BY 1 ORDER BY 2 DESC, 1
                        """
                )
                tables = rows.map { Table(name: $0["name"], bytes: $0["bytes"]) }
            }
        } catch let error as DatabaseError {
            note =
                error.resultCode == .SQLITE_INTERRUPT
                ? "The pages are not counted: that takes longer than \(Self.patience / 1_000_000) ms."
                : "The pages are not counted: \(error.message ?? "\(error.extendedResultCode)")."
            try Self.limited(db) { try readLargestRowids(db) }
        }
    }

    private mutating func readLargestRowids(_ db: Database) throws {
        let names = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_master
                WHERE type = 'table' AND rootpage > 0 ORDER BY name LIMIT 200
                """
        )
        tables = names.map { name in
            // A table without rowids has no such column.
            let largest = try? Int64.fetchOne(db, sql: "SELECT max(rowid) FROM main.\(name.quotedDatabaseIdentifier)")
            return Table(name: name, largestRowid: largest)
        }
        tables.sort { ($1.largestRowid ?? -1, $0.name) < ($0.largestRowid ?? -1, $1.name) }
    }

    /// Runs `body`, whose statements fail with `SQLITE_INTERRUPT` after `patience`.
    private static func limited(_ db: Database, _ body: () throws -> Void) throws {
        var deadline = MonotonicClock.now + patience
        try withUnsafeMutablePointer(to: &deadline) { deadline in
            let isLate: @convention(c) (UnsafeMutableRawPointer?) -> Int32 = { deadline in
                MonotonicClock.now > deadline!.assumingMemoryBound(to: Nanoseconds.self).pointee ? 1 : 0
            }
            // Every 1000 steps of SQLite's virtual machine (https://www.sqlite.org/c3ref/progress_handler.html).
            sqlite3_progress_handler(db.sqliteConnection, 1000, isLate, deadline)
            defer { sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
            try body()
        }
    }
}
