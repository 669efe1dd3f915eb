import GRDB
import RoundtableKernel

/// Announces what the connection of a raw handle commits in its turn (rules U4–U6).
extension CommitRecorder {
    /// The state of the database when the turn began.
    struct Beginning {
        let counter: UInt32
        let dataVersion: Int64
        let schemaVersion: Int64?
    }

    /// The largest number of commits in one turn that are announced one by one.
    private static let mostCommits = 32

    // Rule U4: When the turn is acquired, the connection's data version is read, then its schema version, and then, under SQLite's WRITE
    // lock, which is held for that alone (`xShmLock`), the commit counter. A record is reserved for the value that follows it (R1), with
    // the tables that are likely. If another connection has WRITE, no record is reserved.

    /// Reserves the record of the turn's first commit (rule U4). Call it outside of transactions, with the schema known.
    ///
    /// - returns: nil when nothing can be said of the commits that follow.
    func willCommit(with raw: RawConnection, _ db: Database, _ named: Set<String>?) -> Beginning? {
        // The data version is read before the counter, so that it shows a commit of another connection between the two.
        guard let index, let version = raw.dataVersion else { return nil }
        let schemaVersion = raw.schemaVersion
        collectTables(db, writtenThrough: named ?? [])
        return index.whileNobodyWrites {
            guard let counter = index.commitCounter else { return nil }
            reserve(counter, tables.areUnknown ? nil : tables.names)
            return Beginning(counter: counter, dataVersion: version, schemaVersion: schemaVersion)
        } ?? nil
    }

    // Rule U5: When the turn ends, the counter shows how many commits were made meanwhile. If none, the record becomes *void*; if one, and
    // no other connection has committed (the data version, read outside of a transaction, is as before), *committed*. If there were more,
    // or the schema was changed, records for all are appended under WRITE, each reserved and then committed, and then the first becomes
    // void. If any other connection has committed, if that is not known, if another participant has reserved since, or for more than 32, it
    // becomes *unsure*.

    /// Announces the commits of the turn (rule U5). Call it outside of transactions.
    ///
    /// - returns: whether something was committed, as far as that is known.
    func didCommit(with raw: RawConnection, _ beginning: Beginning?) -> Bool {
        defer { tables.removeAll() }
        lookedAtSchema(at: nil)
        guard let beginning, let counter = commitCounter else {
            publisher?.settle(.unsure)
            return false
        }
        let count = Int(counter &- beginning.counter)
        if count == 0 {
            publisher?.settle(.void)
            return false
        }
        let schemaVersion = raw.schemaVersion
        // The data version is read after the counter and the schema, so that it shows a commit of another connection in between.
        guard count <= Self.mostCommits, raw.dataVersion == beginning.dataVersion else {
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
                    counter: beginning.counter &+ UInt32(offset),
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
                after: beginning.counter,
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
            let enforces = try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") == true
            if !enforces { try db.execute(sql: "PRAGMA foreign_keys = ON") }
            defer { if !enforces { try? db.execute(sql: "PRAGMA foreign_keys = OFF") } }
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
