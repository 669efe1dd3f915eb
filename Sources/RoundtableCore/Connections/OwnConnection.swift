import GRDB
import GRDBSQLite
import RoundtableKernel
import Synchronization

/// Distinguishes Roundtable's own connections from other connections by a SQL function that only they have. A list of addresses
/// would not work, because SQLite reuses the address of a closed connection.
enum OwnConnection {
    private static let name = "roundtable_own_connection"

    /// The files of the open connections. An entry ends before the memory of its connection can be used again.
    private static let files = Mutex<[UInt: DatabaseFiles]>([:])

    /// - parameter files: what is informed when the connection closes.
    static func mark(_ db: Database, _ files: DatabaseFiles?) {
        let connection = number(db)
        if let connection, let files { self.files.withLock { $0[connection] = files } }
        sqlite3_create_function_v2(
            db.sqliteConnection,
            name,
            0,
            SQLITE_UTF8 | SQLITE_DETERMINISTIC,
            connection.flatMap { UnsafeMutableRawPointer(bitPattern: $0) },
            { context, _, _ in sqlite3_result_int(context, 1) },
            nil,
            nil,
            // SQLite calls this when the connection has closed its files.
            { connection in OwnConnection.didClose(UInt(bitPattern: connection)) }
        )
    }

    /// What identifies an open connection; nil when it is closed.
    static func number(_ db: Database) -> UInt? { db.sqliteConnection.map { UInt(bitPattern: $0) } }

    private static func didClose(_ connection: UInt) {
        _ = files.withLock { $0.removeValue(forKey: connection) }?.closes(connection)
    }

    /// Closes a connection. Its files are not compared any more from right before on, because afterwards others may remove them.
    ///
    /// - throws: `SQLITE_BUSY` when a statement keeps the connection open.
    static func close(_ queue: DatabaseQueue) throws {
        guard let connection = queue.unsafeReentrantWrite(number), let files = files.withLock({ $0[connection] }) else {
            return try queue.close()
        }
        let known = files.closes(connection)
        do {
            try queue.close()
        } catch {
            files.keeps(connection, known)
            throw error
        }
    }

    /// Queries the list of functions, because the call of a missing function would appear in the program's error log.
    static func isMarked(_ raw: RawConnection) -> Bool {
        raw.integer("SELECT 1 FROM pragma_function_list WHERE name = '\(name)'") == 1
    }
}
