import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport

/// Where the files of a campaign are, below one folder.
enum PowerCutPlaces {
    static let databaseName = "shared.sqlite"
    /// Synced before it gets its name.
    static let snapshotName = "synced.snapshot"
    /// Written without a sync.
    static let unsyncedName = "unsynced.snapshot"

    static func database(_ folder: URL) -> URL { folder.appendingPathComponent(databaseName) }

    static func snapshot(_ folder: URL, isSynced: Bool) -> SnapshotFile<LedgerValue> {
        var options = SnapshotFileOptions()
        options.durability = isSynced ? .machine : .process
        let url = folder.appendingPathComponent(isSynced ? snapshotName : unsyncedName)
        return SnapshotFile(at: url, as: "publisher", options: options)
    }
}

/// The value of a snapshot file. The text is made of the number.
struct LedgerValue: Codable, Sendable, Equatable {
    var number: UInt64
    var text: String

    init(_ number: UInt64) {
        self.number = number
        text = String(repeating: String(number, radix: 16), count: Int(number % 7) * 300 + 10)
    }
}

/// A command of the outbox: number `n`, below 64.
struct LedgerCommand: OutboxCommand {
    static let name = "ledger"
    static let version = 1
    var n: Int

    var id: UUID {
        UUID(uuid: (0xAB, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, UInt8(n)))
    }
}

/// The rows that show what a power cut has done to commits.
///
/// Each transaction takes the next number, and changes pages all over the database. Its rows are equal in two tables, so that half a
/// transaction shows.
enum Ledger {
    /// - parameter recordsHistory: whether the changes of the ledger are in the history, too.
    static func schema(recordsHistory: Bool) -> SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("ledger") { db in
            try db.execute(
                sql: """
                    CREATE TABLE ledger (
                        seq INTEGER PRIMARY KEY, process INTEGER NOT NULL, number INTEGER NOT NULL, stamp TEXT NOT NULL,
                        filler TEXT NOT NULL);
                    CREATE TABLE stamps (seq INTEGER PRIMARY KEY, stamp TEXT NOT NULL);
                    CREATE INDEX ledger_by_stamp ON ledger (stamp);
                    CREATE TABLE applied (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
                    """
            )
        }
        if recordsHistory {
            migrator.registerMigration("history") { try DatabaseHistory.enable(for: "ledger", in: $0) }
        }
        return SharedSchema(migrator)
    }

    /// Commits the next number.
    static func commit(_ db: Database, process: Int, number: Int, _ random: inout SeededGenerator) throws -> UInt64 {
        let seq = try UInt64(Int64.fetchOne(db, sql: "SELECT coalesce(max(seq), 0) + 1 FROM ledger") ?? 1)
        try write(db, seq, process: process, number: number, &random)
        // Earlier rows move, so that pages all over the file are written.
        for _ in 0..<2 where seq > 1 {
            let earlier = UInt64.random(in: 1..<seq, using: &random)
            try write(db, earlier, process: process, number: number, &random)
        }
        return seq
    }

    private static func write(
        _ db: Database,
        _ seq: UInt64,
        process: Int,
        number: Int,
        _ random: inout SeededGenerator
    ) throws {
        let stamp = String(format: "%08x", UInt32(truncatingIfNeeded: random.next()))
        let count = Int.random(in: 1...10, using: &random) == 1 ? 700 : Int.random(in: 1...60, using: &random)
        try db.cachedStatement(
            sql: """
                INSERT INTO ledger VALUES (?1, ?2, ?3, ?4, replace(hex(zeroblob(?5)), '00', ?4))
                ON CONFLICT (seq) DO UPDATE SET stamp = excluded.stamp, filler = excluded.filler
                """
        ).execute(arguments: [Int64(seq), process, number, stamp, count])
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO stamps VALUES (?, ?)").execute(arguments: [
            Int64(seq), stamp,
        ])
    }

    /// The process whose rows are those of the outbox's owner.
    static let owner = 100

    static var handlers: OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.handle(LedgerCommand.self) { db, command in
            // Twice is allowed by the table, so that it shows.
            try db.execute(sql: "INSERT INTO applied (n) VALUES (?)", arguments: [command.n])
            var random = SeededGenerator(seed: UInt64(command.n) &+ 77)
            _ = try commit(db, process: owner, number: command.n, &random)
        }
        return handlers
    }

    /// What a database holds.
    struct Content {
        /// The number of commits; all of them from 1 on.
        var commits: UInt64 = 0
        /// The applied commands, in their order.
        var applied: [Int] = []
        /// What must not be.
        var damage: String?
    }

    static func content(_ db: Database) throws -> Content {
        var content = Content()
        let check = try String.fetchAll(db, sql: "PRAGMA integrity_check(3)")
        guard check == ["ok"] else {
            content.damage = "integrity_check: \(check.joined(separator: "; "))"
            return content
        }
        guard try db.tableExists("ledger") else { return content }
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT count(*), coalesce(max(seq), 0),
                    coalesce(sum(filler <> replace(hex(zeroblob(length(filler) / 8)), '00', stamp)), 0),
                    (SELECT count(*) FROM ledger JOIN stamps USING (seq) WHERE ledger.stamp = stamps.stamp),
                    (SELECT count(*) FROM stamps)
                FROM ledger
                """
        )
        guard let row else { return content }
        let (count, last, wrong, equal, stamps): (Int, Int, Int, Int, Int) = (row[0], row[1], row[2], row[3], row[4])
        content.commits = UInt64(last)
        content.applied = try Int.fetchAll(db, sql: "SELECT n FROM applied ORDER BY id")
        if count != last { content.damage = "\(count) commits, and the last has number \(last)" }
        if wrong != 0 { content.damage = "\(wrong) rows whose content is not that of their stamp" }
        if equal != count || stamps != count {
            content.damage =
                "half a transaction: \(equal) of \(count) rows agree with the other table, which has \(stamps)"
        }
        return content
    }
}
