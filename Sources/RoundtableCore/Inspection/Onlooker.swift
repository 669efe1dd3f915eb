import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

/// Reads a database without leaving a trace: it creates and changes no file, takes no turn, and recovers nothing.
///
/// SQLite's read-only connections create missing `-wal` and `-shm` files, and rebuild a `-shm` file that no connection uses. Which URI
/// prevents this depends on the files that exist.
package struct Onlooker: Sendable {
    package enum Manner: Equatable, Sendable {
        /// The database has a rollback journal. A read-only connection creates nothing.
        case rollback
        /// The database is in WAL mode and has its companion files. The `-shm` file is mapped read-only
        /// (<https://www.sqlite.org/walformat.html#recovery>, `readonly_shm`).
        case wal
        /// The database is in WAL mode, and the `-wal` or the `-shm` file is missing: no process has it open. The database file alone is
        /// read, without locks.
        case still
    }

    /// Sizes in bytes; nil where there is no file.
    package struct CompanionFiles: Equatable, Sendable {
        package var wal: Int?
        package var walIndex: Int?
        package var rollbackJournal: Int?
        package var salt: Int?
    }

    package static let noSuchFile = "there is no such file"

    package let path: String
    package let size: Int
    /// nil for an empty file.
    package let header: DatabaseHeader?
    package let companions: CompanionFiles

    /// - throws: ``SharedDatabaseError/notAFile(path:reason:)`` also for a file that does not exist; `DatabaseError`.
    package init(_ url: URL) throws {
        let file = try DatabaseFile(url)
        guard let size = file.size else {
            throw SharedDatabaseError.notAFile(path: url.path, reason: Self.noSuchFile)
        }
        func companion(_ suffix: String) throws -> Int? {
            try System.status(ofFileAt: file.path + suffix).map { Int($0.st_size) }
        }
        path = file.path
        self.size = size
        header = try DatabaseHeader(databasePath: file.path)
        companions = CompanionFiles(
            wal: try companion("-wal"),
            walIndex: try companion("-shm"),
            rollbackJournal: try companion("-journal"),
            salt: try companion(FileSaltStore.suffix)
        )
    }

    package var manner: Manner {
        guard header?.isWAL == true else { return .rollback }
        return companions.wal != nil && companions.walIndex != nil ? .wal : .still
    }

    /// Whether the `-wal` file has frames that a connection in this manner does not see.
    package var missesWAL: Bool { manner == .still && (companions.wal ?? 0) > 0 }

    /// - parameter busyTimeout: how long opening the connection, and then each statement, waits for locks of other connections (rule W9).
    /// - throws: ``EncryptionError/databaseIsEncrypted(path:)``, because an onlooker has no key.
    package func connection(waitingUpTo busyTimeout: Duration) throws -> DatabaseQueue {
        if header?.isEncrypted == true { throw EncryptionError.databaseIsEncrypted(path: path) }
        let timeout = busyTimeout.nanoseconds
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(min(Double(timeout) / 1e9, OpeningWait.longestTimeout))
        let parameters =
            switch manner {
            case .rollback: "mode=ro"
            case .wal: "mode=ro&readonly_shm=1"
            case .still: "immutable=1"
            }
        let name = Self.uri(path, parameters)
        try URINames.check(name)
        return try OpeningWait(path: path, timeout: timeout).queue(configuration) {
            let queue = try DatabaseQueue(path: name, configuration: $0)
            queue.inDatabase { OpenFile.note($0, path: path) }
            return queue
        }
    }

    /// The URI of a database file (<https://www.sqlite.org/uri.html>).
    static func uri(_ path: String, _ parameters: String) -> String {
        var uri = Array("file:".utf8)
        uri.reserveCapacity(path.utf8.count + parameters.utf8.count + 8)
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                uri.append(byte)
            default:
                uri.append(UInt8(ascii: "%"))
                for digit in [byte >> 4, byte & 15] {
                    uri.append(digit + (digit < 10 ? UInt8(ascii: "0") : UInt8(ascii: "A") - 10))
                }
            }
        }
        uri.append(UInt8(ascii: "?"))
        uri.append(contentsOf: parameters.utf8)
        return String(decoding: uri, as: UTF8.self)
    }
}

extension Onlooker {
    /// How long the WAL is, and how much of it is in the database file. Call it in a read transaction of this onlooker's connection.
    ///
    /// - returns: nil while no process keeps the wal-index up to date, or its header is being written.
    package func walState(_ db: Database) -> WalIndexView.State? {
        // Mapping the wal-index of a connection that does not use it would create the file.
        guard manner == .wal else { return nil }
        return WalIndex(db)?.view?.state
    }
}
