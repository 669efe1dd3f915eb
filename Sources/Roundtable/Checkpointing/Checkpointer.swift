import Dispatch
import GRDB
import RoundtableKernel
import Synchronization

/// The checkpoints of one participant (rules K of `docs/PROTOCOL.md`): off the commit path, on a connection and a thread of their own, and
/// by one participant of all at a time.
final class Checkpointer: @unchecked Sendable {
    // @unchecked: `framesInWAL` is confined to the writer's queue; the rest is constant, or guarded.

    /// How long a step within a turn waits for readers, each time of two; and for another step of this participant.
    static let budget: Nanoseconds = 40_000_000
    private static let way: Nanoseconds = 100_000
    private static let handleInterval: Nanoseconds = 5_000_000

    private enum Phase: Equatable {
        case idle
        case running
        /// Until a time, or until a commit finds that the pause is over. The number tells one sleep from the next.
        case sleeping(Nanoseconds)
    }

    private struct State {
        var phase = Phase.idle
        var pauses = CheckpointPauses()
        /// The gate was closed when there was something to do, and its opening is waited for.
        var awaitsGate = false
        /// The gate has opened while a step was ending that a closed gate had turned away.
        var runsAgain = false
        var seat: Seat?
        /// Of the last attempt.
        var failure: ControlBlock.CheckpointFailure?
        /// When a raw handle last found something to do.
        var lastHandleRequest: Nanoseconds = 0
    }

    /// What it needs of the database.
    struct Hooks {
        /// Has its argument called, on the writer's queue with the turn; else, that it was not to be had. False when there is no database
        /// any more.
        var withinTurn: @Sendable (@escaping @Sendable (_ hasTurn: Bool) -> Void) -> Bool = { _ in false }
        /// An attempt was held up by readers, or failed.
        var heldUp: @Sendable (CheckpointPauses.Obstacle) -> Void = { _ in }
        /// SQLite does not fail any more.
        var recovered: @Sendable () -> Void = {}
    }

    /// nil: nothing is done without being asked for.
    let limits: CheckpointLimits?
    let policy: SharedDatabase.CheckpointPolicy
    let link: CheckpointLink
    private let gate: SuspensionGate
    private let queue = DispatchQueue(label: "roundtable.checkpoint", qos: .utility)
    private let state = Mutex(State())
    private let hooks = Mutex(Hooks())
    /// As the last commit of the writer connection left it. On the writer's queue.
    private var framesInWAL = 0

    init(path: String, options: SharedDatabase.Options, gate: SuspensionGate) {
        self.gate = gate
        policy = options.checkpointing
        limits = CheckpointLimits(policy)
        link = CheckpointLink(path: path) { try CheckpointConnection(path: path, options: options, gate: gate) }
    }

    func take(_ seat: Seat) { state.withLock { $0.seat = seat } }

    func hook(_ hooks: Hooks) { self.hooks.withLock { $0 = hooks } }

    var participant: Participant? { state.withLock { $0.seat }?.participant }

    // MARK: On the writer's queue

    /// What the WAL hook tells.
    func noteCommit(framesInWAL: Int) { self.framesInWAL = framesInWAL }

    /// The writer has another connection.
    func writerDidOpen(_ db: Database) { framesInWAL = WalIndex(db)?.frames?.committed ?? 0 }

    /// Rule K6: whether the WAL has become so long that the one who makes it longer must see to it.
    func isWriterInNeed(_ db: Database) -> Bool {
        guard let limits, framesInWAL >= limits.need, let frames = look(db) else { return false }
        return frames.committed >= limits.need && frames.uncopied > 0 && !isPausing { $0.isShared(at: $1, $2) }
    }

    /// Rule K6. With the turn.
    func helpWriter(_ db: Database) {
        if waitsForBackground(db) { return }
        let outcome = stepWithinTurn()
        participant?.block.count(.checkpointsByWriters)
        // The connection for it cannot be opened, say.
        if case .failed = outcome { note(CheckpointStep.passive(db)) }
    }

    /// Rule K6: so much is not copied while everybody waits. Nobody makes it more for a moment, and that is all.
    private func waitsForBackground(_ db: Database) -> Bool {
        guard let limits, let frames = look(db), frames.uncopied > limits.longest else { return false }
        beginIfNeeded(db)
        let deadline = MonotonicClock.now + Self.budget
        while MonotonicClock.now < deadline, let frames = look(db), frames.uncopied > limits.longest, !gate.isClosed,
            state.withLock({ $0.phase }) == .running || participant?.isCheckpointing(at: MonotonicClock.now) == true
        {
            MonotonicClock.sleep(Self.way)
        }
        return true
    }

    /// Rule K2: begins a checkpoint in the background, if it is time for one and nobody is at it.
    func beginIfNeeded(_ db: Database) {
        guard let limits, framesInWAL >= limits.threshold, let frames = look(db) else { return }
        guard limits.wantsCheckpoint(frames), state.withLock({ $0.phase }) != .running else { return }
        guard !isPausing({ $0.isOwn(at: $1, $2) }) else { return }
        if gate.isClosed { return beginWhenOpen() }
        guard participant?.takeCheckpointing(at: MonotonicClock.now) != false else { return }
        begin()
    }

    /// The same for a raw handle, on its thread, with its turn (rule U8). What is so long that it should not be copied while everybody waits, the
    /// step leaves alone by itself.
    func helpHandle(_ frames: WalIndex.Frames) {
        guard let limits, frames.committed >= limits.need, frames.uncopied > 0, frames.uncopied <= limits.longest,
            !isPausing({ $0.isShared(at: $1, $2) })
        else { return }
        _ = stepWithinTurn()
        participant?.block.count(.checkpointsByWriters)
    }

    /// Rule K2, as far as it can be said without the writer's queue. Not true again at once: the queue may be busy, and is not to be filled.
    func wantsCheckpoint(_ frames: WalIndex.Frames) -> Bool {
        guard limits?.wantsCheckpoint(frames) == true else { return false }
        let now = MonotonicClock.now
        return state.withLock { state in
            guard state.phase == .idle, now &- state.lastHandleRequest >= Self.handleInterval else { return false }
            state.lastHandleRequest = now
            return true
        }
    }

    private func look(_ db: Database) -> WalIndex.Frames? {
        guard db.isWithoutTransaction, let frames = WalIndex(db)?.frames else { return nil }
        // Somebody may have begun the WAL anew.
        framesInWAL = frames.committed
        return frames
    }

    // MARK: For tests

    var isIdle: Bool { state.withLock { $0.phase } == .idle }

    // MARK: In the background

    /// Rule K10: what a closed gate turned away begins when the gate opens.
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
        // The last visit has left: that is a change, too.
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
        // Renewed before each step.
        let isElected = participant?.takeCheckpointing(at: MonotonicClock.now) != false
        switch isElected ? step() : .nothing {
        case .again: queue.async { self.run() }
        case .turn:
            let isScheduled = hooks.withLock { $0 }.withinTurn { hasTurn in
                let isComplete = hasTurn ? self.stepWithinTurn().isComplete : nil
                self.queue.async {
                    if isComplete == true, self.isFileLong {
                        self.run()
                    } else {
                        self.rest(pausing: isComplete == false)
                    }
                }
            }
            if !isScheduled { rest(pausing: false) }
        case .nothing: rest(pausing: false)
        case .pause: rest(pausing: true)
        }
    }

    /// Whether there is something to cut.
    private var isFileLong: Bool {
        // Opening the connection may recover the WAL, which takes WRITE.
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

    /// Rule K4.
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
            // A writer in need does what it can (rule K6).
            if case .cannotOpen(let error) = error { noteFailure(error) }
            return heldUp(.connection)
        }
        switch outcome {
        case .failed(let error):
            noteFailure(error)
            return heldUp(.failure)
        case .complete, .heldUp: forgetFailure()
        case .refused: break
        }
        // Somebody has just died, who was writing the wal-index's header.
        guard case (let before?, let after?, let isFileLong) = looks else { return heldUp(.connection) }
        // Somebody else is at it. (Or W7's lock was not to be had, for a moment.)
        if case .refused = outcome { return heldUp(.others) }
        let isMuchLeft = after.uncopied >= limits.threshold
        let wantsRestart = limits.wantsRestart(after) || isFileLong
        // Some was added while more was copied. Nobody is to be stopped for what can be copied now.
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

    /// Rule K5. With the turn, inside the gate.
    func stepWithinTurn() -> CheckpointStep.Outcome {
        guard let limits else { return .refused }
        let deadline = MonotonicClock.now + Self.budget
        let isWorthWaiting = isWorthWaiting
        let outcome: CheckpointStep.Outcome
        do throws(CheckpointLink.Failure) {
            outcome = try link.use(until: deadline) { connection in
                guard let frames = connection.frames else { return .refused }
                let isFileLong = connection.isFileLong(limits)
                // Somebody may have been faster.
                guard limits.wantsRestart(frames) || isFileLong else { return .complete }
                let isOverdue = limits.wantsRestart(frames)
                if !isOverdue, connection.cutFile(limits) { return .complete }
                sample(connection)
                if frames.uncopied > limits.few {
                    switch connection.passive() {
                    case .failed(let error): return .failed(error)
                    case .complete, .heldUp: forgetFailure()
                    case .refused: break
                    }
                }
                if let frames = connection.frames, frames.uncopied >= limits.threshold, !isWorthWaiting {
                    return .heldUp
                }
                // It is cut when somebody has begun the WAL anew: at once, where somebody writes.
                let isTruncating = isFileLong && !(isOverdue && connection.isFileVeryLong(limits))
                let outcome = connection.restart(truncating: isTruncating, patience: Self.budget)
                if outcome.isComplete { participant?.block.count(.walRestarts) }
                return outcome
            }
        } catch {
            switch error {
            // A step of this participant: so it is being done.
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

    // MARK: What has come of it

    private func isPausing(_ body: (CheckpointPauses, Nanoseconds, ControlBlock?) -> Bool) -> Bool {
        let block = participant?.block
        return state.withLock { body($0.pauses, MonotonicClock.now, block) }
    }

    private func progressed() {
        let block = participant?.block
        state.withLock { $0.pauses.end(block) }
        forgetFailure()
    }

    /// Rule K12.
    func noteFailure(_ error: DatabaseError) {
        // One that is to wait for the gate, or for somebody's lock, has not failed.
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

    /// SQLite has copied something, or there was nothing to copy.
    private func forgetFailure() {
        let hadFailed = state.withLock { state in
            defer { state.failure = nil }
            return state.failure != nil
        }
        participant?.block.setCheckpointFailure(nil)
        if hadFailed { hooks.withLock { $0 }.recovered() }
    }

    /// What has come of a step that the background has not made.
    func note(_ outcome: CheckpointStep.Outcome) {
        switch outcome {
        case .complete: progressed()
        case .heldUp: forgetFailure()
        case .failed(let error): noteFailure(error)
        case .refused: break
        }
    }

    /// Of the last attempt; of this participant's, where there is no control block.
    var failure: ControlBlock.CheckpointFailure? {
        guard let block = participant?.block else { return state.withLock { $0.failure } }
        return block.checkpointFailure
    }

    private var isWorthWaiting: Bool {
        let block = participant?.block
        return state.withLock { $0.pauses }.isWorthWaiting(block?.isRead(longerThan: 4 * Self.budget) == true)
    }

    /// Rule K7.
    private func heldUp(_ obstacle: CheckpointPauses.Obstacle) -> Next {
        let block = participant?.block
        state.withLock { state in
            state.pauses.lengthen(at: MonotonicClock.now, obstacle, block)
        }
        block?.count(.checkpointsHeldUp)
        // Not while everybody waits for the turn.
        guard obstacle != .others else { return .pause }
        let heldUp = hooks.withLock { $0 }.heldUp
        queue.async { heldUp(obstacle) }
        return .pause
    }

    /// Rule K9.
    private func sample(_ connection: CheckpointConnection) {
        guard let block = participant?.block, let mark = connection.mark else { return }
        block.setWalSample(ControlBlock.WalSample(time: MonotonicClock.now, mark: mark))
    }
}
