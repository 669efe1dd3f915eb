import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import Synchronization

/// The connection that a participant checkpoints on: not the one it writes on, which would have to wait.
final class CheckpointConnection: @unchecked Sendable {
    // @unchecked: `budget` is confined to the queue, where SQLite calls the busy handler.
    private let path: String
    private let queue: DatabaseQueue
    private let budget: Budget

    init(path: String, options: SharedDatabase.Options, gate: SuspensionGate) throws {
        self.path = path
        let budget = Budget(gate: gate)
        var configuration = options.configuration
        configuration.readonly = false
        configuration.journalMode = .default
        // The gate follows them.
        configuration.observesSuspensionNotifications = false
        configuration.busyMode = .callback { _ in budget.goesOn() }
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = \(options.durability.rawValue)")
            try db.keepWalFiles()
            try db.setCheckpointOnClose(false)
        }
        queue = try options.connectionOpening(path).queue(configuration)
        self.budget = budget
        try queue.inDatabase { db in
            // A connection that has read nothing has no WAL to checkpoint.
            guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else {
                throw DatabaseError.leftWAL(path)
            }
            _ = try Int.fetchOne(db, sql: "PRAGMA schema_version")
        }
    }

    /// nil when its header is being written.
    var frames: WalIndex.Frames? { queue.inDatabase { WalIndex($0)?.frames } }

    /// Whether the file of the WAL takes more of the disk than it should, and can be made shorter soon.
    func isFileLong(_ limits: CheckpointLimits) -> Bool {
        queue.inDatabase { db in
            guard let index = WalIndex(db), let frames = index.frames, frames.uncopied < limits.threshold else {
                return false
            }
            return (framesInFile(index) ?? 0) > limits.longest
        }
    }

    /// Whether it is too long to be truncated in one go, while everybody waits.
    func isFileVeryLong(_ limits: CheckpointLimits) -> Bool {
        queue.inDatabase { WalIndex($0).flatMap(framesInFile) ?? 0 } > limits.longest + limits.piece
    }

    /// Cuts a piece off the end of the WAL's file, if the WAL has begun anew: what is beyond its last frame is of the run before, and nobody's.
    /// Nobody writes meanwhile, as when SQLite cuts it to `journal_size_limit`.
    ///
    /// - returns: whether a piece was cut off.
    func cutFile(_ limits: CheckpointLimits) -> Bool {
        queue.inDatabase { db in
            guard let index = WalIndex(db), let file = walFile(db), let methods = file.pointee.pMethods else {
                return false
            }
            return index.whileNobodyWrites {
                guard let frames = index.frames, frames.committed <= limits.longest, let pageSize = index.pageSize,
                    let inFile = framesInFile(index), inFile > limits.longest
                else { return false }
                let kept = max(limits.longest, inFile - limits.piece)
                return methods.pointee.xTruncate(file, sqlite3_int64(Self.headerSize + kept * (pageSize + 24)))
                    == SQLITE_OK
            } ?? false
        }
    }

    private static let headerSize = 32

    /// How many would fit; nil when it cannot be told.
    private func framesInFile(_ index: WalIndex) -> Int? {
        guard let pageSize = index.pageSize, let size = try? System.status(ofFileAt: path + "-wal")?.st_size else {
            return nil
        }
        return max(0, Int(size) - Self.headerSize) / (pageSize + 24)
    }

    private func walFile(_ db: Database) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
        // Not open yet, it has no methods.
        return code == SQLITE_OK && file?.pointee.pMethods != nil ? file : nil
    }

    /// Where the WAL ends; nil when its header is being written.
    var mark: WalMark? { queue.inDatabase { WalIndex($0)?.header?.mark } }

    func passive() -> CheckpointStep.Outcome { queue.inDatabase { CheckpointStep.passive($0) } }

    /// - parameter patience: how long to wait for readers, for each of two times.
    func restart(truncating: Bool, patience: Nanoseconds) -> CheckpointStep.Outcome {
        queue.inDatabase { db in
            budget.begin(patience) { [db] in db.interruptNow() }
            defer { budget.end() }
            let outcome = CheckpointStep.restart(db, goesOn: budget.waitsOn, renew: budget.renew)
            return truncating && outcome.isComplete ? CheckpointStep.truncate(db) : outcome
        }
    }

    /// Writes what the WAL holds to the disk, so that the next checkpoint does not have to.
    func syncWAL() {
        queue.inDatabase { db in
            guard let file = walFile(db), let methods = file.pointee.pMethods else { return }
            // What fails here, fails in the checkpoint, which tells.
            _ = methods.pointee.xSync(file, SQLITE_SYNC_NORMAL)
        }
    }

    /// Ends the step that runs. From any thread.
    func interrupt() { queue.interrupt() }

    func close() throws { try queue.close() }
}

/// SQLite's busy handler for steps that wait.
private final class Budget: @unchecked Sendable {
    // @unchecked: confined to the connection's queue.
    private let gate: SuspensionGate
    private var length: Nanoseconds = 0
    private var deadline: Nanoseconds = 0
    private var interrupt: () -> Void = {}

    private static let pause: Nanoseconds = 200_000

    init(gate: SuspensionGate) { self.gate = gate }

    func begin(_ length: Nanoseconds, interrupt: @escaping () -> Void) {
        self.length = length
        self.interrupt = interrupt
        renew()
    }

    func renew() { deadline = MonotonicClock.now.addingSaturating(length) }

    func end() {
        deadline = 0
        interrupt = {}
    }

    /// Waits a little.
    ///
    /// - returns: false when the time is over.
    func waitsOn() -> Bool {
        let now = MonotonicClock.now
        guard now < deadline, !gate.isClosed else { return false }
        MonotonicClock.sleep(min(Self.pause, deadline - now))
        return true
    }

    /// Whether SQLite shall try again. If not, the step must not go on (rule K5).
    func goesOn() -> Bool {
        if waitsOn() { return true }
        interrupt()
        return false
    }
}
