import Foundation
import RoundtableCore
import RoundtableKernel

/// What a look has read of a database that no process has open, for the looks that follow.
///
/// Without the wal-index that such processes keep up to date, SQLite reads the whole WAL at each opening, which may be gigabytes. As long as
/// no file has changed, the content has not changed either. It is confined to the thread that looks.
package final class UnattendedContent {
    /// What tells one content of the files from another.
    struct Version: Equatable {
        private struct File: Equatable {
            let identity: FileIdentity
            let size: Int64
            let time: Int64
        }

        private var files: [File?] = []
        /// When the last of the files was written, in ns since 1970.
        private var time: Int64 = 0

        /// - returns: nil when a file cannot be inspected, or the database has no WAL beside it.
        init?(_ onlooker: Onlooker) {
            guard onlooker.manner == .wal else { return nil }
            for suffix in ["", "-wal", "-shm"] {
                guard let status = try? System.status(ofFileAt: onlooker.path + suffix) else { return nil }
                let file = File(
                    identity: FileIdentity(status),
                    size: Int64(status.st_size),
                    time: status.modificationTime
                )
                files.append(file)
                time = max(time, file.time)
            }
        }

        /// Whether a write that follows gives another version. A file that was just written may be written again at the same time by the
        /// clock of the file system.
        var isSettled: Bool { Int64(Date().timeIntervalSince1970 * 1e9) - time > 1_000_000_000 }
    }

    private struct Known {
        let version: Version
        let status: DatabaseStatus
        let letters: OutboxStatus.DeadLetters?
        let unknowns: [String]
    }

    private var known: Known?
    /// How often nothing had to be read, for tests.
    private(set) var recalls = 0

    package init() {}

    func remember(
        _ status: DatabaseStatus,
        _ version: Version?,
        _ onlooker: Onlooker,
        _ letters: OutboxStatus.DeadLetters?,
        unknowns: ArraySlice<String>
    ) {
        guard let version, version.isSettled, version == Version(onlooker) else { return known = nil }
        known = Known(version: version, status: status, letters: letters, unknowns: Array(unknowns))
    }

    /// Adds what is known to a status.
    ///
    /// - returns: what `DatabaseStatus.lookIntoDatabase` returns; nil when the files have changed, so that they must be read.
    func recall(
        _ status: inout DatabaseStatus,
        _ onlooker: Onlooker
    ) -> (WalIndexView.State?, OutboxStatus.DeadLetters?)? {
        guard let known, known.version == Version(onlooker) else { return nil }
        recalls += 1
        status.schema = known.status.schema
        status.derivedTables = known.status.derivedTables
        status.roles = known.status.roles
        status.unknowns += known.unknowns
        return (nil, known.letters)
    }
}
