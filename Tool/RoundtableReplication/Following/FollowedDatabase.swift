import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import RoundtableFiles
import RoundtableKernel
import RoundtableToolSupport

/// The database that others read, and the files beside it (rules Q). Confined to one thread.
final class FollowedDatabase {
    let path: String
    private let target: RestoreTarget
    /// The folder of the database.
    var files: OpenFolder { target.files }
    /// The follower's folder, with Litestream's own copy of the database; nil when it is not there.
    private var staging: StagingFolder?
    /// What the follower before has reported; nil when there was none.
    let last: ReplicaStatus?
    /// nil before the first state.
    private var database: SharedDatabase?

    /// - parameter check: throws if a symbolic link of the path is not to be followed.
    /// - throws: `ToolError` if the path has a database that is no read replica, or one that another process follows.
    init(_ given: String, checkingLinks check: (FoundLink) throws -> Void) throws {
        target = try RestoreTarget(given, checkingLinks: check)
        path = target.path
        let isReplica = ReadReplica.exists(databasePath: path)
        guard target.existing == nil || target.existing?.st_size == 0 || isReplica else {
            throw ToolError(
                "\(path): exists, and is not a read replica: its content would be lost. Follow to another path."
            )
        }
        last = ReplicaStatus(ofDatabaseAt: URL(fileURLWithPath: path))
        if let last, last.state != .abandoned {
            throw ToolError(
                "\(path): 'roundtable follow' (pid \(last.follower ?? 0)) keeps it already\(last.url.map { ", from \($0.claim)" } ?? ""). End that first."
            )
        }
    }

    /// Makes the folder empty, and marks the database as a read replica, before it exists.
    func prepare(_ report: ReplicaStatus) throws {
        try removeFolder()
        try ReplicaStatus.file(besideDatabaseAt: path, durability: .machine).write(report.forFile)
        if !(try isAbsent) { try openForWriting() }
    }

    /// Makes the folder for Litestream's copy, without what was in it.
    func makeFolder() throws -> StagingFolder {
        try removeFolder()
        let staging = try StagingFolder(folderName, in: files)
        self.staging = staging
        return staging
    }

    private var folderName: String { ".\(target.name)-following" }

    func removeFolder() throws {
        staging?.remove()
        staging = nil
        guard try !StagingFolder.remove(folderName, in: files), let status = try files.status(ofFile: folderName) else {
            return
        }
        throw ToolError(
            "\(files.file(folderName)): no follower of this user has made it (\(status.accessText)), and it is not removed. Look what it is, move it away, and follow again."
        )
    }

    /// Copies a state, in one transaction.
    func copy(from state: DatabaseQueue) throws {
        guard ReadReplica.exists(databasePath: path) else {
            throw ToolError(
                "\(path): is not a read replica any more: another program has replaced it. End this follower."
            )
        }
        guard let staging, staging.isInPlace else {
            throw ToolError(
                "\(files.file(folderName)): another user has moved it away while Litestream wrote there. Follow to a folder that no other user may write."
            )
        }
        guard let database else { return try makeFirst(from: state, in: staging) }
        try state.read { source in
            try database.writeWithoutTransaction { db in try source.backup(to: db) }
        }
        // SQLite's copying calls no hook at its commit, so that this checkpoint would otherwise come with the next state at the earliest. If it
        // fails, that is known from the WAL's health, and the state is there all the same.
        _ = try? database.checkpoint()
    }

    /// The first state gets the database's name when it is whole.
    private func makeFirst(from state: DatabaseQueue, in staging: StagingFolder) throws {
        let first = staging.folder.file("first")
        staging.folder.removeIfPossible("first")
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            // The file is unfinished, and synced when it is whole. With a journal, SQLite would open the folder by its path, which waits for ever if
            // another user has put a pipe there.
            try db.execute(sql: "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF")
        }
        let queue = try DatabaseQueue(path: first, configuration: configuration)
        try state.backup(to: queue)
        try queue.writeWithoutTransaction { db in
            guard try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL") == "wal" else {
                throw DatabaseError(
                    resultCode: .SQLITE_ERROR,
                    message: "\(first): WAL mode is not possible: follow to a local disk"
                )
            }
        }
        try queue.close()
        try staging.folder.finishFile("first", mode: nil, owner: nil)
        // A program may have created an empty file.
        if try isAbsent { files.removeIfPossible(target.name) }
        // Not by a second name for a moment, which a reader that opens the database then would be refused for (rule W5).
        try staging.folder.move("first", toUnused: target.name, in: files)
        try files.sync()
        try openForWriting()
    }

    private var isAbsent: Bool {
        get throws { try System.status(ofFileAt: path).map { $0.st_size == 0 } ?? true }
    }

    private func openForWriting() throws {
        var options = SharedDatabase.Options()
        options.waitWhileStopped()
        options.followsOther = true
        database = try SharedDatabase.open(
            at: URL(fileURLWithPath: path),
            schema: .unmanaged,
            as: ReplicaStatus.author,
            options: options
        )
    }

    func close() { try? database?.close() }
}
