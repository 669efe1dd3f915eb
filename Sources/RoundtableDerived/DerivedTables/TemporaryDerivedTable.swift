import Foundation
import GRDB
import GRDBSQLite
import RoundtableCore
import Synchronization

// Rule E9: *Temporary* derived tables are of one process, and the main database has nothing of them. Each connection derives its own into its
// temporary database when it is first asked for it, and again when the database has changed since (`PRAGMA data_version`, `schema_version`,
// `sqlite3_total_changes`). A participant that writes may have them while no other process has the database open for writing (the roles in
// the slots); this is checked at opening and at each use. One that writes and has no slot may not.

/// Derived tables of a single process (rule E9).
enum TemporaryDerivedTable {
    /// The table with one row for each declared temporary derived table, and the stamp of the state that it was derived from.
    private static let table = "roundtable_temporary_extensions"
    /// The table with the number of row changes of this connection that wrote derived rows.
    private static let ownChanges = "roundtable_temporary_changes"
    private static let refusal = "roundtable_temporary_refusal"

    /// Registers the temporary derived tables on a connection.
    static func prepare(_ db: Database, _ derivedTables: [DescribedDerivedTable], _ company: Company) throws {
        db.add(function: DatabaseFunction(refusal, argumentCount: 0) { _ in company.refusal })
        try db.execute(
            sql: """
                CREATE TEMP TABLE \(table) (
                    name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE,
                    base TEXT NOT NULL,
                    version INTEGER NOT NULL,
                    fingerprint TEXT NOT NULL,
                    configuration TEXT NOT NULL,
                    key_columns TEXT NOT NULL DEFAULT '[]',
                    identity TEXT NOT NULL DEFAULT '',
                    generation INTEGER NOT NULL DEFAULT 0,
                    state TEXT NOT NULL DEFAULT 'ready',
                    done INTEGER NOT NULL DEFAULT 0,
                    total INTEGER NOT NULL DEFAULT 0,
                    stamp TEXT
                );
                CREATE TEMP TABLE \(ownChanges) (changes INTEGER NOT NULL);
                INSERT INTO temp.\(ownChanges) VALUES (0);
                """
        )
        for one in derivedTables {
            try db.execute(
                sql:
                    "INSERT INTO temp.\(table) (name, base, version, fingerprint, configuration) VALUES (?, ?, ?, ?, ?)",
                arguments: [
                    one.name, one.definition.baseTable, one.version, one.fingerprint, one.definition.configuration,
                ]
            )
        }
    }

    /// Returns a temporary derived table of this connection in its current state, or nil if it was not declared. Derives its rows again if the
    /// database has changed.
    ///
    /// - throws: ``DerivedTableError``.
    static func fetch(_ db: Database, _ described: DescribedDerivedTable) throws -> StoredDerivedTable? {
        guard let row = try row(described.name, db) else { return nil }
        if let reason = try String.fetchOne(db.cachedStatement(sql: "SELECT \(refusal)()")) {
            throw DerivedTableError.temporaryNotAllowed(path: db.filePath, name: described.name, reason: reason)
        }
        var stored = try StoredDerivedTable(row)
        stored.schema = "temp"
        // GRDB's observations track the base table, because the derived rows depend on it.
        try db.registerAccess(to: Table(stored.baseTable))
        let stamp: String? = row["stamp"]
        // With another definition, nothing is derived, because the caller reports the difference.
        guard stored.isOf(described), try stamp != Self.stamp(db) else { return stored }
        try db.whileWritable { try db.atomically { stored = try derive(described, db) } }
        return stored
    }

    /// Returns the base table of a temporary derived table, or nil if it was not declared.
    static func baseTable(of name: String, _ db: Database) throws -> String? { try row(name, db)?["base"] }

    private static func row(_ name: String, _ db: Database) throws -> Row? {
        let sql = "SELECT EXISTS (SELECT 1 FROM temp.sqlite_master WHERE type = 'table' AND name = '\(table)')"
        guard try Bool.fetchOne(db.cachedStatement(sql: sql)) == true else { return nil }
        let statement = try db.cachedStatement(sql: "SELECT * FROM temp.\(table) WHERE name = ?")
        return try Row.fetchOne(statement, arguments: [name])
    }

    private static func derive(_ described: DescribedDerivedTable, _ db: Database) throws -> StoredDerivedTable {
        let before = sqlite3_total_changes64(db.sqliteConnection)
        let projection = Projection(described, try DerivedTableRegistry.shape(described, db), in: "temp")
        do {
            try projection.check(db)
            try Projection.drop(described.name, in: "temp", db)
            try projection.create(db)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw DerivedTableError.notUsable(name: described.name, reason: "\(error)")
        }
        try projection.fill(db)
        var stored = StoredDerivedTable(described, projection.shape)
        stored.schema = "temp"
        stored.state = .ready
        try db.execute(
            sql: "UPDATE temp.\(table) SET key_columns = ?, identity = ? WHERE name = ?",
            arguments: [try StoredDerivedTable.text(stored.keyColumns), stored.identity, stored.name]
        )
        // The 2 additional changes are the updates of this number and of the stamp.
        let changes = sqlite3_total_changes64(db.sqliteConnection) - before + 2
        try db.execute(sql: "UPDATE temp.\(ownChanges) SET changes = changes + ?", arguments: [changes])
        try db.execute(
            sql: "UPDATE temp.\(table) SET stamp = ? WHERE name = ?",
            arguments: [try stamp(db, andOne: true), stored.name]
        )
        return stored
    }

    /// Returns a stamp that differs after each change of the main database: by another connection, of its schema, or by this connection.
    private static func stamp(_ db: Database, andOne: Bool = false) throws -> String {
        let version = try Int64.fetchOne(db, sql: "PRAGMA main.data_version") ?? 0
        let schema = try Int64.fetchOne(db, sql: "PRAGMA main.schema_version") ?? 0
        guard sqlite3_db_readonly(db.sqliteConnection, "main") == 0 else { return "\(version)/\(schema)" }
        let own = try Int64.fetchOne(db.cachedStatement(sql: "SELECT changes FROM temp.\(ownChanges)")) ?? 0
        let changes = sqlite3_total_changes64(db.sqliteConnection) + (andOne ? 1 : 0) - own
        return "\(version)/\(schema)/\(changes)"
    }

    /// Detects other processes that may write.
    final class Company: Sendable {
        private struct Known {
            weak var database: SharedDatabase?
        }
        private let known = Mutex(Known())

        func take(_ database: SharedDatabase) { known.withLock { $0.database = database } }

        /// The reason why this process cannot have temporary derived tables, or nil if it can.
        var refusal: String? {
            guard let database = known.withLock({ $0.database }), database.role == .readWrite else { return nil }
            guard let participant = database.seat.participant else {
                return
                    "this process writes, and cannot know which other processes do: \(database.uncoordinatedReason ?? "")"
            }
            let others = participant.block.participants()
                .filter { $0.role == .readWrite && !($0.pid == getpid() && !$0.isElsewhere) && $0.liveness != .dead }
            return others.first.map {
                """
                \($0.name) has the database open for writing, as this process has, and the derived table would have to be \
                rebuilt whenever one of them commits
                """
            }
        }
    }
}

extension DatabaseOpening {
    /// Registers the temporary derived tables on all connections.
    ///
    /// - returns: the object that must be given the database once it is open, or nil if there are no temporary derived tables.
    /// - throws: ``DerivedTableError/notUsable(name:reason:)``.
    mutating func prepareTemporaryDerivedTables() throws -> TemporaryDerivedTable.Company? {
        if options.temporaryDerivedTables.isEmpty { return nil }
        let own = try DerivedTableRegistry(DerivedTableSet(revision: 1, options.temporaryDerivedTables)).derivedTables
        let names = Set((schema.derivedTables?.tables ?? []).map { $0.name.lowercased() })
        if let both = own.first(where: { names.contains($0.name.lowercased()) }) {
            throw DerivedTableError.notUsable(name: both.name, reason: "it is declared in the SharedSchema, too.")
        }
        add(own.flatMap(\.functions))
        let company = TemporaryDerivedTable.Company()
        prepareConnections { db in try TemporaryDerivedTable.prepare(db, own, company) }
        return company
    }
}

extension Database {
    /// Runs `body` with `query_only` switched off. GRDB switches it on for connections that only read but are not opened read-only, and it
    /// forbids writing to temporary tables, too.
    fileprivate func whileWritable(_ body: () throws -> Void) throws {
        guard try Bool.fetchOne(self, sql: "PRAGMA query_only") == true else { return try body() }
        try execute(sql: "PRAGMA query_only = 0")
        let result = Result(catching: body)
        try execute(sql: "PRAGMA query_only = 1")
        try result.get()
    }
}
