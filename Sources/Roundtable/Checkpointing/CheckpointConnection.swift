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
        queue = try WalIndexGate.pass { try DatabaseQueue(path: path, configuration: configuration) }
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
            guard let index = WalIndex(db), let frames = index.frames, frames.uncopied < limits.threshold,
                let pageSize = index.pageSize, let size = try? System.status(ofFileAt: path + "-wal")?.st_size
            else { return false }
            return Int(size) > limits.longest * (pageSize + 24)
        }
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
            var file: UnsafeMutablePointer<sqlite3_file>?
            let code = sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
            guard code == SQLITE_OK, let file, let methods = file.pointee.pMethods else { return }
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
