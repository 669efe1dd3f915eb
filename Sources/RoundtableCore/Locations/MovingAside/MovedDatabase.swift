import Foundation
import GRDB
import RoundtableKernel

/// Moves the files of a database aside (rules S16, S17). It opens none of them (rule G5).
struct MovedDatabase {
    enum Purpose {
        /// The files are kept.
        case quarantine
        /// The files are removed.
        case erasure
    }

    private let path: String
    private let name: String
    private let parent: OpenFolder
    private let quarantined: AsideFolder
    private let erased: AsideFolder

    init(_ path: String) throws {
        let (above, name) = System.place(of: path)
        (self.path, self.name) = (path, name)
        parent = try OpenFolder(at: above, followingLinks: true)
        quarantined = AsideFolder(of: name, in: parent, "quarantined")
        erased = AsideFolder(of: name, in: parent, "erased")
    }

    /// Removes the second names beside the place of the database that movers have left which were killed.
    func removeSecondNames() throws {
        try quarantined.removeSecondNames()
        try erased.removeSecondNames()
    }

    /// Completes what movers have left which were killed. Call it with the turn, or when there is no database.
    func complete() throws {
        try removeSecondNames()
        try erased.removeAll()
    }

    /// Moves the files. Call it with the turn of `seat`.
    ///
    /// - parameter didMove: called when the database is not in its place any more.
    /// - returns: the path of the database in its new folder; nil when it was erased, or there was none.
    func move(_ purpose: Purpose, _ seat: Seat, didMove: () -> Void = {}) throws -> String? {
        do {
            try complete()
            guard let status = try parent.status(ofFile: name) else { return nil }
            var moved: Nanoseconds = 0
            let folder = try (purpose == .quarantine ? quarantined : erased).move(
                linked: ["-wal", "-journal", "-shm"].map { name + $0 },
                moved: [],
                prepare: copySalt,
                didMove: {
                    seat.participant?.block.interruptNews()
                    moved = MonotonicClock.now
                    didMove()
                }
            )
            // Nobody commits without the turn. When this one ends, no look of before is valid, also not by the coarse clock of reads.
            let end = moved + 2 * DatabaseFiles.validity
            while case let now = MonotonicClock.now, now <= end { MonotonicClock.sleep(end - now + 1) }
            seat.participant?.block.interruptNews()
            if purpose == .erasure {
                try erased.removeAll()
                return nil
            }
            try folder.share(withUsersOf: status)
            return folder.file(name)
        } catch let error as AsideFolder.PartlyMoved {
            throw failure("\(error.error)", "Some of its files are in \(error.path)")
        } catch let error as SystemError {
            throw failure(error.reason, SystemErrorAdvice.next(error.errno))
        }
    }

    private func failure(_ reason: String, _ next: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "\(path): cannot be moved aside: \(reason). \(next).")
    }

    /// The salt stays here too, for the next database.
    private func copySalt(to folder: OpenFolder) throws {
        let salt = name + FileSaltStore.suffix
        guard let status = try parent.status(ofFile: salt), let bytes = try parent.contents(ofFile: salt, limit: 4_096)
        else { return }
        try folder.makeFile(salt, bytes, access: FileAccess(status), isDurable: true)
    }
}
