import Synchronization

/// That a process applies the commands of a folder to one database, while this object lives: those who opened two databases with one folder would
/// have commands for one applied to the other, whichever is first.
///
/// It knows nothing of other processes, which ``OutboxOwnership`` tells of.
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
