import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A participant's seat at the control block, or the lack of one: joins, takes turns, and joins anew when the block goes
/// bad (rules L1–L5). While it has no seat, it works uncoordinated, and SQLite's locks do everything.
package final class Seat: @unchecked Sendable {
    // @unchecked: `taker` and the times below are confined to the caller's serial queue (the writer's); what other
    // threads read is in `shared`.
    package enum Outcome: Equatable, Sendable {
        case acquired, timedOut, cancelled
        /// No control block: go to SQLite at once.
        case uncoordinated
    }

    /// What other threads may see.
    private struct Shared {
        var participant: Participant?
        var taker: TurnTaker?
        var unusable: ControlBlock.Unusable?
        var hasLeft = false
    }

    private let path: String
    private let author: String
    private let role: ParticipantTraits.Role
    private let settings: TurnSettings
    private let permissions: mode_t?
    private let shared: Mutex<Shared>

    // Confined to the writer's queue.
    private var lastJoinAttempt: Nanoseconds = 0
    private var lastPlaceCheck: Nanoseconds = 0
    private var callSite: CallSite?

    private static let rejoinInterval: Nanoseconds = 100_000_000
    private static let placeCheckInterval: Nanoseconds = 250_000_000

    /// Takes a seat if there is one.
    ///
    /// - parameter permissions: mode bits of a new control block; nil for the umask's.
    package init(
        databasePath: String,
        author: String,
        role: ParticipantTraits.Role,
        settings: TurnSettings,
        permissions: mode_t?
    ) {
        self.path = ControlBlock.path(forDatabaseAt: databasePath)
        self.author = author
        self.role = role
        self.settings = settings
        self.permissions = permissions
        self.shared = Mutex(Shared())
        join(now: MonotonicClock.now)
    }

    /// Why there is no seat; nil when there is one.
    package var unusable: ControlBlock.Unusable? { shared.withLock { $0.participant == nil ? $0.unusable : nil } }

    package var participant: Participant? { shared.withLock { $0.participant } }

    // MARK: On the writer's queue

    /// Waits for the turn (rule W2). A turn that is still ours (rule W3) is `acquired` at once.
    package func takeTurn(
        deadline: Nanoseconds,
        callSite: CallSite?,
        settingUp: Bool = false,
        isWriteLockFree: () -> Bool
    ) -> Outcome {
        guard let taker = seatedTaker() else { return .uncoordinated }
        if taker.hasTurn { return .acquired }
        record(callSite)
        if settingUp { participant?.setState(.settingUp) }
        let outcome = taker.acquire(deadline: deadline, settingUp: settingUp, isWriteLockFree: isWriteLockFree)
        if settingUp, outcome != .acquired { participant?.setState(.present) }
        switch outcome {
        case .acquired: return .acquired
        case .timedOut: return .timedOut
        case .cancelled: return .cancelled
        case .unseated: return .uncoordinated
        }
    }

    package func giveTurnUp(settingUp: Bool = false) {
        let (participant, taker) = shared.withLock { ($0.participant, $0.taker) }
        guard let participant, let taker, taker.hasTurn else { return }
        if settingUp { participant.setState(.present) }
        // A slot that is not ours any more is not written to (rule P6); the next turn finds that out and joins anew.
        if participant.isSeated { taker.release() } else { unseat() }
    }

    package func leave() {
        let (participant, taker) = shared.withLock { shared in
            defer {
                shared.participant = nil
                shared.taker = nil
                shared.hasLeft = true
            }
            return (shared.participant, shared.taker)
        }
        guard let participant, participant.isSeated else { return }
        taker?.leave()
        participant.leave()
    }

    // MARK: From any thread

    /// Ends a wait of `takeTurn` early.
    package func cancelWaiting() { shared.withLock { $0.taker }?.cancelWaiting() }

    /// Forgets a cancellation that came after the wait it was meant for.
    package func forgetCancellation() { shared.withLock { $0.taker }?.forgetCancellation() }

    // MARK: Joining

    private func seatedTaker() -> TurnTaker? {
        let (participant, taker) = shared.withLock { ($0.participant, $0.taker) }
        if let taker, taker.hasTurn { return taker }
        let now = MonotonicClock.now
        if let participant, participant.isSeated {
            if now &- lastPlaceCheck < Self.placeCheckInterval { return taker }
            lastPlaceCheck = now
            if participant.block.isInPlace { return taker }
            taker?.leave()
            participant.leave()
        }
        if participant != nil { unseat() }
        guard now &- lastJoinAttempt >= Self.rejoinInterval else { return nil }
        join(now: now)
        return shared.withLock { $0.taker }
    }

    private func unseat() {
        callSite = nil
        shared.withLock {
            $0.participant = nil
            $0.taker = nil
            $0.unusable = .damaged
        }
    }

    private func join(now: Nanoseconds) {
        if shared.withLock({ $0.hasLeft }) { return }
        lastJoinAttempt = now
        lastPlaceCheck = now
        do {
            let block =
                role == .readOnly
                ? try ControlBlock.open(at: path, writable: true)
                : try ControlBlock.openOrCreate(at: path, permissions: permissions)
            let traits = ParticipantTraits(role: role, priority: settings.priority)
            let participant = try Participant(in: block, author: author, traits: traits)
            shared.withLock {
                $0.participant = participant
                $0.taker = role == .readOnly ? nil : TurnTaker(participant: participant, settings: settings)
                $0.unusable = nil
            }
        } catch {
            shared.withLock { $0.unusable = error }
        }
    }

    private func record(_ newCallSite: CallSite?) {
        guard let newCallSite else {
            guard callSite != nil else { return }
            callSite = nil
            participant?.slot.setCallSite(file: "", line: 0)
            return
        }
        if let callSite, callSite.isSame(as: newCallSite) { return }
        callSite = newCallSite
        participant?.slot.setCallSite(file: newCallSite.file.description, line: UInt32(clamping: newCallSite.line))
    }
}
