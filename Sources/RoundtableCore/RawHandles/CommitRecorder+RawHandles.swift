import CRoundtableShims
import GRDB
import RoundtableKernel

/// Announces what the connection of a raw handle commits in its turn (rules U4–U6).
extension CommitRecorder {
    /// The state of the database when the turn began.
    struct Beginning {
        let counter: UInt32?
        let dataVersion: Int64?
        let schemaVersion: Int64?
        /// Whether no other connection wrote when this was read.
        var isExact = false
    }

    /// The largest number of commits in one turn that are announced one by one.
    private static let mostCommits = 32

    // Rule U4: When the turn is acquired, the connection's data version is read, then its schema version, and then, under SQLite's WRITE
    // lock, which is held for that alone (`xShmLock`), the commit counter. A record is reserved for the value that follows it (R1), with
    // the tables that are likely. If another connection has WRITE, no record is reserved.

    /// Reserves the record of the turn's first commit (rule U4). Call it outside of transactions, with the schema known.
    func willCommit(with raw: RawConnection, _ db: Database, _ named: Set<String>?) -> Beginning {
        collectTables(db, writtenThrough: named ?? [])
        // The data version is read before the counter, so that it shows a commit of another connection between the two.
        let (dataVersion, schemaVersion) = (raw.dataVersion, raw.schemaVersion)
        var beginning = Beginning(counter: commitCounter, dataVersion: dataVersion, schemaVersion: schemaVersion)
        guard dataVersion != nil else { return beginning }
        _ = index?.whileNobodyWrites {
            guard let counter = commitCounter, counter == beginning.counter else { return }
            // Another program may have created a trigger since the tables were collected.
            if !knowsPresentSchema { tables.mayBeMore = true }
            reserve(counter, tables.areUnknown ? nil : tables.names)
            beginning.isExact = true
        }
        return beginning
    }

    // Rule U5: When the turn ends, the counter shows how many commits were made meanwhile. If none, the record becomes *void*; if one, and
    // no other connection has committed (the data version, read outside of a transaction, is as before), *committed*. If there were more,
    // or the schema was changed, records for all are appended under WRITE, each reserved and then committed, and then the first becomes
    // void. If any other connection has committed, if that is not known, if another participant has reserved since, or for more than 32, it
    // becomes *unsure*.

    /// Announces the commits of the turn (rule U5). Call it outside of transactions.
    ///
    /// - returns: whether something was committed, as far as that is known.
    func didCommit(with raw: RawConnection, _ beginning: Beginning) -> Bool {
        defer { tables.removeAll() }
        lookedAtSchema(at: nil)
        let counter = commitCounter
        if let counter, counter == beginning.counter {
            publisher?.settle(.void)
            return false
        }
        let schemaVersion = raw.schemaVersion
        // The data version is read after the counter and the schema, so that it shows a commit of another connection in between.
        guard let counter, let before = beginning.counter, beginning.isExact, raw.dataVersion == beginning.dataVersion,
            case let count = Int(counter &- before), count <= Self.mostCommits
        else {
            if keepsCommitted { keep(.fullDatabase) }
            publisher?.settle(.unsure)
            return true
        }
        // If the turn has changed the schema, the triggers that its commits ran may be gone.
        let isSameSchema = schemaVersion != nil && schemaVersion == beginning.schemaVersion
        if !isSameSchema { tables.mayBeMore = true }
        if keepsCommitted { keep(tables.changed) }
        for offset in 1...count {
            observatory?.didCommit {
                Commit(
                    counter: before &+ UInt32(offset),
                    touched: tables,
                    isPublished: publisher?.hasReserved == true,
                    isElsewhere: true
                )
            }
        }
        if count == 1, isSameSchema {
            publisher?.settle(.committed)
            return true
        }
        let isAnnounced = index?.whileNobodyWrites {
            publisher?.settle(
                commits: count,
                after: before,
                tables: tables.areUnknown ? nil : tables.names,
                now: MonotonicClock.now
            ) == true
        }
        if isAnnounced != true { publisher?.settle(.unsure) }
        return true
    }

    // Rule U6: The tables are those that the owner names, and those that triggers and foreign keys of theirs write, as SQLite's authorizer
    // reports on the writer connection, with foreign keys on. They are *unknown* if none are named, the turn changes the schema, or they
    // cannot be determined (a function that the process does not have).

    /// Collects all tables that a write to some tables may change (rule U6).
    private func collectTables(_ db: Database, writtenThrough named: Set<String>) {
        tables.removeAll()
        if let known = tablesByNames[named] {
            tables = known
            return
        }
        do {
            // The owner's connection may enforce foreign keys, whatever the configuration of this connection says.
            let enforces = rt_enforce_foreign_keys(db.sqliteConnection, 1)
            defer { _ = rt_enforce_foreign_keys(db.sqliteConnection, enforces) }
            for table in named.sorted() { try collectTables(db, writtenThrough: table) }
        } catch {
            tables.removeAll()
            return
        }
        // A program may generate names.
        if tablesByNames.count >= 100 { tablesByNames = [:] }
        tablesByNames[named] = tables
    }

    private func collectTables(_ db: Database, writtenThrough table: String) throws {
        let name = "main." + table.sqlName
        // The pragma's virtual table would be reported as a change of the schema when it is connected.
        let columns = try Row.fetchAll(db, sql: "PRAGMA main.table_info(\(table.sqlName))")
        let assignments = columns.map { (row: Row) -> String in
            let column = (row["name"] as String).sqlName
            return "\(column) = \(column)"
        }
        // GRDB calls `willWrite` for each table when it runs a statement. With EXPLAIN, the statement is compiled and changes nothing.
        for statement in [
            "INSERT INTO \(name) DEFAULT VALUES", "DELETE FROM \(name)",
            "UPDATE \(name) SET \(assignments.joined(separator: ", "))",
        ] { try db.execute(sql: "EXPLAIN " + statement) }
    }
}
