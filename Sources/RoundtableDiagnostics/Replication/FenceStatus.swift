import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Another machine that has been promoted to be the writer of a database, so that this one is fenced: nothing is written here any more.
///
/// It encodes as JSON with the keys listed here.
package struct FenceStatus: Codable, Sendable, Equatable {
    /// When the database was fenced, by the clock of this machine.
    package var since: Date
    /// The URL of the replica, without credentials; nil when it is not known.
    package var url: String?
    /// The number of the writer's term; nil when it is not known.
    package var term: UInt64?
    /// The host name of the writer's machine; nil when it is not known.
    package var host: String?
    /// The path of the database on that machine; nil when it is not known.
    package var path: String?
    /// When that machine was promoted, by its clock; nil when it is not known.
    package var promoted: Date?
    /// The user whose file the mark is; nil if that is not known.
    package var reporter: FileOwner?

    enum CodingKeys: CodingKey { case since, url, term, host, path, promoted }

    package init(since: Date) { self.since = since }

    /// What has happened, and what to do, as one sentence each.
    package var lines: (what: String, next: String) {
        let writer = host.map { "\($0.claim)\(path.map { " (\($0.claim))" } ?? "")" } ?? "another machine"
        let when = promoted.map { " since \($0.formatted(.iso8601))" } ?? ""
        return (
            "The database is fenced: \(writer) is its writer\(when)\(term.map { ", in term \($0)" } ?? ""). Nothing is written here any more.",
            """
            Read here what that machine may lack. To be a read replica, 'roundtable follow' it at another path; to be the writer again, \
            'roundtable promote --replace', which moves what is here to a folder beside it.
            """
        )
    }
}

extension FenceStatus {
    /// The file that marks a fenced database (rule D6).
    package static func file(besideDatabaseAt path: String) -> SnapshotFile<FenceStatus> {
        var options = SnapshotFileOptions()
        options.durability = .machine
        return SnapshotFile(
            at: URL(fileURLWithPath: path + Fence.suffix),
            as: ReplicationStatus.author,
            options: options
        )
    }

    /// The fence of a database.
    ///
    /// It may be called often, in any process that can read the file beside the database, and on any thread.
    ///
    /// - parameter url: the database file.
    /// - returns: nil when the database is not fenced.
    package init?(ofDatabaseAt url: URL) {
        let path = System.resolvedPath(url.path)
        guard Fence.exists(databasePath: path) else { return nil }
        // What a power cut has damaged still marks the database.
        if let (fence, owner) = Self.file(besideDatabaseAt: path).readWithOwner() {
            self = fence
            reporter = owner
        } else {
            self.init(since: Date())
        }
    }
}
