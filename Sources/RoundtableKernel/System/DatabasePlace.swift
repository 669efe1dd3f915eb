#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

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
        folder = System.divided(path).folder
        status = try System.status(ofFileAt: path)
        let link = try System.statusOfLink(at: path)
        if let status {
            // `resolvedPath` has followed the links whose targets it can name.
            if link?.isSymbolicLink == true {
                throw Refusal.notAFile(reason: "is a symbolic link to a name that \(Self.notUTF8)")
            }
            if status.isFolder {
                throw Refusal.notAFile(reason: "is a folder, not a database file. Give the path of a file")
            }
            guard status.isRegularFile else {
                throw Refusal.notAFile(reason: "is not a regular file. Give another path")
            }
            guard status.st_nlink <= 1 else { throw Refusal.notAFile(reason: Self.hardLinked) }
            if System.isMountedByItself(path, in: System.divided(path).folder) {
                throw Refusal.notAFile(reason: Self.mountedByItself)
            }
            try inspect(status)
        } else if link?.isSymbolicLink == true {
            // `resolvedPath` has followed links to a file that does not exist yet. (Another process may have created it by now.)
            throw Refusal.notAFile(reason: "is a symbolic link that leads in a circle. Remove it, or give another path")
        }
        if status == nil, path.unicodeScalars.contains("\u{FFFD}") {
            throw Refusal.notAFile(
                reason:
                    "does not exist, and has the character U+FFFD, which replaces bytes of a name that \(Self.notUTF8)"
            )
        }
        hasFolder = try status != nil || System.status(ofFileAt: folder) != nil
        if hasFolder, System.target(ofPath: folder.isEmpty ? "." : folder) == nil, System.mayRead(folder) {
            throw Refusal.notAFile(reason: "is in a folder whose path \(Self.notUTF8)")
        }
        if hasFolder, let name = try System.networkFileSystem(holding: status == nil ? folder : path) {
            throw Refusal.networkFileSystem(name: name)
        }
    }

    private static let notUTF8 = "is not UTF-8: rename it first (convmv does that for many files)"

    private static let hardLinked = """
        has more than one name (hard links): processes that open it by different names would not share its -wal file, and \
        lose each other's commits. Remove the other names, or copy the database
        """

    private static let mountedByItself = """
        is mounted by itself, without its folder: processes that open it outside of this mount would not share its -wal file, and lose the \
        commits of those inside. Mount the folder that has the database (docker run -v /host/folder:/data), and open it there
        """
}

extension System {
    /// `realpath` of a file, or of its folder when there is no file yet.
    package static func resolvedPath(_ path: String) -> String { resolvedPath(path, depth: 0) }

    private static func resolvedPath(_ path: String, depth: Int) -> String {
        if let path = target(ofPath: path) { return path }
        let (folder, name) = divided(path)
        guard let realFolder = target(ofPath: folder.isEmpty ? "." : folder) else { return path }
        let resolved = joined(realFolder, name)
        // The name may be a link to a file that does not exist yet.
        if depth < 16, let target = target(ofLink: resolved) {
            return resolvedPath(target.hasPrefix("/") ? target : joined(realFolder, target), depth: depth + 1)
        }
        return resolved
    }

    /// The text of a symbolic link; nil if there is no link.
    static func target(ofLink path: String) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
            let count = readlink(path, buffer.baseAddress!, buffer.count)
            guard count > 0 else { return nil }
            return String(
                validating: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]),
                as: UTF8.self
            )
        }
    }

    private static func joined(_ folder: String, _ name: String) -> String {
        folder.hasSuffix("/") ? folder + name : "\(folder)/\(name)"
    }

    /// The folder and the last component of a path: `/a` and `b` of `/a/b/`. The folder of a path of one component is empty.
    static func divided(_ path: String) -> (folder: String, name: String) {
        let slash = UInt8(ascii: "/")
        let bytes = path.utf8
        guard let last = bytes.lastIndex(where: { $0 != slash }) else { return bytes.isEmpty ? ("", "") : ("/", "/") }
        let start = bytes[...last].lastIndex(of: slash).map { bytes.index(after: $0) } ?? bytes.startIndex
        let name = bytes[start...last]
        let above = bytes[..<start]
        let folder = above.lastIndex { $0 != slash }.map { above[...$0] } ?? above.prefix(1)
        return (String(decoding: folder, as: UTF8.self), String(decoding: name, as: UTF8.self))
    }
}
