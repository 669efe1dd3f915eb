import CRoundtableShims
import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

// Rule W4: After `fork` without `exec`, the child's accesses fail with `SQLITE_MISUSE`, and it closes nothing. Opening a file fails in the
// same way if a connection of the process had it open when it forked, by whatever path (device and inode count), because `fork` copies
// SQLite's table of open files and not the locks that it lists. Only `exec` ends this. The rule holds for connections of other libraries
// too, and is not checked there.

/// A database file that a connection of this process has open, until the connection closes (rule W4).
///
/// SQLite keeps a table of the files that the process has open, and of the locks on them. `fork` copies the table but not the
/// locks. A connection that a child opens to such a file acquires neither SHARED nor the lock of the wal-index, because the table
/// says that the process holds them.
final class OpenFile {
    private let file: FileIdentity
    private let generation: UInt32

    private init(_ file: FileIdentity) {
        self.file = file
        generation = rt_open_file_add(file.device, file.inode)
    }

    deinit { rt_open_file_remove(file.device, file.inode, generation) }

    /// Records the file of a connection that has just been opened.
    static func note(_ db: Database, path: String) {
        guard let file = try? System.identity(ofFileAt: path) else { return }
        // SQLite drops the function and releases its context when it closes the connection.
        sqlite3_create_function_v2(
            db.sqliteConnection,
            "roundtable_open_file",
            0,
            SQLITE_UTF8 | SQLITE_DETERMINISTIC,
            Unmanaged.passRetained(OpenFile(file)).toOpaque(),
            { context, _, _ in sqlite3_result_int(context, 1) },
            nil,
            nil,
            { file in file.map { Unmanaged<OpenFile>.fromOpaque($0).release() } }
        )
    }

    /// - throws: `SQLITE_MISUSE` when the file was open before a fork that made this process.
    static func refuseInherited(_ status: FileStatus, path: String) throws {
        let file = FileIdentity(status)
        if rt_open_file_is_inherited(file.device, file.inode) != 0 { throw DatabaseError.openedBeforeFork(path) }
    }
}

extension DatabaseError {
    static func openedBeforeFork(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: """
                \(path) was opened before fork(): a child process must not use its parent's connections, and cannot open the database again, because \
                SQLite would take its parent's locks for its own. Call exec in the child, and open the database in the program that it starts
                """
        )
    }
}
