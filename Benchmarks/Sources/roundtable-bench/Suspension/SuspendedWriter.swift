#if os(Linux)
    import Foundation
    import GRDB
    import GRDBSQLite
    import Roundtable
    import RoundtableTestKit

    /// One contestant before the police, written the way its users would write it.
    protocol SuspendedWriter: Sendable {
        /// Commits rows in one transaction. Calls `inside` after the first of them.
        func write(_ sequence: Int, rows: Int, inside: () -> Void) throws

        /// Of the rows that are committed; 0 when there are none.
        func lastSequence() throws -> Int
    }

    /// The table that every contestant writes.
    enum Ledger {
        /// So many ids belong to each sequence.
        static let stride = 1 << 20
        static let create = "CREATE TABLE ledger (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"
        static let insert = "INSERT INTO ledger (id, text) VALUES (?, ?)"
        static let last = "SELECT COALESCE(MAX(id), 0) FROM ledger"

        static let migrator: DatabaseMigrator = {
            var migrator = DatabaseMigrator()
            migrator.registerMigration("create ledger") { try $0.execute(sql: create) }
            return migrator
        }()

        static func insert(_ db: Database, _ sequence: Int, rows: Int, inside: () -> Void) throws {
            let statement = try db.cachedStatement(sql: insert)
            for part in 0..<rows {
                try statement.execute(arguments: [sequence * stride + part, Statements.text])
                if part == 0 { inside() }
            }
        }

        static func lastSequence(_ db: Database) throws -> Int { try (Int.fetchOne(db, sql: last) ?? 0) / stride }
    }

    struct SharedDatabaseWriter: SuspendedWriter {
        let database: SharedDatabase

        init(_ task: SuspensionTask) throws {
            database = try SharedDatabase.open(
                at: URL(fileURLWithPath: task.databasePath),
                schema: SharedSchema(Ledger.migrator),
                as: "ledger",
                options: Self.options(task)
            )
        }

        static func options(_ task: SuspensionTask) -> SharedDatabase.Options {
            var options = SharedDatabase.Options()
            options.suspensionPolicy = task.policy
            if task.waits { options.whileSuspended = .wait }
            return options
        }

        func write(_ sequence: Int, rows: Int, inside: () -> Void) throws {
            try database.write { db in try Ledger.insert(db, sequence, rows: rows, inside: inside) }
        }

        func lastSequence() throws -> Int { try database.read(Ledger.lastSequence) }
    }

    struct PoolWriter: SuspendedWriter {
        let pool: DatabasePool
        /// nil: writes are not put under assertions.
        let suspension: PoolSuspension?

        init(_ task: SuspensionTask, _ suspension: PoolSuspension?) throws {
            pool = try Self.open(task.databasePath, task)
            self.suspension = task.assertions == .off ? nil : suspension
        }

        static func open(_ path: String, _ task: SuspensionTask) throws -> DatabasePool {
            var configuration = Configuration.sharing
            configuration.observesSuspensionNotifications = task.contestant == .grdbNotified
            let pool = try DatabasePool(path: path, configuration: configuration)
            try Ledger.migrator.migrate(pool)
            return pool
        }

        func write(_ sequence: Int, rows: Int, inside: () -> Void) throws {
            func write() throws {
                try pool.write { db in try Ledger.insert(db, sequence, rows: rows, inside: inside) }
            }
            if let suspension { try suspension.withAssertion(write) } else { try write() }
        }

        func lastSequence() throws -> Int { try pool.read(Ledger.lastSequence) }
    }

    final class CInterfaceWriter: SuspendedWriter, @unchecked Sendable {
        // @unchecked: used by the writing thread alone.
        private var connection: OpaquePointer?
        private var insertion: OpaquePointer?

        private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

        init(_ task: SuspensionTask) throws {
            let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
            try check(sqlite3_open_v2(task.databasePath, &connection, flags, nil))
            try check(sqlite3_busy_timeout(connection, 5000))
            var flag: CInt = 1
            try check(sqlite3_file_control(connection, nil, SQLITE_FCNTL_PERSIST_WAL, &flag))
            try execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
            try execute(Ledger.create.replacingOccurrences(of: "CREATE TABLE", with: "CREATE TABLE IF NOT EXISTS"))
        }

        func write(_ sequence: Int, rows: Int, inside: () -> Void) throws {
            try execute("BEGIN IMMEDIATE")
            do {
                for part in 0..<rows {
                    try insert(sequence * Ledger.stride + part)
                    if part == 0 { inside() }
                }
                try execute("COMMIT")
            } catch {
                sqlite3_exec(connection, "ROLLBACK", nil, nil, nil)
                throw error
            }
        }

        func lastSequence() throws -> Int {
            var statement: OpaquePointer?
            try check(sqlite3_prepare_v2(connection, Ledger.last, -1, &statement, nil))
            defer { sqlite3_finalize(statement) }
            guard sqlite3_step(statement) == SQLITE_ROW else { throw failure(sqlite3_errcode(connection)) }
            return Int(sqlite3_column_int64(statement, 0)) / Ledger.stride
        }

        private func insert(_ id: Int) throws {
            if insertion == nil {
                let flags = UInt32(SQLITE_PREPARE_PERSISTENT)
                try check(sqlite3_prepare_v3(connection, Ledger.insert, -1, flags, &insertion, nil))
            }
            sqlite3_bind_int64(insertion, 1, Int64(id))
            sqlite3_bind_text(insertion, 2, Statements.text, -1, Self.transient)
            let code = sqlite3_step(insertion)
            sqlite3_reset(insertion)
            guard code == SQLITE_DONE else { throw failure(code) }
        }

        private func execute(_ sql: String) throws { try check(sqlite3_exec(connection, sql, nil, nil, nil)) }

        private func check(_ code: CInt) throws {
            guard code == SQLITE_OK else { throw failure(code) }
        }

        private func failure(_ code: CInt) -> CInterfaceContestant.Failure {
            .init(code: code, description: "SQLite error \(code): \(String(cString: sqlite3_errmsg(connection)))")
        }
    }
#endif
