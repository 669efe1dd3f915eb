import Foundation
import GRDB
import Roundtable
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The database that operations of the sweep work on, and what must hold in it.
package struct SweepWorld {
    package let operation: SweepOperation
    package let folder: URL

    package init(_ operation: SweepOperation, folder: String) {
        self.operation = operation
        self.folder = URL(fileURLWithPath: folder, isDirectory: true)
    }

    package var database: URL { folder.appendingPathComponent("shared.sqlite") }
    package var snapshot: URL { folder.appendingPathComponent("snapshot.file") }

    // MARK: Schema

    package enum Moment { case before, after }

    /// The schema before and after the operation.
    package func schema(_ moment: Moment) -> SharedSchema {
        let migrations = operation == .migrate && moment == .after ? 4 : 2
        var migrator = PeerSchema(migrations: migrations).migrator
        migrator.registerMigration("tables") { [operation] db in
            try db.execute(
                sql: """
                    CREATE TABLE applied (id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, n INTEGER NOT NULL);
                    CREATE TABLE filling (id INTEGER PRIMARY KEY, bytes BLOB);
                    """
            )
            if operation == .buildDerivedTable { try db.execute(sql: DerivedTableWorld.tables) }
            if operation == .prune {
                try DatabaseHistory.enable(for: "entry", in: db)
                var settings = DatabaseHistory.Settings()
                settings.minimumCount = 4
                settings.maximumCount = 8
                try DatabaseHistory.setSettings(settings, in: db)
            }
        }
        guard operation == .buildDerivedTable, moment == .after else { return SharedSchema(migrator) }
        return SharedSchema(migrator, derivedTables: DerivedTableSet(revision: 1, Self.derivedTables))
    }

    package static let derivedTables: [any DerivedTable] = [
        DerivedTableWorld.boxes, DerivedTableWorld.sums, DerivedTableWorld.words,
    ]

    package static let options: SharedDatabase.Options = {
        var options = SharedDatabase.Options()
        // Writes to a log would be among the calls that are swept.
        options.eventLog = .off
        options.busyTimeout = .seconds(2)
        options.setupTimeout = .seconds(4)
        options.suspensionPolicy = .everything
        return options
    }()

    package static var ownerOptions: SharedDatabase.Options {
        var options = Self.options
        options.outbox = PeerOutbox.handlers
        return options
    }

    // MARK: Content

    /// Commits a transaction of two rows.
    package static func insert(_ number: Int, by author: String, _ db: Database) throws {
        for part in 0..<2 { try db.execute(sql: PeerSchema.insertEntry, arguments: [author, number, part]) }
    }

    /// What is wrong with the content; empty when all is well.
    ///
    /// - parameter acknowledged: the transactions of the victim, as bits.
    package func problems(_ db: Database, acknowledged: Int) throws -> [String] {
        var problems = try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
            .map { "integrity: \($0)" }
        problems += try lostTransactions(db, acknowledged)
        let halves = try Row.fetchAll(
            db,
            sql: "SELECT author, n, count(*) FROM entry GROUP BY author, n HAVING count(*) <> 2"
        )
        problems += halves.map { "a part of a transaction: \($0)" }
        let base = try Int.fetchOne(db, sql: "SELECT count(*) FROM entry WHERE author = 'base'") ?? 0
        if operation != .create, base != Self.baseTransactions(operation) * 2 {
            problems.append("\(base) rows are left of those from before")
        }
        problems += try wrongMigrations(db)
        if operation == .buildDerivedTable {
            problems += try DerivedTableWorld.discrepancies(of: Self.derivedTables, db)
        }
        if operation == .prune { problems += try wrongHistory(db) }
        return problems
    }

    package static func baseTransactions(_ operation: SweepOperation) -> Int { operation == .prune ? 30 : 3 }

    private func lostTransactions(_ db: Database, _ acknowledged: Int) throws -> [String] {
        switch operation {
        // What is acknowledged here is no row of the database.
        case .writeFile, .create, .open, .migrate: return []
        case .submit, .drain:
            let rows = try Row.fetchAll(db, sql: "SELECT n, count(*) AS count FROM applied GROUP BY n")
            let counts = Dictionary(uniqueKeysWithValues: rows.map { ($0["n"] as Int, $0["count"] as Int) })
            let expected = operation == .drain ? 0b1110 : acknowledged
            return (1..<60).compactMap { number in
                let count = counts[number] ?? 0
                if count > 1 { return "command \(number) was applied \(count) times" }
                return expected & 1 << number != 0 && count == 0 ? "lost: command \(number)" : nil
            }
        default:
            let found = Set(try Int.fetchAll(db, sql: "SELECT n FROM entry WHERE author = 'victim'"))
            return (0..<60).filter { acknowledged & 1 << $0 != 0 && !found.contains($0) }
                .map { "lost: transaction \($0), which was acknowledged" }
        }
    }

    private func wrongMigrations(_ db: Database) throws -> [String] {
        let applied = try String.fetchAll(db, sql: "SELECT migration FROM migrationLog ORDER BY 1")
        let expected = operation == .migrate ? ["v1", "v2", "v3", "v4"] : ["v1", "v2"]
        return applied == expected ? [] : ["migrations \(applied) instead of \(expected)"]
    }

    /// What is left of the history must be whole: the changes that inserted the last rows, one for each, in this order.
    private func wrongHistory(_ db: Database) throws -> [String] {
        let changes = try Int.fetchAll(db, sql: "SELECT row_key FROM roundtable_history ORDER BY sequence DESC")
        let rows = try Int.fetchAll(
            db,
            sql: "SELECT id FROM entry ORDER BY id DESC LIMIT ?",
            arguments: [changes.count]
        )
        guard changes.count >= 4, changes == rows else { return ["history \(changes) of the rows \(rows)"] }
        return []
    }

    /// A writer whose `unlink` failed has its unfinished file as long as it lives (rule V3).
    private func isWriterAlive(_ name: String) -> Bool {
        let fields = name.split(separator: ".").dropLast().last?.split(separator: "-")
        return fields?.first.flatMap { Int32($0) }.map { kill($0, 0) == 0 } ?? false
    }

    /// Unfinished files that a dead process has left and no other has removed.
    ///
    /// Left out is a second name of the control block, which a creator leaves that dies between its two calls: it takes no space, and the
    /// next creator removes it (rule B1).
    package func leftOver() throws -> [String] {
        let files = FileManager.default
        let controlBlock = try? files.attributesOfItem(atPath: ControlBlock.path(forDatabaseAt: database.path))
        return try files.subpathsOfDirectory(atPath: folder.path).filter { name in
            guard name.hasSuffix(".new"), !isWriterAlive(name) else { return false }
            let attributes = try files.attributesOfItem(atPath: folder.appendingPathComponent(name).path)
            let isSecondName =
                name.hasPrefix(".roundtable-coord.") && controlBlock != nil
                && attributes[.systemFileNumber] as? UInt64 == controlBlock?[.systemFileNumber] as? UInt64
            return !isSecondName
        }
    }
}
