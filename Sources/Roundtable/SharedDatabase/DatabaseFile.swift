import Foundation
import GRDB
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
    /// nil when there is no file.
    let size: Int?
    /// Mode bits for companion files; nil when there is no file to take them from.
    let permissions: mode_t?

    var isAbsentOrEmpty: Bool { (size ?? 0) == 0 }

    init(_ url: URL) throws {
        guard url.isFileURL else { throw SharedDatabaseError.notAFileURL(url) }
        let given = url.path
        let path = Self.resolved(given)
        let folder = (path as NSString).deletingLastPathComponent
        do {
            if let status = try System.status(ofFileAt: path) {
                switch status.st_mode & S_IFMT {
                case S_IFREG: break
                case S_IFDIR:
                    throw SharedDatabaseError.notAFile(path: given, reason: "is a folder, not a database file")
                default: throw SharedDatabaseError.notAFile(path: given, reason: "is not a regular file")
                }
                size = Int(status.st_size)
                permissions = status.st_mode & 0o666
            } else {
                guard try System.status(ofFileAt: folder) != nil else {
                    throw SharedDatabaseError.notAFile(path: given, reason: "the folder \(folder) does not exist")
                }
                size = nil
                permissions = nil
            }
            if let name = try System.networkFileSystem(holding: size == nil ? folder : path) {
                throw SharedDatabaseError.networkFileSystem(path: given, name: name)
            }
        } catch let error as SystemError {
            throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: error.description)
        }
        self.path = path
    }

    /// `realpath` of the file, or of its folder when there is no file yet.
    private static func resolved(_ path: String) -> String {
        func real(_ path: String) -> String? {
            guard let pointer = realpath(path, nil) else { return nil }
            defer { free(pointer) }
            return String(cString: pointer)
        }
        if let path = real(path) { return path }
        let name = (path as NSString).lastPathComponent
        let folder = (path as NSString).deletingLastPathComponent
        guard let realFolder = real(folder.isEmpty ? "." : folder) else { return path }
        return (realFolder as NSString).appendingPathComponent(name)
    }
}
