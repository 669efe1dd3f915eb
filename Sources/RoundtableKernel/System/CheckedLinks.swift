#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A symbolic link on a path.
package struct FoundLink {
    package let path: String
    /// The status of the link itself.
    package let status: FileStatus
    /// The folder that has the link.
    package let folder: OpenFolder
}

extension System {
    /// As `resolvedPath(_:)`, but each symbolic link is shown to `check` before it is followed, and what was no link is not followed later: who
    /// may create files in a folder on the path may put a link there at any time.
    ///
    /// - Parameters:
    ///   - path: an absolute path.
    ///   - check: throws if the link is not to be followed.
    /// - returns: the path. Its folder need not exist.
    /// - throws: `SystemError`, such as `ELOOP`; what `check` throws.
    package static func resolvedPath(_ path: String, checking check: (FoundLink) throws -> Void) throws -> String {
        var rest = components(path)[...]
        // The components of the part that has no links.
        var real: [String] = []
        var count = 0
        while let name = rest.popFirst() {
            if name == "." { continue }
            if name == ".." {
                _ = real.popLast()
                continue
            }
            let found = joined(real + [name])
            guard let status = try statusOfLink(at: found), status.isSymbolicLink else {
                real.append(name)
                continue
            }
            let folder = try OpenFolder(at: joined(real))
            // What the folder has by now, because another folder may have its name.
            guard let link = try folder.status(ofFile: name), link.isSymbolicLink else {
                throw SystemError(call: .open, errno: ELOOP, path: found)
            }
            try check(FoundLink(path: found, status: link, folder: folder))
            // Linux follows 40 links (path_resolution(7)). A circle, and a name that is no UTF-8, are left for `DatabasePlace`, which refuses links.
            count += 1
            guard count <= 40, let target = target(ofLink: found) else { return joined(real + [name] + rest) }
            if target.utf8.first == UInt8(ascii: "/") { real = [] }
            rest = (components(target) + rest)[...]
        }
        let path = joined(real)
        #if canImport(Darwin)
            // Where case does not matter, all processes use the spelling of the file system.
            let spelled = resolvedPath(path)
            if spelled.lowercased() == path.lowercased() { return spelled }
        #endif
        return path
    }

    /// The components are found among bytes, as the system finds them: `/` with a combining accent is one Character.
    private static func components(_ path: String) -> [String] {
        path.utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func joined(_ components: [String]) -> String { "/" + components.joined(separator: "/") }
}
