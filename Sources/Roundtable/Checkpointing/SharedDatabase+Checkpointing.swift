import GRDB
import RoundtableKernel

extension SharedDatabase {
    /// What a checkpoint has come to.
    public struct CheckpointResult: Sendable, Hashable, Codable {
        /// Frames that are in the WAL now: pages that transactions wrote.
        public var frames: Int
        /// Those of them that are in the database file.
        public var backfilledFrames: Int

        /// Whether everything is in the database file. If not, somebody reads an older moment (``walHealth()`` says who), or has written
        /// since.
        public var isComplete: Bool { backfilledFrames == frames }

        enum CodingKeys: String, CodingKey {
            case frames
            case backfilledFrames = "backfilled_frames"
        }
    }

    /// Copies what the WAL has gathered into the database file. There is no need to, but for ``CheckpointPolicy/manual``, or to have
    /// everything in one file.
    ///
    /// In difference to GRDB's `Database.checkpoint(_:on:)` and `PRAGMA wal_checkpoint`, it keeps clear of SQLite's WAL-reset bug.
    ///
    /// - Parameters:
    ///   - mode: `.passive` waits for nobody and holds nobody up. The others take a turn, wait for readers of older moments, and let
    ///     the WAL begin anew; `.truncate` makes its file empty.
    ///     Only `.passive` may be called inside of an access to the same database.
    ///   - patience: how long they wait for readers: for those who read an older moment, and then for those who came meanwhile. All who want to
    ///     write wait, too.
    /// - returns: how far it came: not being complete is no error.
    /// - throws: `SQLITE_READONLY` from a read-only participant; `SQLITE_BUSY`, with the name of who is in the way, when somebody else
    ///   checkpoints, or a program that takes no turns writes, for longer than `patience` (`.passive` does not wait); `SQLITE_INTERRUPT` while the
    ///   database is suspended (the asynchronous form waits, as writes do); `SQLITE_FULL`, `SQLITE_IOERR` …
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
        return try onWriter(blockingWrite(site), refuse: { throw $0 }) { _ in
            try checkpointNow(checkpointer) {
                $0.restart(truncating: mode == .truncate, patience: patience.nanoseconds)
            }
        }
    }

    /// The same, without blocking a thread of Swift's pool.
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

    /// Connects the checkpointer with the rest of the database.
    func followCheckpoints() {
        writer.checkpointer?.hook(
            Checkpointer.Hooks(
                withinTurn: { [weak self] body in
                    guard let self else { return false }
                    onWriterLater(waitingWrite(), failed: { _, _ in body(false) }) { body(!$0.isInsideTransaction) }
                    return true
                },
                heldUp: { [weak self, checkpointWarnings] obstacle in
                    // The turn may be had now: not on this thread.
                    checkpointWarnings.later { [weak self] in self?.lookWhatHoldsCheckpointsUp(obstacle) }
                },
                recovered: { [checkpointWarnings] in checkpointWarnings.recovered() }
            )
        )
    }

    /// For those who write without the writer connection. Takes no turn.
    func checkpointSoon() {
        writer.soon { [weak self] db in
            guard let checkpointer = self?.writer.checkpointer, self?.gate.isClosed == false else { return }
            checkpointer.writerDidOpen(db)
            checkpointer.beginIfNeeded(db)
        }
    }

    private func checkpointNow(
        _ checkpointer: Checkpointer,
        _ body: (CheckpointConnection) -> CheckpointStep.Outcome
    ) throws -> CheckpointResult {
        let began = MonotonicClock.now
        let (outcome, frames): (CheckpointStep.Outcome, WalIndex.Frames?)
        do throws(CheckpointLink.Failure) {
            (outcome, frames) = try checkpointer.link.use(until: began.addingSaturating(checkpointTimeout)) {
                (body($0), $0.frames)
            }
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
        // What keeps it from being found out is not what this is about.
        if let holder = (try? walHealth())?.checkpointLock {
            obstacle = "\(holder) holds the lock for checkpoints"
        } else {
            let lockHolder = LockHolder.find(databasePath: path, participant: seat.participant)
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
                    "\(path): a read-only participant cannot checkpoint: those that may write do so by themselves, or when asked to"
            )
        }
        return checkpointer
    }
}

extension Checkpointer {
    /// Rule K11: the last one out leaves an empty WAL.
    ///
    /// - returns: whether it did.
    func emptyWAL() -> Bool {
        if policy == .external { return false }
        // Whatever keeps it from that, the next participant does it.
        let isEmpty = try? link.use(until: MonotonicClock.now + Self.budget) { connection in
            guard let frames = connection.frames else { return false }
            return frames.committed == 0 || connection.restart(truncating: true, patience: Self.budget).isComplete
        }
        return isEmpty ?? false
    }
}
