import Foundation
import GRDB
import GRDBSQLite

// Rule C7: No database is ever converted. Bytes 72 to 91 are zeros in plain text, and not where they are encrypted. A wrong key, salt or
// kind is refused by the first read, before a write.

/// The first bytes of a database file (<https://www.sqlite.org/fileformat2.html#the_database_header>), read without
/// taking a lock and without creating a `-wal` or `-shm` file.
package struct DatabaseHeader: Equatable, Sendable {
    package let isWAL: Bool
    package let pageSize: Int
    package let userVersion: Int
    /// Whether the file is encrypted behind its first bytes, which are plain (rule C7).
    package let isEncrypted: Bool

    package static let size = 100

    /// Reads the header through SQLite's own file object. Opening and closing the file directly would drop the locks of a connection that
    /// this process has to it (rule G5).
    ///
    /// - returns: nil for an empty file, which is an empty database.
    /// - throws: `DatabaseError`: `SQLITE_NOTADB`, `SQLITE_CANTOPEN`, `SQLITE_IOERR`.
    package init?(databasePath path: String) throws {
        guard FileManager.default.isReadableFile(atPath: path) else {
            throw ForbiddenFile(databasePath: path, writing: false)?.error
                ?? DatabaseError(
                    resultCode: .SQLITE_CANTOPEN,
                    message:
                        "\(path): permission denied. Run this as the user of the programs, or change the permissions of the file."
                )
        }
        var connection: OpaquePointer?
        defer { sqlite3_close_v2(connection) }
        let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
        let code = sqlite3_open_v2(Onlooker.uri(path, "immutable=1"), &connection, flags, nil)
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard code == SQLITE_OK,
            sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK,
            let file, let read = file.pointee.pMethods?.pointee.xRead
        else { throw DatabaseError(resultCode: ResultCode(rawValue: code)).naming(path) }

        var bytes = [UInt8](repeating: 0, count: Self.size)
        // SQLite reads zeros past the end of the file, and reports SHORT_READ.
        let result = ResultCode(rawValue: read(file, &bytes, Int32(Self.size), 0))
        guard result == .SQLITE_OK || result == .SQLITE_IOERR_SHORT_READ else {
            throw DatabaseError(resultCode: result).naming(path)
        }
        let isWhole = result == .SQLITE_OK
        if !isWhole, bytes.allSatisfy({ $0 == 0 }) { return nil }
        guard isWhole, let header = DatabaseHeader(bytes) else {
            throw DatabaseError(resultCode: .SQLITE_NOTADB).naming(path)
        }
        self = header
    }

    /// - returns: nil when these are not the first bytes of a database.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count >= Self.size, bytes.starts(with: Array("SQLite format 3\0".utf8)) else { return nil }
        func number(_ range: Range<Int>) -> Int { bytes[range].reduce(0) { $0 << 8 | Int($1) } }
        let size = number(16..<18)
        pageSize = size == 1 ? 65536 : size
        isWAL = bytes[18] == 2
        // These bytes are zero by the file format. Random bytes are all zero once in 2^160. SQLCipher reserves bytes of each page for
        // itself.
        isEncrypted = bytes[20] != 0 && !bytes[72..<92].allSatisfy { $0 == 0 }
        userVersion = isEncrypted ? 0 : Int(Int32(truncatingIfNeeded: number(60..<64)))
    }
}

extension DatabaseHeader {
    /// What a database file that is not empty seems to be.
    enum Kind {
        case plain
        /// The database is encrypted, and its first bytes are plain.
        case encrypted
        /// The file is no database, or its first bytes are encrypted, too.
        case unknown
    }

    static func look(at path: String) throws -> Kind {
        do {
            return try DatabaseHeader(databasePath: path)?.isEncrypted == true ? .encrypted : .plain
        } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
            return .unknown
        }
    }
}
