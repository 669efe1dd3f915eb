import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Where a database is, looked at without opening it (rule G5).
struct DatabaseFile {
    /// The path without symbolic links, so that all processes agree on the place of the companion files.
    let path: String
    /// The file's folder.
    let folder: String
    let hasFolder: Bool
    /// nil when there is no file.
    let size: Int?
    /// For companion files; nil when there is no file to take it from.
    let access: FileAccess?

    var isAbsentOrEmpty: Bool { (size ?? 0) == 0 }

    init(_ url: URL) throws {
        guard url.isFileURL else { throw SharedDatabaseError.notAFileURL(url) }
        let given = url.path
        let path = Self.resolved(given)
        let folder = (path as NSString).deletingLastPathComponent
        if let reason = Self.tooLong(path) {
            throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "\(given): \(reason)")
        }
        do {
            if let status = try System.status(ofFileAt: path) {
                switch status.st_mode & S_IFMT {
                case S_IFREG: break
                case S_IFDIR:
                    throw SharedDatabaseError.notAFile(path: given, reason: "is a folder, not a database file")
                default: throw SharedDatabaseError.notAFile(path: given, reason: "is not a regular file")
                }
                size = Int(status.st_size)
                guard status.st_nlink <= 1 else {
                    throw SharedDatabaseError.notAFile(path: given, reason: Self.hardLinked)
                }
                try OpenFile.refuseInherited(status, path: path)
                access = FileAccess(status)
            } else {
                // Links to a file that is still to be created were followed. (By now, another process may have created it.)
                if let status = try System.statusOfLink(at: path), status.st_mode & S_IFMT == S_IFLNK {
                    throw SharedDatabaseError.notAFile(path: given, reason: "is a symbolic link that leads in a circle")
                }
                size = nil
                access = nil
            }
            hasFolder = try size != nil || System.status(ofFileAt: folder) != nil
            if hasFolder, let name = try System.networkFileSystem(holding: size == nil ? folder : path) {
                throw SharedDatabaseError.networkFileSystem(path: given, name: name)
            }
        } catch let error as SystemError {
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: "\(given): \(error.reason). \(SystemErrorAdvice.next(error.errno))."
            )
        }
        self.path = path
        self.folder = folder
    }

    /// SQLite would open such a file read-only without a word, and fail later.
    func checkWritable() throws {
        guard hasFolder else {
            throw SharedDatabaseError.notAFile(
                path: path,
                reason: "the folder \(folder) does not exist: create it first"
            )
        }
        if size != nil, !System.mayRead(path) {
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: "\(path): permission denied: the file cannot be read by this process"
            )
        }
        if size != nil, !System.mayWrite(path) {
            throw DatabaseError(
                resultCode: .SQLITE_READONLY,
                message: "\(path): permission denied: the file cannot be written by this process"
            )
        }
        if !System.mayWrite(folder) {
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: "\(path): permission denied: files cannot be created in its folder, \(folder)"
            )
        }
    }

    /// Why SQLite cannot open a path, nor name the files beside it; nil when it is short enough.
    static func tooLong(_ path: String) -> String? {
        // As SQLite's pager counts: the longest suffix that it appends is `-journal`.
        guard let limit = sqlite3_vfs_find(nil).map({ Int($0.pointee.mxPathname) - "-journal".utf8.count }),
            path.utf8.count > limit
        else { return nil }
        let resolved = "\(path.utf8.count) bytes with symbolic links followed"
        return
            "the path is too long: \(resolved), and SQLite takes \(limit). Move the database to a folder with a shorter path"
    }

    /// `realpath` of the file, or of its folder when there is no file yet.
    static func resolved(_ path: String, depth: Int = 0) -> String {
        func real(_ path: String) -> String? {
            guard let pointer = realpath(path, nil) else { return nil }
            defer { free(pointer) }
            return String(cString: pointer)
        }
        if let path = real(path) { return path }
        let name = (path as NSString).lastPathComponent
        let folder = (path as NSString).deletingLastPathComponent
        guard let realFolder = real(folder.isEmpty ? "." : folder) else { return path }
        let resolved = (realFolder as NSString).appendingPathComponent(name)
        // A link to a file that is still to be created.
        if depth < 16, let target = try? FileManager.default.destinationOfSymbolicLink(atPath: resolved) {
            let isAbsolute = target.hasPrefix("/")
            return Self.resolved(
                isAbsolute ? target : (realFolder as NSString).appendingPathComponent(target),
                depth: depth + 1
            )
        }
        return resolved
    }

    private static let hardLinked = """
        has more than one name (hard links): processes that open it by different names would not share its -wal file, and \
        lose each other's commits. Remove the other names, or copy the database
        """
}
