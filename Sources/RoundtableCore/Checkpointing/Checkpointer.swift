import Dispatch
import GRDB
import RoundtableGate
import RoundtableKernel
import Synchronization

/// The checkpoints of one participant (rules K). They run off the commit path, on a connection and a
/// thread of their own, and in one participant at a time.
final class Checkpointer: @unchecked Sendable {
    // @unchecked: `framesInWAL` is confined to the writer's queue, `database` is set once; the rest is constant, or guarded.

    /// How long a step within a turn waits for readers, in each of two waits, and for another step of this participant.
    static let budget: Nanoseconds = 40_000_000
    private static let way: Nanoseconds = 100_000

    private enum Phase: Equatable {
        case idle
        case running
        /// The checkpointer pauses until a timer fires, or until a commit finds that the pause is over. The time at which the pause
        /// began distinguishes one pause from the next.
        case sleeping(Nanoseconds)
    }

    private struct State {
        var phase = Phase.idle
        var pauses = CheckpointPauses()
        /// Whether a checkpoint was requested while the gate was closed, and begins when the gate opens.
        var awaitsGate = false
        /// Whether the gate opened while a step was ending that the closed gate had turned away. Another step then follows.
        var runsAgain = false
        var seat: Seat?
        /// The failure of the last attempt.
        var failure: ControlBlock.CheckpointFailure?
        /// When a raw handle last requested a checkpoint.
        /// Whether a look is scheduled at a WAL that other participants have written.
        var willStepIn = false
    }

    /// The limits of the participant's own policy; nil when it makes checkpoints only on request or not at all.
    let ownLimits: CheckpointLimits?
    let policy: SharedDatabase.CheckpointPolicy
    let external: ExternalCheckpoints
    let link: CheckpointLink
    let gate: SuspensionGate
    private let files: DatabaseFiles?
    private let queue = DispatchQueue(label: "roundtable.checkpoint", qos: .utility)
    private let state = Mutex(State())
    /// The database, while it exists. Set before the first checkpoint.
    weak var database: SharedDatabase?
    /// The length of the WAL after the last commit of the writer connection. Confined to the writer's queue.
    private var framesInWAL = 0

    init(path: String, options: SharedDatabase.Options, gate: SuspensionGate) {
        self.gate = gate
        files = options.files
        policy = options.checkpointing
        ownLimits = CheckpointLimits(policy)
        external = ExternalCheckpoints(databasePath: path)
        link = CheckpointLink(path: path) { try CheckpointConnection(path: path, options: options, gate: gate) }
    }

    func take(_ seat: Seat) { state.withLock { $0.seat = seat } }

    var participant: Participant? { state.withLock { $0.seat }?.participant }

    /// The limits that apply now; nil while no checkpoint is made without a request, because of the policy, because another program
    /// checkpoints, or because a file was lost.
    var limits: CheckpointLimits? { limits(lookingOn: nil) }

    /// The same on the way of a write, which does not wait while that program is looked for again.
    var limitsAtHand: CheckpointLimits? { limits(lookingOn: queue) }

    private func limits(lookingOn queue: DispatchQueue?) -> CheckpointLimits? {
        guard !external.isActive(participant?.block, lookingOn: queue) else { return nil }
        return files?.lookIfDue(at: MonotonicClock.now) == nil ? ownLimits : nil
    }

    // MARK: On the writer's queue

    /// Records what the WAL hook reports.
    func noteCommit(framesInWAL: Int) { self.framesInWAL = framesInWAL }

    /// Called when the writer has opened another connection, or another connection has written with its turn.
    func lookAtWAL(_ db: Database) { framesInWAL = WalIndex(db)?.frames?.committed ?? 0 }

    /// Whether the WAL has become so long that the writer must checkpoint it within its turn (rule K6).
    func isWriterInNeed(_ db: Database) -> Bool {
        // A short WAL is the common case, and is detected without another look.
        guard framesInWAL >= ownLimits?.need ?? .max, let limits = limitsAtHand, let frames = look(db) else {
            return false
        }
        return limits.needsWriter(frames) && !isPausing { $0.isShared(at: $1, $2) }
    }

    // Rule K6: A writer that finds 3T frames after its transaction makes the step of K5 itself before it gives up the turn, whichever
    // participant is checkpointer, unless the gate is closed (F4) or a pause of K7 runs. If its connection for steps is not available, it
    // makes the step of K4 on its writer connection. If more than 4T frames are left, it copies nothing while others wait: it keeps the
    // turn for at most 40 ms while another participant copies.

    /// Checkpoints for the writer (rule K6). Must be called with the turn.
    func helpWriter(_ db: Database) {
        if waitsForBackground(db) { return }
        let outcome = stepWithinTurn()
        participant?.block.count(.checkpointsByWriters)
        // For example, the connection for steps cannot be opened.
        if case .failed = outcome { note(CheckpointStep.passive(db)) }
    }

    /// Waits up to 40 ms for the background checkpoint, without giving the turn up, if too much is left to be copied while all
    /// writers wait (rule K6). The wait keeps other writers from making the WAL longer.
    private func waitsForBackground(_ db: Database) -> Bool {
        guard let limits = limitsAtHand, let frames = look(db), frames.uncopied > limits.longest else { return false }
        beginIfNeeded(db)
        let deadline = MonotonicClock.now + Self.budget
        while MonotonicClock.now < deadline, let frames = look(db), frames.uncopied > limits.longest, !gate.isClosed,
            state.withLock({ $0.phase }) == .running || participant?.isCheckpointing(at: MonotonicClock.now) == true
        {
            MonotonicClock.sleep(Self.way)
        }
        return true
    }

    /// Begins a checkpoint in the background, if one is due and none is running (rule K2).
    func beginIfNeeded(_ db: Database) {
        guard framesInWAL >= ownLimits?.threshold ?? .max, let limits = limitsAtHand, let frames = look(db) else {
            return
        }
        guard limits.wantsCheckpoint(frames), state.withLock({ $0.phase }) != .running else { return }
        guard !isPausing({ $0.isOwn(at: $1, $2) }) else { return }
        if gate.isClosed { return beginWhenOpen() }
        guard participant?.takeCheckpointing(at: MonotonicClock.now) != false else { return }
        begin()
    }

    /// Whether a checkpoint is due after commits of other participants (rule K2). It is quick, because it is called for each of them.
    func mayHaveToStepIn(_ frames: WalIndex.Frames) -> Bool {
        guard ownLimits?.wantsCheckpoint(frames) == true else { return false }
        return state.withLock { $0.phase == .idle && !$0.willStepIn }
    }

    /// Calls `body` after a time in which the participant that has committed can checkpoint, and after which its lease is over if it
    /// cannot (rule K2).
    func stepInLater(_ body: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            defer { state.willStepIn = true }
            return !state.willStepIn
        }
        guard isFirst else { return }
        queue.asyncAfter(deadline: .now() + .nanoseconds(Int(2 * Participant.checkpointLease))) { [self] in
            state.withLock { $0.willStepIn = false }
            body()
        }
    }

    private func look(_ db: Database) -> WalIndex.Frames? {
        guard db.isWithoutTransaction, let frames = WalIndex(db)?.frames else { return nil }
        // Another process may have restarted the WAL.
        framesInWAL = frames.committed
        return frames
    }

    // MARK: For tests

    var isIdle: Bool { state.withLock { $0.phase } == .idle }

    // MARK: In the background

    // Rule K10: A step is inside the suspension gate (F2), and is interrupted when what is inside must end. No step begins while the gate
    // is closed. A step that was turned away, or requested by a commit that came while the gate was closing, begins when the gate opens,
    // without another commit. A participant that parks (W8) closes its connection for steps.

    /// Begins a checkpoint when the gate opens, in place of one that the closed gate turned away (rule K10).
    private func beginWhenOpen() {
        let isFirst = state.withLock { state in
            defer { state.awaitsGate = true }
            return !state.awaitsGate
        }
        if isFirst { awaitGate() }
    }

    private func awaitGate() {
        let waiter = gate.onChange { [weak self] in self?.gateDidChange() }
        if !gate.isClosed, gate.cancel(waiter) { gateDidChange() }
    }

    private func gateDidChange() {
        // The gate also reports a change when the last visit leaves while it is closed.
        if gate.isClosed { return awaitGate() }
        state.withLock { state in
            state.awaitsGate = false
            state.runsAgain = state.phase == .running
        }
        if !link.isClosed { begin() }
    }

    private func begin(from expected: Phase? = nil) {
        let mayBegin = state.withLock { state in
            guard state.phase != .running, expected == nil || state.phase == expected else { return false }
            state.phase = .running
            return true
        }
        if mayBegin { queue.async { self.run() } }
    }

    private enum Next { case nothing, again, turn, pause }

    private func run() {
        // The lease is renewed before each step.
        let isElected = participant?.takeCheckpointing(at: MonotonicClock.now) != false
        switch isElected ? step() : .nothing {
        case .again: queue.async { self.run() }
        case .turn:
            guard let database else { return rest(pausing: false) }
            database.withCheckpointersTurn { hasTurn in
                let isComplete = hasTurn ? self.stepWithinTurn().isComplete : nil
                self.queue.async {
                    if isComplete == true, self.isFileLong {
                        self.run()
                    } else {
                        self.rest(pausing: isComplete == false)
                    }
                }
            }
        case .nothing: rest(pausing: false)
        case .pause: rest(pausing: true)
        }
    }

    /// Whether the WAL's file should be shortened.
    private var isFileLong: Bool {
        // Opening the connection may recover the WAL, which takes the WRITE lock. Therefore it happens inside the gate.
        guard let limits else { return false }
        guard let visit = gate.enter(.checkpoint, at: nil, isRunning: true) else {
            beginWhenOpen()
            return false
        }
        defer { gate.leave(visit) }
        return (try? link.use(until: .max) { $0.isFileLong(limits) }) ?? false
    }

    private func rest(pausing: Bool) {
        let (phase, pause, runsAgain) = state.withLock { state in
            state.phase = pausing ? .sleeping(MonotonicClock.now) : .idle
            defer { state.runsAgain = false }
            return (state.phase, state.pauses.own, state.runsAgain)
        }
        participant?.giveCheckpointingUp()
        if runsAgain, !link.isClosed { return begin() }
        guard pausing else { return }
        queue.asyncAfter(deadline: .now() + .nanoseconds(Int(pause))) { [weak self] in self?.begin(from: phase) }
    }

    /// Makes one step in the background (rule K4).
    private func step() -> Next {
        guard let limits else { return .nothing }
        guard let visit = gate.enter(.checkpoint, at: nil, isRunning: true) else {
            beginWhenOpen()
            return .nothing
        }
        defer { gate.leave(visit) }
        var outcome = CheckpointStep.Outcome.complete
        let looks: (WalIndex.Frames?, WalIndex.Frames?, Bool)
        do throws(CheckpointLink.Failure) {
            looks = try link.use(until: .max) { connection in
                let before = connection.frames
                guard let before, limits.wantsCheckpoint(before) else {
                    return (before, before, connection.isFileLong(limits))
                }
                sample(connection)
                if state.withLock({ $0.pauses.isHeldUp }) { connection.syncWAL() }
                if before.uncopied > limits.few {
                    outcome = connection.passive()
                    switch outcome {
                    case .complete, .heldUp: participant?.block.count(.checkpoints)
                    case .refused, .failed: break
                    }
                }
                return (before, connection.frames, connection.isFileLong(limits))
            }
        } catch {
            // A writer in need checkpoints on its own connection instead (rule K6).
            if case .cannotOpen(let error) = error { noteFailure(error) }
            return heldUp(.connection)
        }
        switch outcome {
        case .failed(let error):
            noteFailure(error)
            return heldUp(.failure)
        case .complete, .heldUp(hasCopied: true): forgetFailure()
        case .heldUp, .refused: break
        }
        // The frames are nil while the wal-index header is being written, or after a process died writing it.
        guard case (let before?, let after?, let isFileLong) = looks else { return heldUp(.connection) }
        // Another process is checkpointing, or the lock of rule W7 was not available for a moment.
        if case .refused = outcome { return heldUp(.others) }
        let isMuchLeft = after.uncopied >= limits.threshold
        let wantsRestart = limits.wantsRestart(after) || isFileLong
        // Frames were added while others were copied. Writers should not wait while a step outside of the turn still makes progress.
        if isMuchLeft || wantsRestart && after.uncopied > limits.few,
            after.backfilled >= before.backfilled + max(limits.few, after.uncopied / 2)
        {
            progressed()
            return .again
        }
        if wantsRestart {
            return isMuchLeft && !isWorthWaiting ? heldUp(.readers) : .turn
        }
        if isMuchLeft { return heldUp(.readers) }
        progressed()
        return .nothing
    }

    // MARK: Within a turn

    /// Makes one step that lets the WAL be restarted (rule K5). Must be called with the turn, inside the gate.
    func stepWithinTurn() -> CheckpointStep.Outcome {
        guard let limits = limitsAtHand else { return .refused }
        let deadline = MonotonicClock.now + Self.budget
        let isWorthWaiting = isWorthWaiting
        let outcome: CheckpointStep.Outcome
        do throws(CheckpointLink.Failure) {
            outcome = try link.use(until: deadline) { connection in
                guard let frames = connection.frames else { return .refused }
                let isFileLong = connection.isFileLong(limits)
                // Another participant may have made this step already.
                guard limits.wantsRestart(frames) || isFileLong else { return .complete }
                let isOverdue = limits.wantsRestart(frames)
                if !isOverdue, connection.cutFile(limits) { return .complete }
                sample(connection)
                if frames.uncopied > limits.few {
                    switch connection.passive() {
                    case .failed(let error): return .failed(error)
                    case .complete, .heldUp(hasCopied: true): forgetFailure()
                    case .heldUp, .refused: break
                    }
                }
                if let frames = connection.frames, frames.uncopied >= limits.threshold, !isWorthWaiting {
                    return .heldUp(hasCopied: false)
                }
                // A very long file is not truncated here. It is cut after the next writer has restarted the WAL, which is soon if
                // processes write.
                let isTruncating = isFileLong && !(isOverdue && connection.isFileVeryLong(limits))
                let outcome = connection.restart(truncating: isTruncating, patience: Self.budget)
                if outcome.isComplete { participant?.block.count(.walRestarts) }
                return outcome
            }
        } catch {
            switch error {
            // Another step of this participant is running, which does the same work.
            case .isBusy: return .refused
            case .cannotOpen(let error):
                noteFailure(error)
                _ = heldUp(.connection)
                return .failed(error)
            }
        }
        switch outcome {
        case .complete: progressed()
        case .heldUp: _ = heldUp(.readers)
        case .refused: _ = heldUp(.others)
        case .failed(let error):
            noteFailure(error)
            _ = heldUp(.failure)
        }
        return outcome
    }

    // MARK: Outcomes

    private func isPausing(_ body: (CheckpointPauses, Nanoseconds, ControlBlock?) -> Bool) -> Bool {
        let block = participant?.block
        return state.withLock { body($0.pauses, MonotonicClock.now, block) }
    }

    private func progressed() {
        let block = participant?.block
        state.withLock { $0.pauses.end(block) }
        forgetFailure()
    }

    // Rule K12: A step on which SQLite fails, and a connection for steps that cannot be opened, leave result code, time and participant at
    // 1424 to 1440, except for `SQLITE_BUSY` and for a suspension. A step that copies something, or finds nothing to copy, sets the time to
    // 0. Nothing is decided by it. From the third failing step in a row on, all participants pause as in K7.

    /// Records a failure (rule K12).
    func noteFailure(_ error: DatabaseError) {
        // An attempt that must wait for the gate, or for another process's lock, has not failed.
        if error.isSuspension || error.resultCode == .SQLITE_BUSY { return }
        let participant = participant
        let failure = ControlBlock.CheckpointFailure(
            time: MonotonicClock.now,
            code: error.extendedResultCode.rawValue,
            owner: participant?.owner
        )
        state.withLock { $0.failure = failure }
        participant?.block.setCheckpointFailure(failure)
    }

    /// Called when SQLite has copied frames, or there was nothing to copy.
    private func forgetFailure() {
        let hadFailed = state.withLock { state in
            defer { state.failure = nil }
            return state.failure != nil
        }
        participant?.block.setCheckpointFailure(nil)
        if hadFailed { database?.checkpointWarnings.recovered() }
    }

    /// Records the outcome of a step that did not run in the background.
    func note(_ outcome: CheckpointStep.Outcome) {
        switch outcome {
        case .complete: progressed()
        case .heldUp(hasCopied: true): forgetFailure()
        case .failed(let error): noteFailure(error)
        case .heldUp, .refused: break
        }
    }

    /// The failure of the last attempt by any participant; without a control block, by this participant.
    var failure: ControlBlock.CheckpointFailure? {
        guard let block = participant?.block else { return state.withLock { $0.failure } }
        return block.checkpointFailure
    }

    private var isWorthWaiting: Bool {
        let block = participant?.block
        return state.withLock { $0.pauses }.isWorthWaiting(block?.isRead(longerThan: 4 * Self.budget) == true)
    }

    /// Lengthens the pause after an attempt that was held up or failed (rule K7).
    private func heldUp(_ obstacle: CheckpointPauses.Obstacle) -> Next {
        let block = participant?.block
        state.withLock { state in
            state.pauses.lengthen(at: MonotonicClock.now, obstacle, block)
        }
        block?.count(.checkpointsHeldUp)
        // If another checkpoint or a write is in the way, there is no reader to ask and nothing to report.
        guard obstacle != .others else { return .pause }
        // This comes later, because the turn may be held here.
        queue.async { self.database?.lookLaterWhatHoldsCheckpointsUp(obstacle) }
        return .pause
    }

    // Rule K9: Each attempt stores a sample: time and end of the WAL (1408, 1416). The next observer's own sample shows how fast the WAL
    // grows. If the WAL's file was last written a second ago or longer, the rate is 0. If the salt differs, the frames are fewer, or less
    // than 250 ms lie between the two, the rate is not known.

    /// Records a sample of the WAL (rule K9).
    private func sample(_ connection: CheckpointConnection) {
        guard let block = participant?.block, let mark = connection.mark else { return }
        block.setWalSample(ControlBlock.WalSample(time: MonotonicClock.now, mark: mark))
    }
}

// MARK: - Suspension gate

/// It follows the gate by itself: a step that runs outlives a database that was dropped without `close()`, and its writer connection.
extension Checkpointer: GateFollower {
    package func gateInterruptsCheckpoint() { link.interrupt() }
}
