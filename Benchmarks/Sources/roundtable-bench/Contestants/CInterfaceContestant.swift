import GRDBSQLite

/// SQLite's C interface, with what a careful program sets: WAL, `synchronous = NORMAL`, a busy timeout, prepared
/// statements, `BEGIN IMMEDIATE`.
final class CInterfaceContestant: Contestant {
    struct Failure: Error, CustomStringConvertible {
        let code: CInt
        let description: String
    }

    private var connection: OpaquePointer?
    private var begin: OpaquePointer?
    private var beginImmediate: OpaquePointer?
    private var commit: OpaquePointer?
    private var insertion: OpaquePointer?
    private var updating: OpaquePointer?
    private var selection: OpaquePointer?

    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    init(_ path: String, _ settings: ContestantSettings) throws {
        try check(sqlite3_open_v2(path, &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil))
        try check(sqlite3_busy_timeout(connection, 5000))
        var flag: CInt = 1
        try check(sqlite3_file_control(connection, nil, SQLITE_FCNTL_PERSIST_WAL, &flag))
        try check(sqlite3_exec(connection, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", nil, nil, nil))
        if settings.isDurable { try check(sqlite3_exec(connection, Statements.synchronous, nil, nil, nil)) }
        if !settings.hasAutomaticCheckpoints {
            try check(sqlite3_exec(connection, Statements.noAutomaticCheckpoints, nil, nil, nil))
        }
    }

    func insert(author: Int, inside: () -> Void) throws {
        try write {
            inside()
            let statement = try prepared(&insertion, Statements.insert)
            sqlite3_bind_int64(statement, 1, Int64(author))
            sqlite3_bind_text(statement, 2, Statements.text, -1, Self.transient)
            try step(&insertion, Statements.insert, expecting: SQLITE_DONE)
        }
    }

    func update(ids: [Int64], inside: () -> Void) throws {
        try write {
            inside()
            let statement = try prepared(&updating, Statements.update)
            for id in ids {
                sqlite3_bind_int64(statement, 1, id)
                try step(&updating, Statements.update, expecting: SQLITE_DONE)
            }
        }
    }

    private func write(_ body: () throws -> Void) throws {
        try step(&beginImmediate, "BEGIN IMMEDIATE", expecting: SQLITE_DONE)
        do {
            try body()
            try step(&commit, "COMMIT", expecting: SQLITE_DONE)
        } catch {
            sqlite3_exec(connection, "ROLLBACK", nil, nil, nil)
            throw error
        }
    }

    func select(id: Int64) throws -> Int64? {
        var found: Int64?
        try read(id: id, found: { found = $0 }, inside: {})
        return found
    }

    func read(id: Int64, inside: () -> Void) throws { try read(id: id, found: { _ in }, inside: inside) }

    private func read(id: Int64, found: (Int64) -> Void, inside: () -> Void) throws {
        try step(&begin, "BEGIN", expecting: SQLITE_DONE)
        let statement = try prepared(&selection, Statements.select)
        sqlite3_bind_int64(statement, 1, id)
        try step(&selection, Statements.select, expecting: SQLITE_ROW) { found(sqlite3_column_int64(statement, 0)) }
        inside()
        try step(&commit, "COMMIT", expecting: SQLITE_DONE)
    }

    func readNothing() throws {
        try step(&begin, "BEGIN", expecting: SQLITE_DONE)
        try step(&commit, "COMMIT", expecting: SQLITE_DONE)
    }

    func close() throws {
        for statement in [begin, beginImmediate, commit, insertion, updating, selection] { sqlite3_finalize(statement) }
        try check(sqlite3_close(connection))
    }

    private func prepared(_ statement: inout OpaquePointer?, _ sql: String) throws -> OpaquePointer? {
        if statement == nil {
            try check(sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil))
        }
        return statement
    }

    private func step(
        _ statement: inout OpaquePointer?,
        _ sql: String,
        expecting expected: CInt,
        _ body: () -> Void = {}
    ) throws {
        let prepared = try prepared(&statement, sql)
        let code = sqlite3_step(prepared)
        if code == expected { body() }
        sqlite3_reset(prepared)
        guard code == expected else { throw failure(code) }
    }

    private func check(_ code: CInt) throws {
        guard code == SQLITE_OK else { throw failure(code) }
    }

    private func failure(_ code: CInt) -> Failure {
        Failure(code: code, description: "SQLite error \(code): \(String(cString: sqlite3_errmsg(connection)))")
    }
}
