import Foundation
import GRDB
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Rule S16: Who moves a database aside has the turn in the state *setting up*, and refuses while a process without a slot has it open, as
// far as the system tells. It makes a folder named as in V3, with the prefix `.NAME-quarantined` or `.NAME-erased` (FNV-1a in hexadecimal
// for a `NAME` of over 100 bytes), and in it a copy of `NAME-salt` and links to `-wal`, `-journal`, `-shm`; syncs it; renames the database
// into it; syncs both folders; and removes each first name that is still that of the file in the folder. It keeps the turn for 20 ms, and
// wakes all sleepers at the news word twice (W12b). A quarantine then gets the database's permissions and the name `NAME-quarantined-TIME`;
// an erasure is removed.

// Rule S18: What has no link follows by a rename, unless there is another database by then. Where the disk is too full for a folder, an
// erasure removes the database, waits as long, and removes the companions that were there. One that is killed in between leaves a `-wal`
// with which opening is refused (W12g), and which the next erasure removes. An opener that completes a move (S17) removes the first names
// for each such folder that belongs to its user, is not open to others and has the database; for one whose maker is dead it also does the
// rest, or removes it if it has no database.

/// Moves the files of a database aside (rules S16, S17). It opens none of them (rule G5).
struct MovedDatabase {
    enum Purpose: CaseIterable {
        /// The files are kept.
        case quarantine
        /// The files are removed.
        case erasure
    }

    private let path: String
    private let name: String
    private let parent: OpenFolder
    private let files: FileSetMove
    private let companions: [String]

    init(_ path: String) throws {
        let (above, name) = System.place(of: path)
        (self.path, self.name) = (path, name)
        parent = try OpenFolder(at: above, followingLinks: true)
        files = FileSetMove(of: name, in: parent)
        companions = ["-wal", "-journal", "-shm"].map { name + $0 }
    }

    /// The beginning of the names of folders into which the database is being moved.
    private func unfinished(_ purpose: Purpose) -> String {
        let short = name.utf8.count <= 100 ? name : String(Checksum.fnv1a(name.utf8), radix: 16)
        return ".\(short)-\(purpose == .quarantine ? "quarantined" : "erased")"
    }

    // MARK: After others

    /// Whether a mover may be in the middle of its work, so that the `-wal` that is here may be that of a database that has gone.
    var isBeingMoved: Bool {
        (try? parent.names().contains { name in Purpose.allCases.contains { name.hasPrefix(unfinished($0) + ".") } })
            ?? false
    }

    /// Completes what movers have left which were killed, and removes the names that living ones would remove next.
    ///
    /// - returns: the path of a database that is quarantined now.
    @discardableResult
    func complete() throws -> String? {
        var path: String?
        for purpose in Purpose.allCases {
            let prefix = unfinished(purpose)
            let abandoned = try Set(UnfinishedFile.abandoned(in: parent, prefix))
            for folderName in try parent.names() where folderName.hasPrefix(prefix + ".") {
                // Another user's folder proves nothing.
                guard let folder = try OpenFolder.ifThere({ try parent.folder(folderName) }), try folder.isOwn else {
                    continue
                }
                let isAbandoned = abandoned.contains(folderName)
                let hasDatabase = try folder.status(ofFile: name) != nil
                if hasDatabase { try files.removeFirstNames(companions, in: folder) }
                guard isAbandoned else { continue }
                if hasDatabase { try files.complete(folder, companions) }
                if hasDatabase, purpose == .quarantine {
                    path = try finish(folder)
                } else {
                    _ = try StagingFolder.remove(folderName, in: parent)
                }
            }
        }
        return path
    }

    /// Removes the companions of a database that is gone, before another one is created. SQLite would use them. Call it with the turn.
    ///
    /// - throws: ``SharedDatabaseError/foreignFiles(path:reason:)`` when they may have commits that are nowhere else; `SystemError`.
    func clearPlace() throws {
        try complete()
        guard try parent.status(ofFile: name) == nil else { return }
        try ForeignCompanions.refuse(databasePath: path, isBeforeTurn: false)
        for companion in companions { try parent.removeFile(companion) }
    }

    // MARK: Moving

    /// Moves the files. Call it with the turn of `seat`.
    ///
    /// - parameter didMove: called when the database is not in its place any more.
    /// - returns: the path of the database in its new folder; nil when it was erased, or there was none.
    func move(_ purpose: Purpose, _ seat: Seat, didMove: () -> Void = {}) throws -> String? {
        var folder: OpenFolder?
        var hasMoved = false
        do {
            let completed = try complete()
            guard try parent.status(ofFile: name) != nil else {
                if purpose == .quarantine { return completed }
                // What would keep the next database from being created.
                for companion in companions { try parent.removeFile(companion) }
                return nil
            }
            let staging: StagingFolder
            do {
                staging = try StagingFolder(UnfinishedFile.name(unfinished(purpose)), in: parent)
            } catch let error as SystemError where purpose == .erasure && [ENOSPC, EDQUOT].contains(error.errno) {
                // A full disk is a reason to erase.
                try removeInPlace(seat)
                return nil
            }
            folder = staging.folder
            defer { if !hasMoved { staging.remove() } }
            if purpose == .quarantine {
                try checkFinalName()
                try copySalt(to: staging.folder)
            }
            try files.move(to: staging.folder, linked: companions) {
                hasMoved = true
                didMove()
            }
            waitUntilNoticed(seat)
            if purpose == .quarantine { return try finish(staging.folder) }
            staging.remove()
            if staging.isInPlace { throw SystemError(call: .unlink, errno: ENOTEMPTY, path: staging.path) }
            return nil
        } catch let error as SystemError {
            if hasMoved { waitUntilNoticed(seat) }
            let place = hasMoved ? ". The database has moved, and is in \(folder?.path ?? path)" : ""
            throw DatabaseError(
                resultCode: .SQLITE_CANTOPEN,
                message: """
                    \(path): cannot be moved aside: \(error)\(place). \(SystemErrorAdvice.next(error.errno)), and try again.
                    """
            )
        }
    }

    /// Without the turn, nobody commits. When it ends, no look of before is valid, also not by the coarse clock of reads (rule W12b).
    private func waitUntilNoticed(_ seat: Seat) {
        seat.participant?.block.interruptNews()
        let end = MonotonicClock.now + 2 * DatabaseFiles.validity
        while case let now = MonotonicClock.now, now <= end { MonotonicClock.sleep(end - now + 1) }
        seat.participant?.block.interruptNews()
    }

    /// Removes the files without moving them, where there is no room for a folder. If this is interrupted, the next erasure goes on.
    private func removeInPlace(_ seat: Seat) throws {
        let identities = try companions.map { try parent.status(ofFile: $0).map { FileIdentity($0) } }
        try parent.removeFile(name)
        waitUntilNoticed(seat)
        for (companion, identity) in zip(companions, identities) {
            if let identity, try parent.status(ofFile: companion).map({ FileIdentity($0) }) == identity {
                try parent.removeFile(companion)
            }
        }
    }

    private var finalPrefix: String { "\(name)-quarantined" }

    private func checkFinalName() throws {
        if let final = FileSetMove.timedNames(finalPrefix).first(where: { _ in true }), final.utf8.count > NAME_MAX {
            throw SystemError(call: .rename, errno: ENAMETOOLONG, path: parent.file(final))
        }
    }

    /// Gives the folder of a quarantined database its permissions and its name.
    private func finish(_ folder: OpenFolder) throws -> String {
        // Where this fails, the folder stays private.
        if let status = try folder.status(ofFile: name) { try? folder.share(withUsersOf: status) }
        try folder.removeFile(StagingFolder.mark)
        let unfinished = System.place(of: folder.path).name
        for final in FileSetMove.timedNames(finalPrefix) {
            do {
                try parent.move(unfinished, toUnused: final, in: parent)
                try parent.sync()
                return "\(parent.file(final))/\(name)"
            } catch let error as SystemError where error.isAlreadyThere {}
        }
        throw SystemError(call: .rename, errno: EEXIST, path: parent.file(finalPrefix))
    }

    /// The salt stays here too, for the next database.
    private func copySalt(to folder: OpenFolder) throws {
        let salt = name + FileSaltStore.suffix
        guard let status = try parent.status(ofFile: salt), let bytes = try parent.contents(ofFile: salt, limit: 4_096)
        else { return }
        try folder.makeFile(salt, bytes, access: FileAccess(status), isDurable: true)
    }
}
