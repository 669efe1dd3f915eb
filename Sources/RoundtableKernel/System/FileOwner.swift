#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The user whose file it is. In a folder that several users may write, each of them can put a file of his own in place of another's, and
/// what such a file says is his claim.
package struct FileOwner: Equatable, Sendable {
    package let user: uid_t

    package init(user: uid_t) { self.user = user }

    /// Reads a file, and finds its owner.
    ///
    /// - Parameters:
    ///   - status: the status of the file, without following a link.
    ///   - body: reads the file.
    /// - returns: what `body` returns, and the owner; nil if the owner is not known, because the file was replaced meanwhile.
    package static func reading<T>(_ status: () -> stat?, _ body: () throws -> T) rethrows -> (T, FileOwner?) {
        let before = status()
        let content = try body()
        guard let before, let after = status(), FileIdentity(before) == FileIdentity(after) else {
            return (content, nil)
        }
        return (content, FileOwner(user: after.st_uid))
    }

    /// Whether a process is one of this user; nil if that is not known. The superuser's are told apart by the name of their program, because
    /// any user can name them.
    ///
    /// - parameter program: the name of the program that writes such files.
    package func runs(_ pid: Int32, program: String) -> Bool? {
        guard let other = ProcessTable.credentials(pid)?.user else { return nil }
        return other == user || other == 0 && ProcessTable.name(pid) == program
    }
}

extension FileOwner: CustomStringConvertible {
    /// As `'alice' (uid 1000)`, and `uid 1000` for a user without a name.
    package var description: String {
        Credentials.name(of: user).map { "'\($0.claim)' (uid \(user))" } ?? "uid \(user)"
    }
}
