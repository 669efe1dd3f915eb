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
    ///   - patience: how long they wait for readers; all who want to write wait meanwhile.
    /// - returns: how far it came: not being complete is no error.
    /// - throws: `SQLITE_READONLY` from a read-only participant; `SQLITE_BUSY` when another checkpoint or a write is in the way for longer than
    ///   the busy timeout; `SQLITE_INTERRUPT` while the database is suspended; `SQLITE_FULL`, `SQLITE_IOERR` …
    @discardableResult
    public func checkpoint(
        _ mode: Database.CheckpointMode = .passive,
        waitingForReaders patience: Duration = .milliseconds(25),
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
            return try checkpointer.checkpointNow(busyTimeout, path) { $0.passive() }
        }
        return try onWriter(blockingWrite(site), refuse: { throw $0 }) { _ in
            try checkpointer.checkpointNow(busyTimeout, path) { connection in
                connection.restart(
                    truncating: mode == .truncate,
                    until: MonotonicClock.now.addingSaturating(patience.nanoseconds)
                )
            }
        }
    }

    /// The same, without blocking a thread of Swift's pool.
    @discardableResult
    public func checkpoint(
        _ mode: Database.CheckpointMode = .passive,
        waitingForReaders patience: Duration = .milliseconds(25),
        file: StaticString = #fileID,
        line: UInt = #line
    ) async throws -> CheckpointResult {
        try await offThread {
            Result { try self.checkpoint(mode, waitingForReaders: patience, file: file, line: line) }
        }.get()
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
                heldUp: { [weak self, checkpointWarnings] in
                    // The turn may be had now: not on this thread.
                    checkpointWarnings.later { [weak self] in self?.lookWhoHoldsCheckpointsUp() }
                }
            )
        )
    }

    private func checkpointerForWriting() throws -> Checkpointer {
        try checkProcess()
        guard let checkpointer = writer.checkpointer else {
            throw DatabaseError(
                resultCode: .SQLITE_READONLY,
                message: "\(path): a read-only participant does not checkpoint"
            )
        }
        return checkpointer
    }
}

extension Checkpointer {
    /// - parameter busyTimeout: how long to wait for another step of this participant.
    func checkpointNow(
        _ busyTimeout: Nanoseconds,
        _ path: String,
        _ body: (CheckpointConnection) -> CheckpointStep.Outcome
    ) throws(DatabaseError) -> SharedDatabase.CheckpointResult {
        let (outcome, frames): (CheckpointStep.Outcome, WalIndex.Frames?)
        do throws(CheckpointLink.Failure) {
            (outcome, frames) = try link.use(until: MonotonicClock.now.addingSaturating(busyTimeout)) {
                (body($0), $0.frames)
            }
        } catch {
            switch error {
            case .isBusy: throw .checkpointInTheWay(path)
            case .cannotOpen(let error): throw error
            }
        }
        switch outcome {
        case .failed(let error): throw error
        case .refused where frames?.uncopied != 0: throw .checkpointInTheWay(path)
        case .complete, .heldUp, .refused: break
        }
        return SharedDatabase.CheckpointResult(
            frames: frames?.committed ?? 0,
            backfilledFrames: frames?.backfilled ?? 0
        )
    }

    /// Rule K11: the last one out leaves an empty WAL.
    func emptyWAL() {
        if policy == .external { return }
        // Whatever keeps it from that, the next participant does it.
        _ = try? link.use(until: MonotonicClock.now + Self.budget) { connection in
            guard let frames = connection.frames, frames.committed > 0 else { return }
            _ = connection.restart(truncating: true, until: MonotonicClock.now + Self.budget)
        }
    }
}

extension DatabaseError {
    fileprivate static func checkpointInTheWay(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_BUSY,
            message:
                "\(path): somebody else checkpoints, or writes: try again when it has ended (`roundtable status` names it)"
        )
    }
}
