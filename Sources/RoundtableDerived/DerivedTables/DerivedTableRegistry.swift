import Foundation
import GRDB
import RoundtableCore
import RoundtableKernel
import RoundtableTables

// Rule E5: Upgrading is one transaction, under the turn of S2, after the migrations: derived tables that are not declared are dropped, new ones
// and those of a higher version are made again, their triggers first, in the state `building`; the revision is stored. No rows are derived
// in it, which an I/O error would undo. Triggers that the upgrade drops or makes again are *detached* in a transaction before the
// migrations, since they may name a column that goes; if a migration fails in another one's trigger, that is detached too, and the
// migration is run again.

/// Compares the derived tables that a participant declares with the stored ones, upgrades them, and restores them (rules E4, E5, E7).
struct DerivedTableRegistry: Sendable {
    let revision: Int
    let derivedTables: [DescribedDerivedTable]
    /// The time for which a restoration derives rows. A derived table that is complete by then was never visible incomplete.
    private static let timeAtOnce: Nanoseconds = 10_000_000

    /// - throws: ``DerivedTableError/notUsable(name:reason:)``.
    init(_ set: DerivedTableSet) throws {
        revision = set.revision
        derivedTables = set.described
        var names: Set<String> = []
        for one in derivedTables {
            if let problem = DerivedTableNames.problem(one.name) {
                throw DerivedTableError.notUsable(name: one.name, reason: problem)
            }
            guard names.insert(one.name.lowercased()).inserted else {
                throw DerivedTableError.notUsable(name: one.name, reason: "another one of the set has this name.")
            }
        }
    }

    var functions: [DatabaseFunction] { derivedTables.flatMap(\.functions) }

    // MARK: Comparing

    /// Whether the stored derived tables are those declared, with their triggers intact, so that nothing has to be written. Derived rows may
    /// still be missing.
    ///
    /// - throws: ``DerivedTableError``, when the program may not write this database.
    func isCurrent(_ db: Database) throws -> Bool {
        // Most programs declare none. The connection has just read the schema; tables that are created later are found by the next write.
        if revision == 0, !db.knowsTable(StoredDerivedTable.tableName) { return true }
        let stored = try StoredDerivedTable.revision(db)
        if stored == 0, revision == 0 { return true }
        let difference = DerivedTableDifference(declared: derivedTables, stored: try StoredDerivedTable.fetchAll(db))
        if revision < stored {
            throw DerivedTableError.setTooOld(path: db.filePath, declared: revision, stored: stored, difference)
        }
        if revision == stored {
            guard difference.isEmpty else {
                throw DerivedTableError.setDiffers(path: db.filePath, revision: revision, difference)
            }
            return try defects(db).isEmpty
        }
        let contradictions = difference.contradictions
        guard contradictions.isEmpty else {
            throw DerivedTableError.versionNotRaised(path: db.filePath, contradictions)
        }
        return false
    }

    // MARK: Upgrading

    /// Upgrades the stored derived tables to those declared, without deriving rows: an error of SQLite's while it derives may undo the whole
    /// transaction, and must not make opening fail (rule E6b). Must be called inside a write transaction.
    func upgrade(_ db: Database) throws {
        if try isCurrent(db) { return }
        try StoredDerivedTable.createTables(db)
        let stored = try StoredDerivedTable.fetchAll(db)
        for one in stored where !derivedTables.contains(where: { one.isOf($0) && one.name == $0.name }) {
            try Projection.drop(one.name, in: "main", db)
            try StoredDerivedTable.remove(one.name, db)
        }
        for one in derivedTables where !stored.contains(where: { $0.name == one.name && $0.isOf(one) }) {
            try Self.make(one, until: nil, db)
        }
        if try StoredDerivedTable.revision(db) != revision { try StoredDerivedTable.store(revision: revision, db) }
        for one in try defects(db) { try remake(one, until: nil, db) }
    }

    /// Creates again the derived tables that schema changes have damaged, and derives rows for a short time. Must be called inside a write
    /// transaction.
    ///
    /// - returns: the names of the derived tables that could be created.
    func restore(_ db: Database) throws -> [String] {
        let damaged = try defects(db)
        let deadline = MonotonicClock.now.addingSaturating(Self.timeAtOnce)
        return try damaged.filter { try remake($0, until: deadline, db) }.map(\.name)
    }

    /// Creates a derived table, and derives rows until the deadline. The builder derives the remaining rows, and reports errors of rows.
    ///
    /// - parameter deadline: nil derives no rows.
    static func make(_ described: DescribedDerivedTable, until deadline: Nanoseconds?, _ db: Database) throws {
        let projection = Projection(described, try shape(described, db))
        try projection.check(db)
        try Projection.drop(described.name, in: "main", db, keeping: projection.notingTriggers)
        do {
            try projection.create(db)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw DerivedTableError.notUsable(name: described.name, reason: "\(error)")
        }
        var stored = StoredDerivedTable(described, projection.shape)
        if let deadline { try deriveAtOnce(projection, &stored, until: deadline, db) }
        try stored.store(db)
    }

    /// Derives rows until the deadline. An error of SQLite's leaves the rest to the builder, which tries again and reports it (rule E6b),
    /// unless SQLite has ended the transaction.
    private static func deriveAtOnce(
        _ projection: Projection,
        _ stored: inout StoredDerivedTable,
        until deadline: Nanoseconds,
        _ db: Database
    ) throws {
        var pace = BuildingPace()
        do {
            _ = try derive(projection, &stored, &pace, until: deadline, db)
        } catch let error as DatabaseError {
            guard db.isInsideTransaction, ![.SQLITE_INTERRUPT, .SQLITE_ABORT].contains(error.resultCode) else {
                throw error
            }
        }
    }

    static func shape(_ described: DescribedDerivedTable, _ db: Database) throws -> TableShape {
        do {
            return try TableShape(db, table: described.definition.baseTable)
        } catch let error as UnsuitableTable {
            throw DerivedTableError.notUsable(
                name: described.name,
                reason: "it cannot be derived from '\(error.table)': \(error.reason)"
            )
        }
    }

    // MARK: Detaching

    /// Detaches the derived tables that the upgrade will drop or create again, before the migrations that come with it (rule E5). Their
    /// triggers may block the migrations, and may call functions that this program does not have. Must be called inside a write
    /// transaction.
    func detachWhatChanges(_ db: Database) throws {
        for stored in try StoredDerivedTable.fetchAll(db)
        where !derivedTables.contains(where: { $0.name == stored.name && stored.isOf($0) }) {
            try Self.detach(stored, db)
        }
    }

    /// Drops the triggers of a derived table and marks it for building. Must be called inside a write transaction.
    static func detach(_ stored: StoredDerivedTable, _ db: Database) throws {
        if stored.state == .missing { return }
        var stored = stored
        try dropTriggers(stored.name, db)
        stored.state = .building
        stored.done = 0
        try stored.store(db)
    }

    /// Returns the derived table whose trigger made a schema change fail, or nil if the error has another cause.
    static func derivedTableInTheWay(_ error: any Error) -> String? {
        guard let error = error as? DatabaseError, error.resultCode == .SQLITE_ERROR, let message = error.message
        else { return nil }
        let start = "error in trigger \(DerivedTableNames.prefix)_"
        guard message.hasPrefix(start) else { return nil }
        // Names of derived tables do not have two underscores.
        return message.dropFirst(start.count).firstRange(of: "__").map { range in
            String(message.dropFirst(start.count)[..<range.lowerBound])
        }
    }

    static func dropTriggers(_ name: String, _ db: Database) throws {
        for trigger in try triggers(db) where trigger.belongs(to: name) {
            try db.execute(sql: "DROP TRIGGER main.\(trigger.name.sqlName)")
        }
    }

    struct Trigger {
        var rowID: Int64
        var name: String
        var table: String
        var sql: String

        func belongs(to derivedTableName: String) -> Bool {
            name.lowercased().hasPrefix(DerivedTableNames.part(derivedTableName, "").lowercased())
        }
    }

    static func triggers(_ db: Database) throws -> [Trigger] {
        let sql = "SELECT rowid, name, tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger'"
        return try Row.fetchAll(db, sql: sql).map { row in
            Trigger(rowID: row["rowid"], name: row["name"], table: row["tbl_name"], sql: row["sql"])
        }
    }
}
