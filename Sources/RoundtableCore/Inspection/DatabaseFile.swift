import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

/// The location and state of a database file, inspected without opening the file (rule G5).
package struct DatabaseFile {
    /// The path without symbolic links, so that all processes agree on the place of the companion files.
    package let path: String
    /// The file's folder.
    let folder: String
    let hasFolder: Bool
    /// nil when there is no file.
    package let size: Int?
    /// The access rights for companion files; nil when there is no database file to copy them from.
    let access: FileAccess?

    var isAbsentOrEmpty: Bool { (size ?? 0) == 0 }

    package init(_ url: URL) throws {
        guard url.isFileURL else { throw SharedDatabaseError.notAFileURL(url) }
        let given = url.path
        // Foundation's answer for a URL of other bytes.
        if given.isEmpty {
            throw SharedDatabaseError.notAFile(
                path: url.absoluteString,
                reason: "is empty, or is not UTF-8: rename the file first"
            )
        }
        let path = System.resolvedPath(given)
        if let reason = Self.tooLong(path) {
            throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "\(given): \(reason)")
        }
        let place: DatabasePlace
        do {
            place = try DatabasePlace(resolved: path) { try OpenFile.refuseInherited($0, path: path) }
        } catch DatabasePlace.Refusal.notAFile(let reason) {
            throw SharedDatabaseError.notAFile(path: given, reason: reason)
        } catch DatabasePlace.Refusal.networkFileSystem(let name) {
            throw SharedDatabaseError.networkFileSystem(path: given, name: name)
        } catch let error as SystemError {
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: "\(given): \(error.reason). \(SystemErrorAdvice.next(error.errno))."
            )
        }
        self.path = path
        folder = place.folder
        hasFolder = place.hasFolder
        size = place.status.map { Int($0.st_size) }
        access = place.status.map { FileAccess($0) }
    }

    /// Checks that the files of the database and their folder are writable. SQLite would silently open an unwritable file read-only, and
    /// fail later.
    func checkWritable() throws {
        guard hasFolder else {
            throw SharedDatabaseError.notAFile(
                path: path,
                reason: """
                    the folder \(folder) does not exist: create it first, or set createsParentFolders in the options
                    """
            )
        }
        try ForbiddenFile.refuse(databasePath: path)
        if !System.mayWrite(folder) {
            let access = (try? System.status(ofFileAt: folder)).map { ". It has \($0.accessText)" } ?? ""
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: """
                    \(path): permission denied: this process (user \(geteuid())) cannot create files in its folder, \(folder)\(access). \
                    Run as a user who may write there, or change its permissions
                    """
            )
        }
    }

    /// The reason why a path is too long for SQLite to open it or to name the files beside it; nil when it is short enough.
    static func tooLong(_ path: String) -> String? {
        // This is the limit of SQLite's pager, because the longest suffix that it appends is `-journal`.
        guard let limit = sqlite3_vfs_find(nil).map({ Int($0.pointee.mxPathname) - "-journal".utf8.count }),
            path.utf8.count > limit
        else { return nil }
        let resolved = "\(path.utf8.count) bytes with symbolic links followed"
        return
            "the path is too long: \(resolved), and SQLite takes \(limit). Move the database to a folder with a shorter path"
    }
}

extension DatabaseURI {
    /// Creates the folders above the file that are missing.
    ///
    /// - throws: ``SharedDatabaseError/notAFile(path:reason:)``.
    func createParentFolders() throws {
        if isInMemory || isTemporary { return }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        } catch {
            let reason = "its folder \(folder.path) cannot be created: \(error.localizedDescription)"
            throw SharedDatabaseError.notAFile(path: path, reason: reason)
        }
    }
}
