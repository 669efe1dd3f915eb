import Foundation
import GRDB
import GRDBSQLite
import RoundtableCore

/// The tables that a history consists of (rules H1, H2).
enum HistoryTables {
    static let format = 1
    static let prefix = InternalTables.history

    static func exist(_ db: Database) throws -> Bool {
        let sql =
            "SELECT EXISTS (SELECT * FROM main.sqlite_master WHERE type = 'table' AND name = 'roundtable_history')"
        return try Bool.fetchOne(db.cachedStatement(sql: sql)) ?? false
    }

    /// Creates the tables of the history if they do not exist. Must be called inside a transaction.
    static func createIfAbsent(_ db: Database) throws {
        if try exist(db) { return }
        defer { HistoryStamp.forget(in: db) }
        try removeRemains(db)
        try db.execute(sql: schema)
        let settings = DatabaseHistory.Settings()
        try db.execute(
            sql: """
                INSERT INTO main.roundtable_history_settings
                    (format, identity, kept_after, maximum_age, maximum_count, minimum_count, consumer_timeout)
                VALUES (?, lower(hex(randomblob(8))), 0, 0, 0, 0, 0)
                """,
            arguments: [format]
        )
        try settings.store(db)
    }

    /// Makes all readers start over, because what they have read is the history of other content (rule H8). Must be called inside a
    /// transaction.
    static func beginAnew(_ db: Database) throws {
        guard try exist(db) else { return }
        do { try HistoryState.checkFormat(db) } catch HistoryError.newerFormat { return }
        for var table in try TrackedTable.fetchAll(db) {
            try table.putGap(db)
            try table.update(db)
        }
        try db.execute(sql: "UPDATE main.roundtable_history_settings SET identity = lower(hex(randomblob(8)))")
    }

    // Rule H13a: A table that keeps values has triggers of generation 3 (H14), others those of generation 1, as before. Generation 2
    // differs from 3 only in how long a text is (H13b). The transaction that first declares a kept column adds `old_values`, `noted_after`
    // and `kept_columns`; no gap is put, and what was recorded before has NULL. An earlier version leaves the triggers alone unless it
    // enables the table or finds one missing: then it puts generation 1, which with kept columns counts as missing triggers, and the next
    // participant that synchronizes puts a gap and generation 3.

    /// Whether the tables have the columns for old values. Those of a history that an earlier version created do not have them until values
    /// are kept (rule H13a).
    static func canKeepValues(_ db: Database) throws -> Bool {
        let sql =
            "SELECT EXISTS (SELECT 1 FROM pragma_table_info('roundtable_history_tables', 'main') WHERE name = 'kept_columns')"
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// Adds the columns for old values if they do not exist. The rows stay as they are. Must be called inside a transaction.
    static func addColumnsForValues(_ db: Database) throws {
        if try canKeepValues(db) { return }
        try db.execute(
            sql: """
                ALTER TABLE main.roundtable_history ADD COLUMN old_values TEXT;
                ALTER TABLE main.roundtable_history_conflicts ADD COLUMN old_values TEXT;
                ALTER TABLE main.roundtable_history_conflicts ADD COLUMN noted_after INTEGER;
                ALTER TABLE main.roundtable_history_tables ADD COLUMN kept_columns TEXT NOT NULL DEFAULT '[]';
                """
        )
    }

    /// Removes what is left of a history whose main table was dropped, because its triggers would make every write fail.
    private static func removeRemains(_ db: Database) throws {
        let sql = "SELECT name FROM main.sqlite_master WHERE type = 'trigger'"
        for name in try String.fetchAll(db, sql: sql) where name.hasPrefix(prefix) {
            try db.execute(sql: "DROP TRIGGER main.\(name.sqlName)")
        }
        for part in ["tables", "conflicts", "consumers", "settings"] {
            try db.execute(sql: "DROP TABLE IF EXISTS main.\(prefix)_\(part)")
        }
    }

    /// The table has no AUTOINCREMENT, which writes one more page in every transaction. The last row is never deleted instead (rule
    /// H3), so a number is never given twice.
    private static let schema = """
        CREATE TABLE main.roundtable_history (
            sequence INTEGER PRIMARY KEY,
            table_id INTEGER NOT NULL,
            operation TEXT NOT NULL,
            row_key,
            columns INTEGER,
            time REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0),
            transaction_id INTEGER,
            author TEXT,
            old_values TEXT
        );
        CREATE TRIGGER main.roundtable_history_keep_last BEFORE DELETE ON roundtable_history
        WHEN old.sequence = (SELECT max(sequence) FROM roundtable_history)
        BEGIN
            SELECT RAISE(ABORT, 'roundtable_history: the last row stays, because the next one is numbered after it');
        END;
        CREATE TABLE main.roundtable_history_tables (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            state TEXT NOT NULL,
            recording TEXT NOT NULL,
            key_columns TEXT NOT NULL,
            conflicts TEXT NOT NULL,
            generation INTEGER NOT NULL,
            gap INTEGER NOT NULL,
            kept_columns TEXT NOT NULL DEFAULT '[]'
        );
        CREATE TABLE main.roundtable_history_conflicts (
            table_id INTEGER NOT NULL,
            cause TEXT NOT NULL,
            row_key,
            row_id INTEGER,
            old_values TEXT,
            noted_after INTEGER
        );
        CREATE INDEX main.roundtable_history_conflicts_cause ON roundtable_history_conflicts (table_id, cause);
        CREATE TABLE main.roundtable_history_consumers (
            name TEXT PRIMARY KEY NOT NULL,
            sequence INTEGER NOT NULL,
            seen REAL NOT NULL,
            state TEXT NOT NULL,
            tables TEXT
        ) WITHOUT ROWID;
        CREATE TABLE main.roundtable_history_settings (
            format INTEGER NOT NULL,
            identity TEXT NOT NULL,
            kept_after INTEGER NOT NULL,
            maximum_age REAL NOT NULL,
            maximum_count INTEGER NOT NULL,
            minimum_count INTEGER NOT NULL,
            consumer_timeout REAL NOT NULL
        );
        """
}
