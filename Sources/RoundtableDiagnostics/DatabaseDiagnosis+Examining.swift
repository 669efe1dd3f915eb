import Foundation
import GRDB
import GRDBSQLite
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Derives findings from facts.
extension DatabaseDiagnosis {
    /// What the system shows of a database, apart from the status. It takes longer to read than the status, and changes less.
    package struct SystemFacts {
        /// The processes that have the database open and are no participants, at two looks.
        var strangers: [SharingProcess] = []
        /// The pids of strangers that opened the database file for reading alone, or may not write it. They cannot checkpoint.
        var readers: Set<Int32> = []
        /// The holder of SQLite's CKPT lock.
        var checkpointer: SharingProcess?
        var isCheckpointerStopped = false
        /// Whether a participant runs that may checkpoint.
        var canCheckpoint = false
        var database: InspectedFile?
        var companions: [InspectedFile] = []
        /// The folder of the outbox, and the folders in it, as far as they exist.
        var outbox: [InspectedFile] = []
        /// Whether the outbox lies beside the database, and so has its permissions.
        var isOutboxBeside = true
        /// The owners of the outbox that run, with their user and groups.
        var outboxOwners: [(process: SharingProcess, credentials: Credentials)] = []
        /// In bytes, for this process; nil when the system does not report it.
        var freeSpace: Int?
        /// In bytes, of the file system; nil when the system does not report it.
        var blockSize: Int?
        var saltProblem: SaltProblem?
        /// The participants that have other files open than those that are in their places.
        var lost: [LostParticipant] = []
        var foreign: ForeignCompanions?
        /// The type of the FUSE file system that has the database; nil when there is none.
        var fuseFileSystem: String?
        /// Why this user gets no file watch; nil when it does.
        var watchShortage: SystemError?
        /// The other files in the App Group's container on iOS; nil when the database lies in none.
        var container: GroupContainer?
    }

    mutating func examine(_ status: DatabaseStatus, _ facts: SystemFacts) {
        path = status.path
        unknowns = status.unknowns
        if let damage = status.damage {
            find(.corrupt, .error, "The schema cannot be read: \(damage)", advice: Self.whenCorrupt)
        }
        examineDiskSpace(status, facts)
        examineFiles(status, facts)
        examineLostFiles(facts)
        examinePermissions(status, facts)
        examineSalt(status, facts)
        // Processes come before the WAL, because a cause comes before its effect.
        examineReads(status, facts)
        examineParticipants(status, facts)
        examineObstructions(status)
        examineLibrary(status, facts)
        examineWAL(status, facts)
        examineControlBlock(status, facts)
        examineOutbox(status, isWritable: examineOutboxPermissions(facts))
        examineDerivedTables(status)
        examineReplication(status)
        examineReplica(status)
        examineFence(status)
        examineTravel(status.outboxTravel ?? [])
        if let container = facts.container { examineOtherLocks(container) }
    }

    // MARK: What cannot be looked at

    mutating func refuse(_ error: SharedDatabaseError) throws {
        switch error {
        case .notAFile(let path, Onlooker.noSuchFile):
            let lost = LostParticipant.all(ofMissingDatabaseAt: path)
            let foreign = ForeignCompanions.find(databasePath: System.resolvedPath(path))
            if lost.isEmpty, foreign == nil { throw error }
            findLostFiles(lost)
            find(foreign)
        case .notAFile(_, let reason) where reason.contains("hard links"):
            find(
                .hardLinks,
                .error,
                "The file has more than one name.",
                advice:
                    "Remove the other names, or copy the database: a process that opens it by another name has another -wal file."
            )
        case .notAFile(_, let reason) where reason.contains("mounted by itself"):
            find(
                .singleFileMount,
                .error,
                "The file is mounted by itself, without its folder.",
                advice:
                    "Mount the folder that has the database: inside and outside of this mount, processes have different -wal files."
            )
        case .networkFileSystem(_, let name):
            find(
                .networkFileSystem,
                .error,
                "The file is on a network file system (\(name)): no shared memory, and no locks to rely on.",
                advice: "Put the database on a local disk."
            )
        default:
            find(.notADatabase, .error, "\(error)", advice: "Give the path of the database file.")
        }
    }

    mutating func refuse(_ error: DatabaseError) {
        switch error.resultCode {
        case .SQLITE_NOTADB:
            find(
                .notADatabase,
                .error,
                "The file does not begin with the whole header of a database.",
                advice: "Give the path of the database file; an encrypted one looks like this, too."
            )
        case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_AUTH:
            find(
                .permissions,
                .error,
                Self.sentence("It cannot be read: \(error.message ?? "permission denied")"),
                advice: "Run as a user who may read it, or change its mode."
            )
        default:
            find(
                .corrupt,
                .error,
                Self.sentence("It cannot be read: \(error)"),
                advice: "Check the disk; restore a backup."
            )
        }
    }

    // MARK: The files

    private mutating func examineFiles(_ status: DatabaseStatus, _ facts: SystemFacts) {
        if let type = facts.fuseFileSystem {
            find(
                .fuseFileSystem,
                .notice,
                """
                The file is on a FUSE file system (\(type)): whether processes share memory and exclude each other there is up to the program \
                behind it.
                """,
                advice:
                    "Have all programs open the database by this mount, on this machine; or put it on a local disk, as a volume if this is a container."
            )
        }
        if let shortage = facts.watchShortage {
            find(
                .noFileWatch,
                .warning,
                """
                The system has no file watch left for this user (\(shortage.reason)): processes without one check four times a second what other \
                processes write to the WAL, to snapshot files and to the outbox. Commits of participants are still reported immediately.
                """,
                advice: "\(SystemErrorAdvice.next(shortage))."
            )
        }
        if status.journalMode == .rollback {
            // A process holds a lock on such a file only while it reads or writes.
            let isEmpty = status.pageSize == nil
            // Without a control block, nothing says that the file is to be shared. A backup need not be in WAL mode.
            let isUnused = status.controlBlock.state == .absent && facts.strangers.isEmpty
            find(
                .notInWALMode,
                isEmpty || isUnused ? .notice : .warning,
                isEmpty
                    ? "The file is empty."
                    : "The database is not in WAL mode: readers and writers block each other.",
                by: facts.strangers,
                advice: """
                    \(isUnused && !isEmpty ? "Nothing, if it is a backup. To share it, open" : "Open") it with SharedDatabase.open, which \(isEmpty ? "sets it up" : "switches it to WAL mode")\
                    \(facts.strangers.isEmpty ? "" : " when those have ended what they read or write now").
                    """
            )
        }
    }

    // MARK: The library

    private mutating func examineLibrary(_ status: DatabaseStatus, _ facts: SystemFacts) {
        guard status.sqliteHasWALResetBug, status.journalMode == .wal else { return }
        let bug = "SQLite \(status.sqliteVersion), which this program runs with, has the WAL-reset bug"
        let link = "<https://www.sqlite.org/wal.html#the_wal_reset_bug>"
        let writers = facts.strangers.filter {
            !facts.readers.contains($0.pid)
                && !($0.pid == status.replication?.litestream && status.replication?.hasSafeSQLite == true)
        }
        if writers.isEmpty {
            find(
                .walResetBug,
                .notice,
                "\(bug). Roundtable's own checkpoints are safe.",
                advice: "Let no other program checkpoint, or run SQLite 3.51.3 or later (\(link))."
            )
        } else {
            find(
                .walResetBug,
                .warning,
                "\(bug), and programs that do not use Roundtable have the database open: if they write and checkpoint, committed rows may be lost.",
                by: writers,
                advice: "Give them PRAGMA wal_autocheckpoint = 0, or all SQLite 3.51.3 or later (\(link))."
            )
        }
    }

    // MARK: The control block

    private mutating func examineControlBlock(_ status: DatabaseStatus, _ facts: SystemFacts) {
        let location = status.controlBlock.path
        let problem = status.controlBlock.problem ?? "it cannot be used"
        switch status.controlBlock.state {
        case .usable: break
        case .absent:
            find(
                .controlBlock,
                .notice,
                "There is no control block: no process shares the database through Roundtable.",
                at: location,
                by: facts.strangers,
                advice: "Nothing, if this is expected: the first participant creates one."
            )
        case .damaged:
            find(
                .controlBlock,
                .warning,
                "\(problem.prefix(1).uppercased() + problem.dropFirst()).",
                at: location,
                advice:
                    "Nothing: the next participant that joins replaces it. Find out which program writes to the file."
            )
        case .unreadable:
            find(
                .controlBlock,
                .warning,
                "It cannot be read: \(problem).",
                at: location,
                advice: """
                    Give it the owner and mode of the database; remove it if it is a folder or a link. A process that cannot use it takes no fair turns.
                    """
            )
        }
        for other in status.otherControlBlocks { examine(other) }
    }

    private mutating func examine(_ other: DatabaseStatus.OtherControlBlock) {
        let what = "A control block of layout version \(other.layoutVersion)"
        if other.pids.isEmpty {
            find(
                .controlBlock,
                .notice,
                "\(what) was left behind: no process uses it.",
                at: other.path,
                advice: "Delete it, unless programs that were built with that Roundtable are to run again."
            )
        } else {
            find(
                .controlBlock,
                .warning,
                "\(what) is in use: its programs take turns among themselves, and not with the others.",
                at: other.path,
                by: other.pids.map { SharingProcess(pid: $0, among: []) },
                advice: "Build all programs with the same Roundtable. No row is lost meanwhile."
            )
        }
    }
}

// MARK: - The system

extension DatabaseDiagnosis.SystemFacts {
    /// - parameter outbox: the folder of the outbox, unless that is beside the database.
    package init(of status: DatabaseStatus, outboxFolder outbox: URL? = nil) throws {
        self.init(of: status, outbox: try DatabaseStatus.outboxFolder(outbox, besideDatabaseAt: status.path))
    }

    /// - parameter folder: the folder of the outbox.
    init(of status: DatabaseStatus, outbox folder: OutboxFolder) {
        let live = status.participants.filter { $0.liveness != .dead }
        func party(_ pid: Int32) -> SharingProcess {
            live.first { $0.isProcess(pid) }?.party
                ?? SharingProcess(pid: pid, among: [])
        }
        strangers = Self.strangers(
            among: SystemLocks.users(databasePath: status.path).map(party),
            ofDatabaseAt: status.path
        )
        let checkpointing = SystemLocks.walLocks(databasePath: status.path)?.checkpointing
        checkpointer = checkpointing.map(party)
        isCheckpointerStopped = checkpointing.flatMap(ProcessTable.entry)?.isStopped == true
        lost = LostParticipant.all(ofDatabaseAt: status.path)
        foreign = ForeignCompanions.find(databasePath: status.path)
        canCheckpoint = live.contains { $0.role == .readWrite && $0.liveness != .stopped && $0.state != .suspended }
        database = DatabaseDiagnosis.InspectedFile(status.path)
        let companionPaths = [status.path + "-wal", status.path + "-shm", status.controlBlock.path]
        companions = companionPaths.compactMap { DatabaseDiagnosis.InspectedFile($0) }
        let folders = [folder.path] + OutboxFolder.Part.allCases.map { folder.path(of: $0) }
        outbox = folders.compactMap { DatabaseDiagnosis.InspectedFile($0) }
        isOutboxBeside = folder.path == OutboxFolder(databasePath: status.path).path
        outboxOwners = (status.outbox?.owners ?? []).compactMap { owner in
            ProcessTable.credentials(owner.pid).map { (owner, $0) }
        }
        if let file = database?.status {
            let pids = strangers.map(\.pid).filter { pid in
                let writes = ProcessTable.writes(FileIdentity(file), pid)
                return !(writes ?? ProcessTable.credentials(pid).map { $0.permissions(for: file) & 0o2 != 0 } ?? true)
            }
            readers = Set(pids)
        }
        if status.isEncrypted { saltProblem = SaltProblem(besideDatabaseAt: status.path) }
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: status.path)
        freeSpace = (attributes?[.systemFreeSize] as? NSNumber)?.intValue
        blockSize = try? System.blockSize(ofFileSystemHolding: status.path)
        fuseFileSystem = try? System.fuseFileSystem(holding: status.path)
        container = GroupContainer(ofDatabaseAt: status.path)
        watchShortage = ProcessTable.watchShortage(at: (status.path as NSString).deletingLastPathComponent)
    }

    /// Those that are no participants. A participant has the database open for a moment before it joins and after it has left, on a busy
    /// machine for longer. So further looks follow, for up to a second.
    private static func strangers(among users: [SharingProcess], ofDatabaseAt path: String) -> [SharingProcess] {
        var strangers = users.filter { !$0.isParticipant }
        for _ in 1...10 where !strangers.isEmpty {
            MonotonicClock.sleep(100_000_000)
            let block = try? ControlBlock.open(forDatabaseAt: path, writable: false)
            let participants = (block?.participants() ?? []).map { ParticipantStatus($0) }.filter {
                $0.liveness != .dead
            }
            let pids = Set(SystemLocks.users(databasePath: path))
            strangers.removeAll { stranger in
                !pids.contains(stranger.pid) || participants.contains { $0.isProcess(stranger.pid) }
            }
        }
        return strangers
    }
}

// MARK: - The content

extension DatabaseDiagnosis {
    private static let problems = 20

    mutating func check(_ onlooker: Onlooker, _ check: DatabaseDiagnosis.Check, _ progress: @escaping () -> Void) {
        let pragma = check == .full ? "integrity_check" : "quick_check"
        do {
            let queue = try onlooker.connection(waitingUpTo: .seconds(1))
            let lines = try queue.read { db in
                let box = Unmanaged.passRetained(ProgressBox(progress))
                defer { box.release() }
                sqlite3_progress_handler(
                    db.sqliteConnection,
                    100_000,
                    { context in
                        Unmanaged<ProgressBox>.fromOpaque(context!).takeUnretainedValue().call()
                        return 0
                    },
                    box.toOpaque()
                )
                defer { sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
                return try String.fetchAll(db, sql: "PRAGMA \(pragma)(\(Self.problems))")
            }
            try queue.close()
            guard lines != ["ok"] else { return }
            let text = lines.flatMap { $0.split(separator: "\n") }.filter { !$0.hasPrefix("***") }
            find(.corrupt, .error, "\(pragma): \(text.joined(separator: "; "))", advice: Self.whenCorrupt)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
            find(.corrupt, .error, "\(pragma): \(error.message ?? "malformed")", advice: Self.whenCorrupt)
        } catch {
            let reason =
                error is EncryptionError ? "the database is encrypted, and this looks at it without a key" : "\(error)"
            unknowns.append("The content: \(Self.sentence(reason))")
        }
    }

    private static let whenCorrupt = """
        Close all programs, copy the database with its -wal file, and then rebuild the indexes (REINDEX), recover what is there \
        (`sqlite3 … .recover`), or restore a backup (`roundtable replace … --with BACKUP --other-migrations`).
        """
}

private final class ProgressBox {
    let call: () -> Void
    init(_ call: @escaping () -> Void) { self.call = call }
}
