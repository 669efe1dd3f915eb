import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableUnitSupport
import Testing

/// A connection of code that does not know GRDB.
final class RawSQLite: @unchecked Sendable {
    // @unchecked: SQLite's mutex guards the connection, which is opened with one.
    let pointer: OpaquePointer

    struct Failure: Error, CustomStringConvertible {
        let code: CInt
        let description: String
    }

    init(_ path: String, flags: CInt = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) throws {
        var pointer: OpaquePointer?
        let code = sqlite3_open_v2(path, &pointer, flags | SQLITE_OPEN_FULLMUTEX, nil)
        guard code == SQLITE_OK, let pointer else { throw Failure(code: code, description: "open \(path)") }
        self.pointer = pointer
        sqlite3_busy_timeout(pointer, 5000)
    }

    deinit { sqlite3_close(pointer) }

    func execute(_ sql: String) throws {
        let code = sqlite3_exec(pointer, sql, nil, nil, nil)
        guard code == SQLITE_OK else {
            throw Failure(code: code, description: "\(sql): \(String(cString: sqlite3_errmsg(pointer)))")
        }
    }

    func integer(_ sql: String) throws -> Int {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(pointer, sql, -1, &statement, nil) == SQLITE_OK, sqlite3_step(statement) == SQLITE_ROW
        else { throw Failure(code: sqlite3_errcode(pointer), description: sql) }
        return Int(sqlite3_column_int64(statement, 0))
    }

    /// Inserts a row in one transaction.
    func insert(_ name: String) throws {
        try execute("BEGIN IMMEDIATE; INSERT INTO player (name) VALUES ('\(name)'); COMMIT")
    }
}

extension SharedDatabase.RawHandle {
    func turn<T>(tables: Set<String>? = nil, _ body: () throws -> T) throws -> T {
        try withTurn(tables: tables, body)
    }
}
