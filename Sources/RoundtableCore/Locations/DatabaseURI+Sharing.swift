import Foundation
import GRDBSQLite

// Rule W5: Locations whose processes would not exclude each other are refused: memory, temporary databases, `nolock`, `immutable`, a VFS
// other than the default one, network file systems (FUSE file systems whose files another machine changes too count as such, by their
// type), files with more than one name, and files that are mounted without their folder, whose companions would differ (`statx`; without
// mount ids, a mount point in `/proc/self/mountinfo`).

extension DatabaseURI {
    /// The reason why processes could not share the database, or not safely; nil when they can.
    var shareHindrance: ShareHindrance? {
        if isInMemory { return .inMemory }
        if isTemporary { return .temporary }
        if isUnlocked { return .unlocked }
        if isImmutable { return .immutable }
        if let vfs, vfs != Self.defaultVFS { return .otherVFS(vfs, default: Self.defaultVFS) }
        if cache == .shared { return .sharedCache }
        if isPowersafeOverwrite != nil { return .powersafeOverwrite }
        if permissionsOf != nil { return .permissionsOf }
        return otherParameters.first.map { .unknownParameter($0.name) }
    }

    static var defaultVFS: String {
        sqlite3_vfs_find(nil).flatMap { $0.pointee.zName }.map { String(cString: $0) } ?? "none"
    }

    /// The file that the participants share.
    ///
    /// - throws: ``DatabaseLocationError/notShareable(location:_:)``
    func sharedFile() throws -> URL {
        if let shareHindrance { throw DatabaseLocationError.notShareable(location: description, shareHindrance) }
        return try file
    }

    var file: URL {
        get throws {
            guard !path.utf8.contains(0) else {
                throw DatabaseLocationError.invalidURI(
                    description,
                    reason: "the path contains a NUL, where SQLite would cut it"
                )
            }
            return URL(fileURLWithPath: path)
        }
    }
}
