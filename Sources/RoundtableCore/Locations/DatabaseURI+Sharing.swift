import Foundation
import GRDBSQLite

// Rule W5: Locations whose processes would not exclude each other are refused: memory, temporary databases, `nolock`, `immutable`, a VFS
// other than the default one, network file systems (FUSE file systems whose files another machine changes too count as such, by their
// type), files with more than one name, and files that are mounted without their folder, whose companions would differ (`statx`; without
// mount ids, a mount point in `/proc/self/mountinfo`).

extension DatabaseFile {
    /// The file that the participants share.
    ///
    /// - throws: ``DatabaseLocationError/notShareable(location:reason:)``, and what `init(_:)` throws.
    init(shared uri: DatabaseURI) throws {
        if let reason = uri.shareHindrance {
            throw DatabaseLocationError.notShareable(location: uri.description, reason: reason)
        }
        try self.init(URL(fileURLWithPath: uri.path))
    }
}

extension DatabaseURI {
    static var defaultVFS: String {
        sqlite3_vfs_find(nil).flatMap { $0.pointee.zName }.map { String(cString: $0) } ?? "none"
    }

    /// The reason why processes could not share the database, or not safely, and what to do instead; nil when they can.
    var shareHindrance: String? {
        let unshared = "UnsharedDatabase.openQueue(at:)"
        if isInMemory {
            return """
                a database in memory belongs to one process: others cannot see it. Share a file, or open it for this process alone with \
                UnsharedDatabase.inMemory()
                """
        }
        if isTemporary {
            return """
                a temporary database belongs to one connection, and its file has no name that others could open. Share a file, or open it with \
                UnsharedDatabase.temporary()
                """
        }
        for name in parameters.map(\.name) {
            switch name {
            case "nolock" where isOn(name):
                return """
                    nolock takes no locks, so two processes can write at the same time, which corrupts the file. Leave it out; for a file that no \
                    other process has open, \(unshared)
                    """
            case "immutable" where isOn(name):
                return """
                    immutable says that the file cannot change: SQLite takes no locks, does not look at the -wal file, and sees no commit of any \
                    process. Leave it out; for a file that no process writes, such as one that comes with the app, \(unshared)
                    """
            case "vfs" where self[name] != Self.defaultVFS:
                return """
                    the locks and the shared memory of the VFS '\(self[name] ?? "")' are not those of the default one, '\(Self.defaultVFS)': \
                    processes that use different ones do not exclude each other. Leave it out, or have every program make it the default; for this \
                    process alone, \(unshared)
                    """
            case "cache" where self[name] == "shared":
                return """
                    cache=shared makes readers and writers of this process lock each other's tables, and readers would not have a moment of their \
                    own. Leave it out: SharedDatabase has connections of its own for reads
                    """
            case "psow":
                return """
                    psow would have to be the same for all connections, and most are Roundtable's own. Leave it out; Options.durability \
                    determines what survives a power cut
                    """
            case "modeof":
                return """
                    modeof is about one of several files, which have to be usable by the same processes: -wal, -shm and the control block take the \
                    permissions of the database file. Leave it out, and create the file with the right permissions, or change them, before others \
                    open it
                    """
            case "nolock", "immutable", "vfs", "cache", "mode": continue
            default:
                return """
                    Roundtable cannot make every process use '\(name)' in the same way. Leave it out; for this process alone, \(unshared)
                    """
            }
        }
        return nil
    }
}
