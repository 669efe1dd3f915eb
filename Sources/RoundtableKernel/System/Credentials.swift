#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A user and the groups that it is in, which decide what it may do with a file. Access control lists are not considered.
package struct Credentials: Equatable, Sendable {
    package let user: uid_t
    package let groups: Set<gid_t>

    package init(user: uid_t, groups: Set<gid_t>) { (self.user, self.groups) = (user, groups) }

    /// The owner of a file. It counts as a member of the file's group, and is in the groups that the system's database of users lists.
    package init(ownerOf status: FileStatus) {
        self.init(user: status.st_uid, groups: Self.groups(of: status.st_uid).union([status.st_gid]))
    }

    /// What the user may do: the bits 4 (read), 2 (write) and 1 (execute, or enter).
    package func permissions(for status: FileStatus) -> mode_t {
        if user == 0 { return 0o7 }
        if status.st_uid == user { return status.st_mode >> 6 & 0o7 }
        return (groups.contains(status.st_gid) ? status.st_mode >> 3 : status.st_mode) & 0o7
    }

    /// The name of a user in the system's database; nil for a user that is not in it.
    package static func name(of user: uid_t) -> String? { withEntry(of: user) { String(cString: $0.pw_name) } }

    /// The groups of a user in the system's database; empty for a user that is not in it.
    private static func groups(of user: uid_t) -> Set<gid_t> {
        #if canImport(Darwin)
            typealias Group = Int32
        #else
            typealias Group = gid_t
        #endif
        return withEntry(of: user) { entry in
            var groups = [Group](repeating: 0, count: 1024)
            var count = Int32(groups.count)
            // A user of more groups than fit is in the first ones at least.
            _ = getgrouplist(entry.pw_name, Group(entry.pw_gid), &groups, &count)
            return Set(groups.prefix(Int(min(max(count, 0), 1024))).map { gid_t($0) })
        } ?? []
    }

    /// - returns: nil for a user that is not in the system's database.
    private static func withEntry<T>(of user: uid_t, _ body: (passwd) -> T) -> T? {
        // The entry points into this buffer.
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 16 << 10) { buffer in
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            guard let memory = buffer.baseAddress, getpwuid_r(user, &entry, memory, buffer.count, &found) == 0,
                found != nil
            else { return nil }
            return body(entry)
        }
    }
}
