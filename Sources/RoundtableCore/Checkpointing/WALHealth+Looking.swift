import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel

extension SharedDatabase {
    /// Reports how long the WAL is, how fast it grows, and which reads keep it from being copied into the database file.
    ///
    /// It reads shared memory and the system's list of locks, and begins no transaction. It may be called often, from inside an
    /// access, and in a read-only participant.
    ///
    /// - throws: `SQLITE_ERROR` when the database is not in WAL mode; `SQLITE_PROTOCOL` while a commit keeps the wal-index from being
    ///   read (retry); `SQLITE_MISUSE` after `close()`; `SQLITE_INTERRUPT` (`DatabaseError.isSuspension`) while the database is
    ///   suspended and has closed its connections.
    public func walHealth() throws -> WALHealth {
        try checkProcess()
        // The locks are read before the wal-index, because a read mark does not change while its lock is held.
        let locks = SystemLocks.walLocks(databasePath: path)
        let state = try readers.walState(insideWrite: Access.isWriting(self))
        return WALHealth(
            state,
            locks: locks,
            databasePath: path,
            block: longReads.controlBlock,
            ownFailure: writer.checkpointer?.failure
        )
    }
}

extension ReaderPool {
    /// The current state of the wal-index.
    func walState(insideWrite: Bool) throws -> WalIndexView.State {
        if let state = openWalState { return try state.get() }
        return try withReader(at: nil, insideWrite: insideWrite) { reader in
            guard let walIndex = reader.walIndex else { throw DatabaseError.notInWALMode(path) }
            return try Self.state(walIndex, path)
        }
    }

    /// The state as an open connection sees it; nil when no connection is open.
    private var openWalState: Result<WalIndexView.State, any Error>? {
        withOpenConnection { connection in
            connection.walIndex.map { view in Result { try Self.state(view, path) } }
        }
    }

    private static func state(_ view: WalIndexView, _ path: String) throws -> WalIndexView.State {
        guard let state = view.state else { throw DatabaseError.walIndexIsChanging(path) }
        return state
    }
}

extension WALHealth {
    /// - Parameters:
    ///   - locks: nil when the system does not list them.
    ///   - ownFailure: the last failure of this participant, for use without a control block.
    package init(
        _ state: WalIndexView.State,
        locks: SystemLocks.WalLocks?,
        databasePath: String,
        block: ControlBlock?,
        ownFailure: ControlBlock.CheckpointFailure? = nil,
        participants: [ParticipantRecord]? = nil
    ) {
        let now = MonotonicClock.now
        let participants = (participants ?? block?.participants() ?? []).filter { $0.liveness != .dead }
        let file = (try? System.status(ofFileAt: databasePath + "-wal")) ?? nil
        self.init(
            committedFrames: state.frames.committed,
            backfilledFrames: state.frames.backfilled,
            size: file.map { Int($0.st_size) } ?? 0,
            growth: block?.walSample.flatMap {
                Self.growth(from: $0, to: state.end, at: now, idleFor: file.map(Self.age) ?? 0)
            },
            checkpointer: block?.checkpointer.flatMap { owner in
                participants.first { $0.owner == owner }.map(SharingProcess.init)
            },
            checkpointLock: locks?.checkpointing.map { SharingProcess(pid: $0, among: participants) },
            pins: Self.pins(state, locks: locks, participants: participants, at: now),
            // A failure is not reported when every frame has been copied.
            failure: state.frames.uncopied == 0
                ? nil
                : (block == nil ? ownFailure : block?.checkpointFailure).flatMap { failure in
                    Failure(
                        failure,
                        by: participants.first { $0.owner == failure.owner }.map(SharingProcess.init),
                        at: now
                    )
                },
            counters: block.map(Counters.init)
        )
    }

    /// How long ago the file was written, in ns; 0 if that is in the future of a clock that was set back.
    private static func age(_ file: FileStatus) -> Nanoseconds {
        Nanoseconds(max(0, Int64(Date().timeIntervalSince1970 * 1e9) - file.modificationTime))
    }

    /// The growth of the WAL in frames per second (rule K9).
    ///
    /// - parameter idle: how long ago the WAL was written. Growth since the sample that ended long ago is not growth now.
    static func growth(
        from sample: ControlBlock.WalSample,
        to end: WalMark,
        at now: Nanoseconds,
        idleFor idle: Nanoseconds = 0
    ) -> Double? {
        if idle >= longestPause { return 0 }
        guard sample.mark.salt == end.salt, end.frames >= sample.mark.frames, now > sample.time,
            now - sample.time >= shortestInterval
        else { return nil }
        return Double(end.frames - sample.mark.frames) / (Double(now - sample.time) / 1e9)
    }

    /// Over a shorter interval, a single commit or the pause after it would distort the rate.
    private static let shortestInterval: Nanoseconds = 250_000_000
    /// The WAL does not grow if it was not written for this time.
    private static let longestPause: Nanoseconds = 1_000_000_000

    /// A read mark that is older than the read a participant shows by this many frames belongs to another read.
    private static let otherConnection = 1000

    /// The reads that participants show, and other reads that are known from the system's list of locks.
    static func pins(
        _ state: WalIndexView.State,
        locks: SystemLocks.WalLocks?,
        participants: [ParticipantRecord],
        at now: Nanoseconds
    ) -> [Pin] {
        // A process that checkpoints holds a read mark too while the step runs (rule W7).
        var unexplained = (locks?.readMarks ?? [:]).filter { $0.key != locks?.checkpointing }
            .compactMapValues { marks in marks.map(state.framesHeld(byReadMark:)).max() }
        var pins: [Pin] = []
        let byAge = participants.sorted { $0.pinSince(at: now) ?? .max < $1.pinSince(at: now) ?? .max }
        for participant in byAge {
            guard let since = participant.pinSince(at: now) else { continue }
            // The position that a participant shows may be a little before the true one.
            let shown = min(state.frames.uncopied, participant.oldestRead?.mark.framesHeld(now: state.end) ?? 0)
            // A reader may be at an older mark than it knows of (rule O3). A much older mark belongs to another connection of the
            // process, which shows no read.
            var held = shown
            if let pid = unexplained.keys.first(where: participant.isProcess), let mark = unexplained[pid],
                mark < shown + otherConnection
            {
                held = max(shown, mark)
                unexplained[pid] = nil
            }
            pins.append(
                Pin(
                    holder: SharingProcess(participant),
                    heldFrames: held,
                    age: .nanoseconds(Int64(clamping: now.subtractingSaturating(since))),
                    since: since,
                    callSite: participant.oldestRead == nil ? participant.callSite : participant.readCallSite
                )
            )
        }
        pins += unexplained.map { pid, held in
            // A participant that already shows a read does not hold this mark: another connection of its process does.
            let isShown = participants.contains { $0.pinSince(at: now) != nil && $0.isProcess(pid) }
            return Pin(holder: SharingProcess(pid: pid, among: isShown ? [] : participants), heldFrames: held)
        }
        return pins.filter { $0.heldFrames > 0 }
            .sorted { ($0.heldFrames, $1.holder.pid) > ($1.heldFrames, $0.holder.pid) }
    }
}

extension ParticipantRecord {
    /// When the participant's oldest read began, or its write, which is a read as well.
    fileprivate func pinSince(at now: Nanoseconds) -> Nanoseconds? {
        oldestRead?.since ?? writing.map { now.subtractingSaturating($0) }
    }
}

extension WALHealth.Failure {
    /// Returns nil if the time of the failure is in the future, as after a restart of the machine.
    fileprivate init?(_ failure: ControlBlock.CheckpointFailure, by party: SharingProcess?, at now: Nanoseconds) {
        guard failure.time <= now else { return nil }
        self.init(
            code: failure.code,
            reason: String(cString: sqlite3_errstr(failure.code)),
            age: .nanoseconds(Int64(clamping: now - failure.time)),
            by: party
        )
    }
}

extension WALHealth.Counters {
    init(_ block: ControlBlock) {
        func value(_ counter: ControlBlock.Counter) -> Int { Int(clamping: block.value(of: counter)) }
        self.init(
            checkpoints: value(.checkpoints),
            walRestarts: value(.walRestarts),
            heldUp: value(.checkpointsHeldUp),
            byWriters: value(.checkpointsByWriters)
        )
    }
}

extension DatabaseError {
    fileprivate static func notInWALMode(_ path: String) -> DatabaseError {
        DatabaseError(
            message: """
                \(path): not in WAL mode, so there is no WAL. Let a process that may write open the database with \
                SharedDatabase.open: it switches to WAL
                """
        )
    }

    fileprivate static func walIndexIsChanging(_ path: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_PROTOCOL,
            message: """
                \(path): the wal-index is being written at this moment, or a process has died writing it. Ask again; the next \
                read or write repairs it
                """
        )
    }
}
