/// One participant's part in the writer queue, as a pure state machine.
///
/// It has no access to shared memory or to a clock. Each `Action` is one access to shared memory, one question to the
/// system, or one wait. `TurnTaker` carries the action out and answers with an `Event`. The model test carries the same
/// actions out in every interleaving. The machine implements rules T1–T10 of `docs/PROTOCOL.md`, and rule T11.
///
/// ```
///          acquire                                   swap won
///   idle ──────────► approaching ─► claiming ─────────────────────────► holding
///    ▲                    │ others wait, or the turn is another's           │ release
///    │                    ▼                                                 ▼
///    │                 drawing ─► watching ⇄ waiting ─► accepting ──►    closing ─► lingering ─► (acquire: resuming)
///    └──────────── leaving at the deadline ◄────┘                           └─► granting ─► idle
/// ```
package struct TurnMachine: Hashable, Sendable {
    /// A participant in the queue. Lists of waiters are sorted by rule T3, best first.
    package struct Waiter: Hashable, Sendable {
        package let slot: Int
        package let ticket: UInt64
        package init(slot: Int, ticket: UInt64) {
            self.slot = slot
            self.ticket = ticket
        }
    }

    package enum Wait: Hashable, Sendable {
        /// The waiter is first in the queue, and the turn is lingering. It waits until the holder's time to linger is over.
        case linger(holder: Int)
        /// The waiter is first in the queue, and the turn is busy. It waits until the time to linger that the holder has
        /// announced is over, because the holder may leave the turn lingering again without a further wake-up. If no such
        /// time is left, it waits as for `patience`.
        case slice(holder: Int)
        /// The waiter waits until its patience is over, counted from the last change of the turn word. `ahead` is the number
        /// of waiters before it.
        case patience(ahead: Int)
    }

    package enum Action: Hashable, Sendable {
        case look
        case listWaiters
        case swap(from: Turn, to: Turn)
        /// Swaps the turn word from busy to lingering. Before the swap, it announces how long the turn lingers: for the rest
        /// of the slice, or for no time at all.
        case park(from: Turn, to: Turn, lingers: Bool)
        case drawTicket
        case enqueue(ticket: UInt64)
        case dequeue
        case evict(Waiter)
        case wake(slot: Int)
        case wait(Wait)
        /// Asks whether any of this participant's time to linger is left.
        case checkTimeLeft
        /// Asks whether the owner of `slot` is dead. Also removes participants that are dead or stopped from the queue.
        case judge(slot: Int)
        case probeWriteLock
        case finish(Outcome)
    }

    package enum Outcome: Hashable, Sendable {
        /// The participant holds the turn.
        case acquired
        /// The deadline passed first. The participant has left the queue.
        case timedOut
        /// The participant no longer holds the turn, or has left it lingering.
        case released
    }

    package enum Event: Hashable, Sendable {
        /// Starts to acquire the turn. `mayResume` is true if the time of the participant's lingering turn is not over.
        case acquire(mayResume: Bool)
        /// Releases the turn. `mayLinger` is true if the slice is not over and the participant writes in bursts.
        case release(mayLinger: Bool)
        /// Releases a lingering turn, if there is one, because the participant leaves.
        case leave
        /// Answer to `look`. `isOver` is true if the turn is lingering and its time is over.
        case turn(Turn, isOver: Bool)
        case waiters([Waiter])
        case swapped(Bool)
        case ticket(UInt64)
        /// Answer to `enqueue`, `dequeue`, `evict`, `wake`.
        case done
        /// Answers to `wait`: the waiter was woken, or one of three times is over.
        case woken, lingerOver, patienceOver, deadlineOver
        /// Answer to `checkTimeLeft`.
        case timeLeft(Bool)
        /// Answer to `judge`. `isDead`: the owner is proven dead. `isExcused`: the owner is not stepped over, because patience
        /// is not over or because it is setting up (rule S3).
        case judged(isDead: Bool, isExcused: Bool)
        case probed(isFree: Bool)
    }

    package enum State: Hashable, Sendable {
        case idle
        case lingering(Turn)
        case holding(Turn)

        // States while the turn is acquired.
        case resuming(to: Turn)
        case approaching
        case sizingUp(Turn, isOver: Bool)
        case claiming(to: Turn)
        case drawing
        case enqueueing(UInt64)
        case watching(UInt64, isSuspicious: Bool)
        case ranking(UInt64, Turn, isOver: Bool, isSuspicious: Bool)
        case accepting(UInt64, to: Turn)
        case grantingToFirst(UInt64, Waiter)
        case wakingFirst(UInt64)
        case waiting(UInt64)
        case judging(UInt64, Turn)
        case choosing(UInt64, Turn)
        case probing(UInt64, Turn)
        case steppingOver(UInt64, to: Turn, evicting: Waiter?)
        case evicting(UInt64, next: Turn)
        case dequeueing(Turn)

        // States after the deadline.
        case abandoning
        case checkingLateGrant
        case acceptingLateGrant(to: Turn)

        // States while the turn is released.
        case closing(Turn, mayLinger: Bool)
        case parking(to: Turn, watcher: Waiter?)
        case wakingWatcher(Turn)
        case checkingTime(Turn)
        case recheckingWaiters(Turn)
        case grantingNext(Waiter)
        case wakingNext
        case leaving(Turn)
        case freeing
    }

    package let slot: Int
    package private(set) var state = State.idle
    /// The waiter that was woken in this slice to watch the turn linger (rule T5).
    package private(set) var watcher: Waiter?

    package init(slot: Int) { self.slot = slot }

    package var hasTurn: Bool {
        if case .holding = state { true } else { false }
    }

    package var isLingering: Bool {
        if case .lingering = state { true } else { false }
    }

    /// Returns the next action after `event`.
    package mutating func next(_ event: Event) -> Action {
        if let action = nextOfGivingUp(event) ?? nextOfApproaching(event) ?? nextOfQueueing(event) { return action }
        preconditionFailure("the writer queue cannot meet \(event) in state \(state)")
    }

    private mutating func go(_ state: State, _ action: Action) -> Action {
        self.state = state
        return action
    }

    private mutating func hold(_ turn: Turn) -> Action {
        go(.holding(turn), .finish(.acquired))
    }
}

// MARK: - Without queueing

extension TurnMachine {
    private mutating func nextOfApproaching(_ event: Event) -> Action? {
        switch (state, event) {
        case (.lingering(let turn), .acquire(mayResume: true)):
            let busy = turn.with(.busy)
            return go(.resuming(to: busy), .swap(from: turn, to: busy))
        case (.idle, .acquire), (.lingering, .acquire):
            watcher = nil
            return go(.approaching, .look)

        case (.resuming(let turn), .swapped(true)):
            return hold(turn)
        case (.resuming, .swapped(false)):
            watcher = nil
            return go(.approaching, .look)

        case (.approaching, .turn(let turn, let isOver)):
            return go(.sizingUp(turn, isOver: isOver), .listWaiters)
        case (.sizingUp(let turn, let isOver), .waiters(let waiters)):
            guard waiters.isEmpty, isClaimable(turn, isOver: isOver) else { return go(.drawing, .drawTicket) }
            let busy = turn.next(.busy, slot: slot)
            return go(.claiming(to: busy), .swap(from: turn, to: busy))
        case (.claiming(let turn), .swapped(true)):
            return hold(turn)
        case (.claiming, .swapped(false)):
            return go(.drawing, .drawTicket)

        default:
            return nil
        }
    }

    /// Whether the turn can be taken immediately (rule T1). A turn that names this participant's slot, but is not held, belongs
    /// to a former owner of the slot or was left lingering.
    private func isClaimable(_ turn: Turn, isOver: Bool) -> Bool {
        turn.phase == .free || turn.slot == slot || (turn.phase == .lingering && isOver)
    }
}

// MARK: - In the queue

// Rule T11: At its deadline, which is its own choice, a waiter leaves the queue, and asks SQLite once. If that is busy too, the error is
// `SQLITE_BUSY`.

extension TurnMachine {
    private mutating func nextOfQueueing(_ event: Event) -> Action? {
        switch (state, event) {
        case (.drawing, .ticket(let ticket)):
            return go(.enqueueing(ticket), .enqueue(ticket: ticket))
        case (.enqueueing(let ticket), .done):
            return watch(ticket)

        case (.watching(let ticket, let isSuspicious), .turn(let turn, let isOver)):
            if turn.phase == .granted, turn.slot == slot {
                let busy = turn.with(.busy)
                return go(.accepting(ticket, to: busy), .swap(from: turn, to: busy))
            }
            let ranking = State.ranking(ticket, turn, isOver: isOver, isSuspicious: isSuspicious)
            return go(ranking, .listWaiters)
        case (.accepting(_, let turn), .swapped(true)):
            return go(.dequeueing(turn), .dequeue)
        case (.accepting(let ticket, _), .swapped(false)):
            return watch(ticket)
        case (.dequeueing(let turn), .done):
            return hold(turn)

        case (.ranking(let ticket, let turn, let isOver, let isSuspicious), .waiters(let waiters)):
            return rank(ticket, turn, isOver: isOver, isSuspicious: isSuspicious, waiters)

        case (.grantingToFirst(let ticket, let first), .swapped(true)):
            return go(.wakingFirst(ticket), .wake(slot: first.slot))
        case (.grantingToFirst(let ticket, _), .swapped(false)):
            return watch(ticket)
        case (.wakingFirst(let ticket), .done):
            return watch(ticket)

        case (.waiting(let ticket), .woken), (.waiting(let ticket), .lingerOver):
            return watch(ticket)
        case (.waiting(let ticket), .patienceOver):
            return watch(ticket, isSuspicious: true)
        case (.waiting, .deadlineOver):
            return go(.abandoning, .dequeue)

        default:
            return nextOfSteppingOver(event)
        }
    }

    private mutating func watch(_ ticket: UInt64, isSuspicious: Bool = false) -> Action {
        go(.watching(ticket, isSuspicious: isSuspicious), .look)
    }

    private mutating func rank(
        _ ticket: UInt64,
        _ turn: Turn,
        isOver: Bool,
        isSuspicious: Bool,
        _ waiters: [Waiter]
    ) -> Action {
        // A participant that is not in the queue was stepped over, and draws a new ticket (rule T9).
        let own = Waiter(slot: slot, ticket: ticket)
        guard let ahead = waiters.firstIndex(of: own) else { return go(.drawing, .drawTicket) }

        if isClaimable(turn, isOver: isOver) {
            let first = waiters[0]
            if first == own { return stepIn(ticket, from: turn, to: first, evicting: nil) }
            let granted = turn.next(.granted, slot: first.slot)
            return go(.grantingToFirst(ticket, first), .swap(from: turn, to: granted))
        }
        guard isSuspicious, let holder = turn.slot else {
            return go(.waiting(ticket), .wait(wait(turn, ahead: ahead)))
        }
        return go(.judging(ticket, turn), .judge(slot: holder))
    }

    private func wait(_ turn: Turn, ahead: Int) -> Wait {
        guard ahead == 0, let holder = turn.slot else { return .patience(ahead: ahead) }
        switch turn.phase {
        case .lingering: return .linger(holder: holder)
        case .busy: return .slice(holder: holder)
        case .free, .granted: return .patience(ahead: ahead)
        }
    }

    private mutating func nextOfSteppingOver(_ event: Event) -> Action? {
        switch (state, event) {
        // The waiter's patience is not over, or the holder is setting up.
        case (.judging(let ticket, _), .judged(isDead: false, isExcused: true)):
            return watch(ticket)
        // The holder is dead, or did not take up the granted turn within the waiter's patience: the next waiter gets the
        // turn. `judge` has already removed the dead from the queue. A lingering turn ends up here only if its holder is
        // dead, because its time is over long before patience is.
        case (.judging(let ticket, let turn), .judged(let isDead, _)) where isDead || turn.phase != .busy:
            return go(.choosing(ticket, turn), .listWaiters)
        case (.choosing(let ticket, let turn), .waiters(let waiters)):
            let own = Waiter(slot: slot, ticket: ticket)
            let late = waiters.first { $0.slot == turn.slot }
            return stepIn(ticket, from: turn, to: waiters.first { $0.slot != turn.slot } ?? own, evicting: late)
        case (.judging(let ticket, let turn), .judged):
            return go(.probing(ticket, turn), .probeWriteLock)

        // The waiter that finds the write lock free takes the turn itself, because the first in the queue may be frozen too.
        case (.probing(let ticket, let turn), .probed(isFree: true)):
            return stepIn(ticket, from: turn, to: Waiter(slot: slot, ticket: ticket), evicting: nil)
        case (.probing(let ticket, _), .probed(isFree: false)):
            return watch(ticket)

        case (.steppingOver(let ticket, let turn, let late?), .swapped(true)):
            return go(.evicting(ticket, next: turn), .evict(late))
        case (.steppingOver(let ticket, let turn, nil), .swapped(true)), (.evicting(let ticket, let turn), .done):
            if turn.slot == slot { return go(.dequeueing(turn), .dequeue) }
            return go(.wakingFirst(ticket), .wake(slot: turn.slot ?? slot))
        case (.steppingOver(let ticket, _, _), .swapped(false)):
            return watch(ticket)

        case (.abandoning, .done):
            return go(.checkingLateGrant, .look)
        case (.checkingLateGrant, .turn(let turn, _)):
            // The turn was granted while the participant left the queue. It takes the turn up all the same (rule T7).
            guard turn.phase == .granted, turn.slot == slot else { return go(.idle, .finish(.timedOut)) }
            let busy = turn.with(.busy)
            return go(.acceptingLateGrant(to: busy), .swap(from: turn, to: busy))
        case (.acceptingLateGrant(let turn), .swapped(true)):
            return hold(turn)
        case (.acceptingLateGrant, .swapped(false)):
            return go(.idle, .finish(.timedOut))

        default:
            return nil
        }
    }

    /// Moves the turn on to `first`, which may be this participant.
    private mutating func stepIn(
        _ ticket: UInt64,
        from turn: Turn,
        to first: Waiter,
        evicting late: Waiter?
    ) -> Action {
        let next = turn.next(first.slot == slot ? .busy : .granted, slot: first.slot)
        return go(.steppingOver(ticket, to: next, evicting: late), .swap(from: turn, to: next))
    }
}

// MARK: - Giving the turn up

extension TurnMachine {
    private mutating func nextOfGivingUp(_ event: Event) -> Action? {
        switch (state, event) {
        // A waiter is already watching. Skipping the look at the queue saves the most expensive step of a release.
        case (.holding(let turn), .release(mayLinger: true)) where watcher != nil:
            return park(turn, watcher: watcher)
        case (.holding(let turn), .release(let mayLinger)):
            return go(.closing(turn, mayLinger: mayLinger), .listWaiters)

        case (.closing(let turn, let mayLinger), .waiters(let waiters)):
            guard let first = waiters.first(where: { $0.slot != slot }) else {
                return park(turn, watcher: nil)
            }
            return mayLinger ? park(turn, watcher: first) : grant(turn, to: first)

        case (.parking(let turn, let first?), .swapped(true)):
            // The watcher sleeps until the announced time is over. If that time is over now, the watcher may have looked
            // while the turn was still busy, and does not look again.
            guard first != watcher else { return go(.checkingTime(turn), .checkTimeLeft) }
            watcher = first
            return go(.wakingWatcher(turn), .wake(slot: first.slot))
        case (.wakingWatcher(let turn), .done), (.checkingTime(let turn), .timeLeft(true)):
            return go(.lingering(turn), .finish(.released))
        case (.checkingTime(let turn), .timeLeft(false)):
            return go(.recheckingWaiters(turn), .listWaiters)
        case (.parking(let turn, nil), .swapped(true)):
            return go(.recheckingWaiters(turn), .listWaiters)
        case (.recheckingWaiters(let turn), .waiters(let waiters)):
            guard let first = waiters.first(where: { $0.slot != slot }) else {
                return go(.lingering(turn), .finish(.released))
            }
            return grant(turn, to: first)

        case (.grantingNext(let next), .swapped(true)):
            return go(.wakingNext, .wake(slot: next.slot))
        case (.wakingNext, .done), (.freeing, .swapped):
            return go(.idle, .finish(.released))
        // Another participant has the turn, because this one was stepped over (rule T10).
        case (.parking, .swapped(false)), (.grantingNext, .swapped(false)):
            return go(.idle, .finish(.released))

        case (.idle, .leave):
            return .finish(.released)
        case (.lingering(let turn), .leave):
            return go(.leaving(turn), .listWaiters)
        case (.leaving(let turn), .waiters(let waiters)):
            if let first = waiters.first(where: { $0.slot != slot }) { return grant(turn, to: first) }
            return go(.freeing, .swap(from: turn, to: turn.next(.free)))

        default:
            return nil
        }
    }

    private mutating func park(_ turn: Turn, watcher: Waiter?) -> Action {
        let lingering = turn.with(.lingering)
        return go(
            .parking(to: lingering, watcher: watcher),
            .park(from: turn, to: lingering, lingers: watcher != nil)
        )
    }

    private mutating func grant(_ turn: Turn, to next: Waiter) -> Action {
        go(.grantingNext(next), .swap(from: turn, to: turn.next(.granted, slot: next.slot)))
    }
}
