import Foundation
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The place where a database is restored: the path, and what lies beside it.
struct RestoreTarget {
    /// The path without symbolic links.
    let path: String
    let folder: String
    /// The folder. What is at the path is changed through it.
    let files: OpenFolder
    let name: String
    /// The status of the database that is there; nil when there is none.
    let existing: FileStatus?

    /// - parameter check: throws if a symbolic link of the path is not to be followed.
    /// - throws: `ToolError`, `SystemError`.
    init(_ given: String, checkingLinks check: (FoundLink) throws -> Void) throws {
        let resolved = try System.resolvedPath(URL(fileURLWithPath: given).path, checking: check)
        let place: DatabasePlace
        do {
            place = try DatabasePlace(resolved: resolved)
        } catch DatabasePlace.Refusal.notAFile(let reason) {
            throw ToolError("\(resolved): \(reason). Restore to another path.")
        } catch DatabasePlace.Refusal.networkFileSystem(let kind) {
            throw ToolError(
                "\(resolved): is on a network file system (\(kind)), where no database can be shared. Restore to a local disk."
            )
        }
        guard place.hasFolder else {
            throw ToolError("\(resolved): there is no such folder. Create it, or check the path.")
        }
        path = place.path
        folder = place.folder
        name = (path as NSString).lastPathComponent
        files = try OpenFolder(at: folder)
        existing = try files.status(ofFile: name).flatMap { $0.isRegularFile ? $0 : nil }
    }

    // MARK: Companions

    /// The names of Litestream's folder for what it has not uploaded yet.
    var metaFolder: String { ".\(name)-litestream" }

    /// The files that belong to the database that is, or was, at this place, without the database itself. The outbox is none of them: its
    /// commands wait for whatever database is there.
    func companions() throws -> [String] {
        try files.names().filter { candidate in
            candidate == metaFolder || DatabaseCompanions.isCompanion(candidate, of: name)
        }.sorted()
    }

    /// How many commands wait in the outbox beside the database.
    var waitingCommands: Int {
        let names = try? files.folder("\(name)-outbox").folder("commands").names()
        return (names ?? []).count { $0.hasSuffix(".command") }
    }

    // MARK: Who uses it

    /// The processes that use the database, as far as the system shows them.
    func users() -> [SharingProcess] {
        let participants = ((try? ControlBlock.open(forDatabaseAt: path, writable: false))?.participants() ?? [])
            .filter { $0.liveness != .dead }
        var users = participants.map {
            SharingProcess(
                pid: $0.pid,
                isInOtherPIDNamespace: $0.isElsewhere,
                name: $0.author,
                isParticipant: true,
                liveness: $0.liveness == .stopped ? .stopped : .alive
            )
        }
        // Before its first state, a follower is no participant, because there is no database.
        if isReplicaBelieved, let replica = ReplicaStatus(ofDatabaseAt: URL(fileURLWithPath: path)),
            replica.state != .abandoned,
            let pid = replica.follower, !participants.contains(where: { $0.isProcess(pid) })
        {
            users.append(SharingProcess(pid: pid, name: ReplicaStatus.author, isParticipant: true))
        }
        let others = OtherControlBlock.all(besideDatabaseAt: path).flatMap(\.pids)
        for pid in SystemLocks.users(databasePath: path) + others + [blocker()].compactMap(\.self)
        where pid != getpid() && !participants.contains(where: { $0.isProcess(pid) })
            && !users.contains(where: { $0.pid == pid })
        {
            users.append(SharingProcess(pid: pid, among: []))
        }
        return users
    }

    /// Whether what a report beside the database says of a follower counts (rule Q3). In a sticky folder, such as /tmp, any user could keep the
    /// database from being restored by a report that names a process which lives for ever.
    private var isReplicaBelieved: Bool {
        guard let folder = try? files.status(), folder.st_mode & S_ISVTX != 0,
            let report = try? files.status(ofFile: name + ReadReplica.suffix)
        else { return true }
        return (try? ControlBlock.mayUse(report, besideDatabaseAt: path)) ?? true
    }

    /// The owner of a lock that keeps this process from locking the database file.
    private func blocker() -> Int32? {
        guard let lock = try? DatabaseLock(path) else { return nil }
        return lock.owner
    }

    /// - parameter isReplacing: whether an existing database is to be moved away.
    /// - throws: `ToolError` when there is a database, or what was left of one, or when processes use it.
    func check(isReplacing: Bool) throws {
        let users = users()
        if !users.isEmpty {
            let names = users.map { "\($0)" }.joined(separator: ", ")
            guard !isReplacing, existing != nil else {
                throw ToolError("\(path): is in use by \(names). End these programs.")
            }
            throw ToolError(
                """
                \(path): is in use by \(names). Restore to another path, then 'roundtable replace \(path.shellQuotedPath) --with THAT', \
                which ends no program; or end these programs and give --replace.
                """
            )
        }
        if isReplacing {
            try checkMoving()
            return try checkIsDatabase()
        }
        if existing != nil {
            throw ToolError(
                "\(path): exists. Restore to another path, or give --replace, which moves what is there to a folder beside it."
            )
        }
        if let journal = try companions().first(where: { one in
            DatabaseCompanions.journals.contains { one == name + $0 }
        }) {
            throw ToolError(
                "\(folder)/\(journal): was left by a database that is gone, and SQLite would apply it to another. Give --replace, which moves it to a folder, or remove it."
            )
        }
    }

    /// - throws: `ToolError` when the file that is to be moved away is that of another program, because the path is a wrong one.
    private func checkIsDatabase() throws {
        guard existing != nil else { return }
        let magic = Array("SQLite format 3\0".utf8)
        // One byte more than the limit is read. Some file systems leave zeros of a file that was written when the power failed.
        let beginning = try files.contents(ofFile: name, limit: magic.count - 1) ?? []
        guard beginning == magic || beginning.allSatisfy({ $0 == 0 }) else {
            throw ToolError(
                "\(path): does not begin as a SQLite database does, and is not replaced. Check the path; if it is a damaged database, move it away, and restore without --replace."
            )
        }
    }
}

/// SQLite's locks on a database file, all at once: no other process can begin to read or write it
/// (<https://www.sqlite.org/lockingv3.html>). It also works where the file is damaged, and SQLite would not open it.
///
/// This process must not have the database open, because closing any of its descriptors drops all of its locks.
final class DatabaseLock {
    private let descriptor: Int32

    init(_ path: String) throws {
        descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor != -1 else { throw SystemError(call: .open, errno: errno, path: path) }
    }

    /// PENDING, RESERVED and SHARED.
    private var range: flock {
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = 0x4000_0000
        lock.l_len = 512
        return lock
    }

    /// Takes the locks, until this object is released.
    ///
    /// - returns: false when another process holds one of them.
    func take() -> Bool {
        var lock = range
        return fcntl(descriptor, F_SETLK, &lock) == 0
    }

    /// A process that holds one of the locks.
    var owner: Int32? {
        var lock = range
        guard fcntl(descriptor, F_GETLK, &lock) == 0, lock.l_type != Int16(F_UNLCK), lock.l_pid > 0 else { return nil }
        return lock.l_pid
    }

    deinit { close(descriptor) }
}
