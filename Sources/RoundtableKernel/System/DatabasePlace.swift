import Foundation

/// The place of a database, inspected without opening the file (rule G5). Each process checks it before it opens the database or uses
/// files beside it.
package struct DatabasePlace {
    /// The path without symbolic links, so that all processes agree on the place of the companion files.
    package let path: String
    /// The file's folder.
    package let folder: String
    package let hasFolder: Bool
    /// The status of the file; nil when there is no file.
    package let status: FileStatus?

    /// The longest path, in bytes, that SQLite's default VFS opens together with its `-journal` (`MAX_PATHNAME` in SQLite's os_unix.c).
    package static let longestPath = 512 - "-journal".utf8.count

    /// The reason why no database can be shared there. `reason` continues a sentence that begins with the path.
    package enum Refusal: Error, Equatable {
        case notAFile(reason: String)
        case networkFileSystem(name: String)
    }

    /// - Parameters:
    ///   - path: a result of `System.resolvedPath(_:)`.
    ///   - inspect: called with the status of a file that is acceptable so far.
    /// - throws: `Refusal`; `SystemError`; what `inspect` throws.
    package init(resolved path: String, inspecting inspect: (FileStatus) throws -> Void = { _ in }) throws {
        self.path = path
        folder = (path as NSString).deletingLastPathComponent
        status = try System.status(ofFileAt: path)
        if let status {
            if status.isFolder { throw Refusal.notAFile(reason: "is a folder, not a database file") }
            guard status.isRegularFile else { throw Refusal.notAFile(reason: "is not a regular file") }
            guard status.st_nlink <= 1 else { throw Refusal.notAFile(reason: Self.hardLinked) }
            try inspect(status)
        } else if let status = try System.statusOfLink(at: path), status.isSymbolicLink {
            // `resolvedPath` has followed links to a file that does not exist yet. (Another process may have created it by now.)
            throw Refusal.notAFile(reason: "is a symbolic link that leads in a circle")
        }
        hasFolder = try status != nil || System.status(ofFileAt: folder) != nil
        if hasFolder, let name = try System.networkFileSystem(holding: status == nil ? folder : path) {
            throw Refusal.networkFileSystem(name: name)
        }
    }

    private static let hardLinked = """
        has more than one name (hard links): processes that open it by different names would not share its -wal file, and \
        lose each other's commits. Remove the other names, or copy the database
        """
}

extension System {
    /// `realpath` of a file, or of its folder when there is no file yet.
    package static func resolvedPath(_ path: String) -> String { resolvedPath(path, depth: 0) }

    private static func resolvedPath(_ path: String, depth: Int) -> String {
        if let path = target(ofPath: path) { return path }
        let name = (path as NSString).lastPathComponent
        let folder = (path as NSString).deletingLastPathComponent
        guard let realFolder = target(ofPath: folder.isEmpty ? "." : folder) else { return path }
        let resolved = (realFolder as NSString).appendingPathComponent(name)
        // The name may be a link to a file that does not exist yet.
        if depth < 16, let target = try? FileManager.default.destinationOfSymbolicLink(atPath: resolved) {
            let isAbsolute = target.hasPrefix("/")
            let next = isAbsolute ? target : (realFolder as NSString).appendingPathComponent(target)
            return resolvedPath(next, depth: depth + 1)
        }
        return resolved
    }
}
