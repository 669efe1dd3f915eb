import GRDB
import RoundtableGate
import RoundtableKernel

extension SharedDatabase {
    /// The state of the WAL after a checkpoint.
    public struct CheckpointResult: Sendable, Hashable, Codable {
        /// The number of frames that are in the WAL now. A frame is a page that a transaction wrote.
        public var frames: Int
        /// The number of frames that have been copied into the database file.
        public var backfilledFrames: Int

        /// Whether every frame is in the database file. If not, a process reads an older snapshot of the database (``walHealth()``
        /// names it), or has written since.
        public var isComplete: Bool { backfilledFrames == frames }

        enum CodingKeys: String, CodingKey {
            case frames
            case backfilledFrames = "backfilled_frames"
        }
    }

    /// Copies the content of the WAL into the database file. Only ``CheckpointPolicy/manual`` needs this, or a program that wants to
    /// have everything in one file.
    ///
    /// Unlike GRDB's `Database.checkpoint(_:on:)` and `PRAGMA wal_checkpoint`, it avoids SQLite's WAL-reset bug.
    ///
    /// - Parameters:
    ///   - mode: `.passive` waits for no other process and delays none. The other modes take a turn, wait for readers of older
    ///     snapshots, and let the next writer restart the WAL; `.truncate` also makes its file empty. Only `.passive` may be
    ///     called inside of an access to the same database.
    ///   - patience: how long the other modes wait for readers of older snapshots, and then again for readers that began
    ///     meanwhile. Writers wait during that time, too.
    ///   - file: the file of the call, for errors of other processes and for `status`.
    ///   - line: the line of the call.
    /// - returns: the state of the WAL after the checkpoint. An incomplete checkpoint is not an error.
    /// - throws: `SQLITE_READONLY` from a read-only participant; `SQLITE_BUSY`, with the name of the process in the way, when another
    ///   process checkpoints, or a program that takes no turns writes, for longer than `patience` (`.passive` does not wait);
    ///   `SQLITE_INTERRUPT` while the database is suspended (the asynchronous form waits, as writes do); `SQLITE_FULL`,
    ///   `SQLITE_IOERR` …
    @discardableResult
    public func checkpoint(
        _ mode: Database.CheckpointMode = .passive,
        waitingForReaders patience: Duration = .milliseconds(40),
        file: StaticString = #fileID,
        line: UInt = #line
    ) throws -> CheckpointResult {
        let checkpointer = try checkpointerForWriting()
        let site = CallSite(file, line)
        if mode == .passive {
            guard let visit = gate.enter(.checkpoint, at: site, isRunning: true) else {
                throw DatabaseError.suspended(path)
            }
            defer { gate.leave(visit) }
            return try checkpointNow(checkpointer) { $0.passive() }
        }
        var result: CheckpointResult?
        try onWriter(blockingWrite(site), refuse: { throw $0 }) { _ in
            result = try checkpointNow(checkpointer) {
                $0.restart(truncating: mode == .truncate, patience: patience.nanoseconds)
            }
        }
        return result!
    }

    /// Copies the content of the WAL into the database file, without blocking a thread of Swift's pool.
    ///
    /// Parameters and errors are those of the blocking form. While the database is suspended, this form waits, as writes do.
    @discardableResult
    public func checkpoint(
        _ mode: Database.CheckpointMode = .passive,
        waitingForReaders patience: Duration = .milliseconds(40),
        file: StaticString = #fileID,
        line: UInt = #line
    ) async throws -> CheckpointResult {
        while true {
            do {
                return try await offThread {
                    Result { try self.checkpoint(mode, waitingForReaders: patience, file: file, line: line) }
                }.get()
            } catch let error as DatabaseError where error.isSuspension && waitingWrite().waits {
                try await gate.waitUntilOpen()
            }
        }
    }

    /// Connects the checkpointer with the rest of the database, and schedules a checkpoint that is due (rule K2).
    func followCheckpoints() {
        guard let checkpointer = writer.checkpointer else { return }
        checkpointer.database = self
        // A process that ended without closing may have left frames. A write of this participant that comes first begins the checkpoint.
        if let frames = writer.queue.inDatabase({ WalIndex($0)?.frames }), checkpointer.mayHaveToStepIn(frames) {
            checkpointer.stepInLater { [weak self] in self?.checkpointSoon() }
        }
        observatory.onNews { [weak self] in self?.stepInLater(checkpointer) }
    }

    /// Calls `body` with the turn, on the writer's queue, or with `hasTurn` false if the turn could not be acquired.
    func withCheckpointersTurn(_ body: @escaping @Sendable (_ hasTurn: Bool) -> Void) {
        onWriterLater(waitingWrite(), failed: { _, _ in body(false) }) { body(!$0.isInsideTransaction) }
    }

    /// Schedules a look at a WAL that is due for a checkpoint, until one is made (rule K2).
    private func stepInLater(_ checkpointer: Checkpointer) {
        guard let frames = observatory.frames, checkpointer.mayHaveToStepIn(frames) else { return }
        checkpointer.stepInLater { [weak self] in
            // A gate that opens leads to a look of its own.
            guard let self, !gate.isClosed, let frames = observatory.frames, checkpointer.mayHaveToStepIn(frames),
                checkpointer.limits != nil
            else { return }
            checkpointSoon()
            stepInLater(checkpointer)
        }
    }

    /// Begins a checkpoint, if one is due, of frames that the writer connection has not written: those of a raw handle or of other
    /// participants. Takes no turn.
    func checkpointSoon() {
        writer.soon { [weak self] db in
            guard let checkpointer = self?.writer.checkpointer else { return }
            checkpointer.lookAtWAL(db)
            checkpointer.beginIfNeeded(db)
        }
    }

    private func checkpointNow(
        _ checkpointer: Checkpointer,
        _ body: (CheckpointConnection) -> CheckpointStep.Outcome
    ) throws -> CheckpointResult {
        try files.check()
        let began = MonotonicClock.now
        let deadline = began.addingSaturating(options.backgroundBusyTimeout.nanoseconds)
        let (outcome, frames): (CheckpointStep.Outcome, WalIndex.Frames?)
        do throws(CheckpointLink.Failure) {
            (outcome, frames) = try checkpointer.link.use(until: deadline) { (body($0), $0.frames) }
        } catch {
            switch error {
            case .isBusy: throw checkpointInTheWay(since: began)
            case .cannotOpen(let error):
                checkpointer.noteFailure(error)
                throw error
            }
        }
        checkpointer.note(outcome)
        switch outcome {
        case .failed(let error): throw error
        case .refused where gate.isClosed: throw DatabaseError.suspended(path)
        case .refused: throw checkpointInTheWay(since: began)
        case .complete, .heldUp: break
        }
        return CheckpointResult(frames: frames?.committed ?? 0, backfilledFrames: frames?.backfilled ?? 0)
    }

    private func checkpointInTheWay(since began: Nanoseconds) -> DatabaseError {
        let obstacle: String
        // If `walHealth()` fails, the lock holder is reported instead.
        if let holder = (try? walHealth())?.checkpointLock {
            obstacle = "\(holder) holds the lock for checkpoints"
        } else {
            let lockHolder = LockHolder.find(databasePath: path, seat: seat)
            obstacle = lockHolder.description(waited: MonotonicClock.now &- began)
        }
        return DatabaseError(
            resultCode: .SQLITE_BUSY,
            message: "\(path): not checkpointed: \(obstacle). Try again when that has ended"
        )
    }

    private func checkpointerForWriting() throws -> Checkpointer {
        try checkProcess()
        guard let checkpointer = writer.checkpointer else {
            throw DatabaseError(
                resultCode: .SQLITE_READONLY,
                message:
                    "\(path): a read-only participant cannot checkpoint: call checkpoint() in a process that opens the database for writing"
            )
        }
        return checkpointer
    }
}
