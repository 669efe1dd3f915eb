import Foundation
import GRDB
import GRDBSQLite
import RoundtableGate
import RoundtableKernel
import Synchronization

/// The connection that a participant checkpoints on. It is not the writer connection, on which a checkpoint would have to wait.
final class CheckpointConnection: @unchecked Sendable {
    // @unchecked: `budget` is confined to the queue, where SQLite calls the busy handler.
    private let path: String
    private let queue: DatabaseQueue
    private let budget: Budget

    init(path: String, options: SharedDatabase.Options, gate: SuspensionGate) throws {
        try ForbiddenFile.refuse(databasePath: path)
        self.path = path
        let budget = Budget(gate: gate)
        var configuration = options.connectionConfiguration(readonly: false)
        configuration.busyMode = .callback { _ in budget.mayContinue() }
        configuration.prepareDatabase { db in
            try db.checkFileIsWritable(path)
            try db.set("wal_autocheckpoint", 0)
            for (pragma, value) in options.syncing { try db.set(pragma, value) }
            try db.leaveWalFilesWhenClosed()
        }
        queue = try options.connectionOpening(path).queue(configuration, at: Onlooker.uri(path, "mode=rw"))
        self.budget = budget
        try queue.inDatabase { db in
            // A connection that has read nothing has not opened the WAL, and cannot checkpoint it.
            guard try db.isInWALMode() else {
                throw DatabaseError.leftWAL(path)
            }
            _ = try Int.fetchOne(db, sql: "PRAGMA schema_version")
            try db.checkWalFilesAreWritable(path)
        }
    }

    /// The frames of the WAL; nil while the wal-index header is being written.
    var frames: WalIndex.Frames? { queue.inDatabase { WalIndex($0)?.frames } }

    /// Whether the WAL's file is longer than its limit, and can be shortened soon.
    func isFileLong(_ limits: CheckpointLimits) -> Bool {
        queue.inDatabase { db in
            guard let index = WalIndex(db), let frames = index.frames, frames.uncopied < limits.threshold else {
                return false
            }
            return (framesInFile(index) ?? 0) > limits.longest
        }
    }

    /// Whether the WAL's file is too long to be truncated in one step while all writers wait.
    func isFileVeryLong(_ limits: CheckpointLimits) -> Bool {
        queue.inDatabase { WalIndex($0).flatMap(framesInFile) ?? 0 } > limits.longest + limits.piece
    }

    // Rule K5c: A file that is longer than 36T frames is left until a writer has restarted the WAL. Then what lies beyond 4T frames is of
    // the run before, and the checkpointer cuts it off under WRITE (`xTruncate`), 32T frames a turn, as SQLite does by
    // `journal_size_limit`. If no writer restarts the WAL, TRUNCATE is made. A SQLite that was built with such a limit, as Apple's (32
    // KiB), cuts the file itself in the write that restarts the WAL; it is left as it is.

    /// Cuts a piece off the end of the WAL's file, if the WAL has been restarted. The content after its last frame is then left over
    /// from before the restart, and no process reads it. Writers are excluded meanwhile, as when SQLite cuts the file to
    /// `journal_size_limit`.
    ///
    /// - returns: whether a piece was cut off.
    func cutFile(_ limits: CheckpointLimits) -> Bool {
        queue.inDatabase { db in
            guard let index = WalIndex(db), let file = db.walFile, let methods = file.pointee.pMethods else {
                return false
            }
            return index.whileNobodyWrites {
                guard let frames = index.frames, frames.committed <= limits.longest, let pageSize = index.pageSize,
                    let inFile = framesInFile(index), inFile > limits.longest
                else { return false }
                let kept = max(limits.longest, inFile - limits.piece)
                return methods.pointee.xTruncate(file, sqlite3_int64(WalIndex.walHeaderSize + kept * (pageSize + 24)))
                    == SQLITE_OK
            } ?? false
        }
    }

    private func framesInFile(_ index: WalIndex) -> Int? { index.framesInFile(ofDatabaseAt: path) }

    /// Where the WAL ends; nil while the wal-index header is being written.
    var mark: WalMark? { queue.inDatabase { WalIndex($0)?.header?.mark } }

    func passive() -> CheckpointStep.Outcome { queue.inDatabase { CheckpointStep.passive($0) } }

    /// - parameter patience: how long to wait for readers, in each of the two waits, in ns.
    func restart(truncating: Bool, patience: Nanoseconds) -> CheckpointStep.Outcome {
        queue.inDatabase { db in
            budget.begin(patience) { [db] in db.interruptNow() }
            defer { budget.end() }
            let outcome = CheckpointStep.restart(db, mayContinue: budget.waitsOn, renew: budget.renew)
            return truncating && outcome.isComplete ? CheckpointStep.truncate(db) : outcome
        }
    }

    /// Syncs the WAL to the disk, so that the next checkpoint does not have to.
    func syncWAL() {
        queue.inDatabase { db in
            guard let file = db.walFile, let methods = file.pointee.pMethods else { return }
            // If this fails, the checkpoint fails for the same reason and reports it.
            _ = methods.pointee.xSync(file, SQLITE_SYNC_FULL)
        }
    }

    /// Interrupts the running step. May be called from any thread.
    func interrupt() { queue.interrupt() }

    func close() throws { try OwnConnection.close(queue) }
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

    /// Waits for a short time.
    ///
    /// - returns: false when the budget is used up, or the gate is closed.
    func waitsOn() -> Bool {
        let now = MonotonicClock.now
        guard now < deadline, !gate.isClosed else { return false }
        MonotonicClock.sleep(min(Self.pause, deadline - now))
        return true
    }

    /// Whether SQLite should try again. If not, the connection is interrupted, because the step must not continue (rule K5).
    func mayContinue() -> Bool {
        if waitsOn() { return true }
        interrupt()
        return false
    }
}
