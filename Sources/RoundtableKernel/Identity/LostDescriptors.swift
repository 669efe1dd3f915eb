/// Where a process has files open that are not in their places any more. They can be copied from there, as long as it runs.
package struct LostDescriptors: Equatable, Sendable {
    /// The name of the database file's descriptor in `/proc`.
    package let database: String
    /// The name of the WAL's; nil when it is not found.
    package let wal: String?
    /// The present name of the database file; nil when it has none any more.
    package let path: String?

    /// - returns: nil when the process does not have a database with these stamps open, may not be inspected, or the system does not show
    ///   descriptors.
    package init?(of stamps: FileStamps, pid: Int32) {
        #if os(Linux)
            let folder = "/proc/\(pid)/fd"
            guard let names = try? System.names(inFolder: folder) else { return nil }
            var own: (link: String, text: String)?
            var links: [String: String] = [:]
            for name in names {
                let link = "\(folder)/\(name)"
                guard let text = System.target(ofLink: link) else { continue }
                links[text] = link
                // This opens nothing (rule G5).
                guard own == nil, let file = try? System.status(ofFileAt: link), stamps.isOf(FileIdentity(file)) else {
                    continue
                }
                own = (link, text)
            }
            guard let own else { return nil }
            database = own.link
            let isDeleted = own.text.hasSuffix(Self.deleted)
            path = isDeleted ? nil : own.text
            let base = isDeleted ? String(own.text.dropLast(Self.deleted.count)) : own.text
            wal = links["\(base)-wal\(Self.deleted)"] ?? links["\(base)-wal"]
        #else
            return nil
        #endif
    }

    private static let deleted = " (deleted)"
}
