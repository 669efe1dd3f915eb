import RoundtableFiles
import Synchronization

/// A claim of this process to apply the commands of a folder to one database. It lasts as long as this object lives. Without it, two
/// databases that are opened with one folder would apply each other's commands.
///
/// The claim knows nothing of other processes, which ``OutboxOwnership`` detects.
final class OutboxClaim: Sendable {
    private struct Owner {
        let database: String
        var count = 0
    }
    private static let all = Mutex<[String: Owner]>([:])
    private let path: String

    private init(_ path: String) { self.path = path }

    /// - throws: ``OutboxError/folderInUse(path:database:)``.
    static func make(_ folder: OutboxFolder, ofDatabaseAt database: String) throws -> OutboxClaim {
        let path = folder.path
        try all.withLock { all in
            let owner = all[path] ?? Owner(database: database)
            guard owner.database == database else {
                throw OutboxError.folderInUse(path: path, database: owner.database)
            }
            all[path] = Owner(database: database, count: owner.count + 1)
        }
        return OutboxClaim(path)
    }

    deinit {
        Self.all.withLock { all in
            guard let count = all[path]?.count else { return }
            all[path]?.count = count - 1
            if count == 1 { all[path] = nil }
        }
    }
}
