import Synchronization

/// Runs a `TurnMachine` on a control block, with the system's monotonic clock.
///
/// This class is not thread-safe. Its owner calls it from one serial queue.
package final class TurnTaker {
    package enum Outcome: Equatable, Sendable {
        case acquired, timedOut, cancelled
        /// There is no usable control block, or none any more (rule L3). The caller goes to SQLite immediately.
        case uncoordinated
    }

    private let participant: Participant
    private let settings: TurnSettings
    private var machine: TurnMachine

    // Times, which the machine does not know. All are in ns of the monotonic clock.
    private var requestedAt: Nanoseconds = 0
    private var deadline: Nanoseconds = 0
    private var sliceBegan: Nanoseconds = 0
    private var lastReleased: Nanoseconds = 0
    private var isBurst = false
    private var pauseIsShort = false
    /// The time from which patience counts: when the turn word was last seen to change, or the write lock to be taken.
    private var progressAt: Nanoseconds = 0
    private var lastSeen = Turn(rawValue: 0)
    /// The wake word before the last look at the turn word. A wake-up since then ends the wait immediately.
    private var wakeWordSeen: UInt32 = 0
    private var excusesSetup = false
    private var isUncoordinated = false
    private var hasQueued = false

    // Rule T1b: A participant whose wait has ended at its deadline may continue it (I3b). If the wait began less than 10 s ago, it queues
    // with the ticket and the time at 40 that it had, unless another participant had withdrawn that ticket (T9). Between the two calls it
    // is not in the queue. Its patience counts on from the turn word that it saw last.

    /// The last ticket of a wait that has ended at its deadline and may be continued (rule T1b), and since when it waits.
    private var kept: (ticket: UInt64, since: Nanoseconds)?
    private var queuedSince: Nanoseconds = 0
    private var lastTicket: UInt64 = 0
    /// Whether another participant had withdrawn the ticket when this one left the queue (rule T9).
    private var isWithdrawn = false

    private var cancellation: WaitCancellation?
    private var limit: (any WaitLimit)?
    /// Ends all waits of the participant while it is cancelled.
    private let stop: WaitCancellation?

    /// Whether nobody is known to write the database, besides what the callers of `acquire` see (rule T14); nil if they see all.
    private let isNotWritten: (() -> Bool)?

    package init(
        participant: Participant,
        settings: TurnSettings,
        stop: WaitCancellation? = nil,
        isNotWritten: (() -> Bool)? = nil
    ) {
        self.isNotWritten = isNotWritten
        self.participant = participant
        self.settings = settings
        self.stop = stop
        self.machine = TurnMachine(slot: participant.slot.index)
    }

    package var hasTurn: Bool { machine.hasTurn }

    private var block: ControlBlock { participant.block }
    private var slot: Slot { participant.slot }

    /// Waits for the turn until `deadline`.
    ///
    /// - parameter now: the time of the request.
    /// - parameter settingUp: whether the turn is requested for creating or migrating the database (rule S3).
    /// - parameter cancellation: ends the wait early, from another thread.
    /// - parameter limit: a condition that ends the wait before the deadline.
    /// - parameter keepsPlace: whether the wait continues one that has ended at its deadline, and may be continued itself (rule T1b).
    /// - parameter isWriteLockFree: probes SQLite's write lock (rule T12).
    package func acquire(
        at now: Nanoseconds,
        until deadline: Nanoseconds,
        settingUp: Bool,
        keepsPlace: Bool = false,
        cancellation: WaitCancellation? = nil,
        limit: (any WaitLimit)? = nil,
        isWriteLockFree: () -> Bool
    ) -> Outcome {
        self.requestedAt = now
        hasQueued = false
        self.deadline = deadline
        excusesSetup = settingUp
        isUncoordinated = false
        if !keepsPlace || now.subtractingSaturating(kept?.since ?? 0) > Self.longestKept { kept = nil }
        queuedSince = kept?.since ?? now
        if !keepsPlace || lastSeen.rawValue == 0 {
            progressAt = now
            lastSeen = Turn(rawValue: 0)
        }
        if kept == nil {
            // The scheduler may cause one long pause. Two long pauses in a row end a burst.
            let pauseWasShort = pauseIsShort
            pauseIsShort = now.subtractingSaturating(lastReleased) < settings.burstGap
            isBurst = pauseIsShort || pauseWasShort
        }
        let mayResume = now < slot[.lingerUntil]
        self.cancellation = cancellation
        self.limit = limit
        defer {
            self.cancellation = nil
            self.limit = nil
            if hasQueued {
                cancellation?.disarm(participant)
                stop?.disarm(participant)
            }
        }
        let outcome = run(.acquire(mayResume: mayResume), isWriteLockFree: isWriteLockFree)
        let hasContinued = kept != nil
        kept = nil
        guard outcome == .acquired else {
            if hasQueued, !isUncoordinated { record(wait: MonotonicClock.now &- queuedSince) }
            if keepsPlace, hasQueued, !isUncoordinated, !isWithdrawn { kept = (lastTicket, queuedSince) }
            if isUncoordinated { return .uncoordinated }
            return isCancelled ? .cancelled : .timedOut
        }
        var acquiredAt = now
        if hasQueued || hasContinued {
            acquiredAt = MonotonicClock.now
            record(wait: acquiredAt &- queuedSince)
        }
        if hasQueued || !mayResume { sliceBegan = acquiredAt }
        slot[.turnsTaken] &+= 1
        slot[.writingSince] = acquiredAt
        block.count(.grants)
        return .acquired
    }

    private func record(wait: Nanoseconds) {
        if wait > slot[.longestWait] { slot[.longestWait] = wait }
    }

    package func release(continuing: Bool = true) {
        guard machine.hasTurn else { return }
        let now = MonotonicClock.now
        slot[.writingSince] = 0
        lastReleased = now
        let mayLinger = continuing && isBurst && now < sliceBegan.addingSaturating(settings.slice)
        _ = run(.release(mayLinger: mayLinger), isWriteLockFree: { false })
    }

    /// Whether the turn word, as `acquire` saw it, has not changed for some times this participant's patience.
    package func isPatienceOver(at now: Nanoseconds, times: UInt64) -> Bool {
        now >= patienceEnd(now: now).addingSaturating((times &- 1) &* settings.patience)
    }

    /// Whether the slice is over, and other participants wait for the turn.
    package func isDue(at now: Nanoseconds) -> Bool {
        now >= sliceBegan.addingSaturating(settings.slice) && block.hasWaiters
    }

    package func leave() {
        release()
        _ = run(.leave, isWriteLockFree: { false })
    }

    private func run(_ event: TurnMachine.Event, isWriteLockFree: () -> Bool) -> TurnMachine.Outcome {
        var event = event
        // A local copy, because Swift checks each access to a property of a class that mutating functions work on. No action calls this taker.
        var machine = machine
        defer { self.machine = machine }
        while true {
            switch machine.next(event) {
            case .finish(let outcome): return outcome
            case let action: event = perform(action, isWriteLockFree)
            }
        }
    }

    private func perform(_ action: TurnMachine.Action, _ isWriteLockFree: () -> Bool) -> TurnMachine.Event {
        switch action {
        case .look:
            return look()
        case .listWaiters:
            return .waiters(block.waiters { MonotonicClock.now })
        case .swap(let from, let to):
            return .swapped(swapTurn(from, to))
        case .park(let from, let to, let lingers):
            slot[.lingerUntil] = lingers ? sliceBegan.addingSaturating(settings.slice) : 0
            return .swapped(swapTurn(from, to))
        case .drawTicket:
            if !hasQueued { armCancellations() }
            if !hasQueued, let kept {
                lastTicket = kept.ticket
                hasQueued = true
                return .ticket(lastTicket)
            }
            hasQueued = true
            var ticket: UInt64 = 0
            while ticket == 0 { ticket = block.nextTicket.pointee.wrappingAdd(1, ordering: .relaxed).newValue }
            lastTicket = ticket
            return .ticket(ticket)
        case .enqueue(let ticket):
            // A waiter queues before it looks at the turn word, and a holder swaps the word before it looks at the queue (rule T1). So one
            // of them sees the other.
            slot[.waitingSince] = queuedSince
            slot.ticket.pointee.store(ticket, ordering: .sequentiallyConsistent)
            block.raiseWaitingBit(slot.index)
            return .done
        case .dequeue:
            isWithdrawn = slot.ticket.pointee.load(ordering: .relaxed) != lastTicket
            block.leaveQueue(slot)
            return .done
        case .evict(let waiter):
            block.evict(waiter)
            return .done
        case .wake(let index):
            block.slot(index).wakeUp()
            return .done
        case .wait(let wait):
            return self.wait(wait)
        case .checkTimeLeft:
            return .timeLeft(MonotonicClock.now < slot[.lingerUntil])
        case .judge(let index):
            return judge(index)
        case .probeWriteLock:
            let isFree = isWriteLockFree() && isNotWritten?() != false
            if isFree { block.count(.turnsSteppedOver) } else { progressAt = MonotonicClock.now }
            return .probed(isFree: isFree)
        case .finish:
            preconditionFailure("finishing is no access to anything")
        }
    }

    private var isCancelled: Bool { cancellation?.isCancelled == true || stop?.isCancelled == true }

    private func armCancellations() {
        cancellation?.arm(participant) { [participant] in participant.slot.wakeUp() }
        stop?.arm(participant) { [participant] in participant.slot.wakeUp() }
    }

    private func swapTurn(_ from: Turn, _ to: Turn) -> Bool {
        block.turn.pointee.compareExchange(
            expected: from.rawValue,
            desired: to.rawValue,
            ordering: .sequentiallyConsistent
        ).exchanged
    }

    private func look() -> TurnMachine.Event {
        wakeWordSeen = slot.wakeWord.pointee.load(ordering: .sequentiallyConsistent)
        let turn = Turn(rawValue: block.turn.pointee.load(ordering: .sequentiallyConsistent))
        guard turn != lastSeen || turn.phase == .lingering else { return .turn(turn, isOver: false) }
        // The first look follows the request immediately, so it needs no time of its own.
        let now = hasQueued ? MonotonicClock.now : requestedAt
        if turn != lastSeen {
            lastSeen = turn
            progressAt = now
        }
        var isOver = false
        if turn.phase == .lingering, let holder = turn.slot {
            isOver = now >= lingerUntil(ofHolder: holder, now: now)
        }
        return .turn(turn, isOver: isOver)
    }

    private func lingerUntil(ofHolder holder: Int, now: Nanoseconds) -> Nanoseconds {
        announcedEnd(ofHolder: holder, now: now) ?? now
    }

    /// The announced end of the holder's slice. It is nil if it is further away than the longest slice, which is garbage (rule G2).
    private func announcedEnd(ofHolder holder: Int, now: Nanoseconds) -> Nanoseconds? {
        let until = block.slot(holder)[.lingerUntil]
        return until > now.addingSaturating(TurnSettings.longestSlice) ? nil : until
    }

    private func wait(_ wait: TurnMachine.Wait) -> TurnMachine.Event {
        let now = MonotonicClock.now
        var end = patienceEnd(now: now)
        var event = TurnMachine.Event.patienceOver
        var ahead: UInt64 = 0
        switch wait {
        case .linger(let holder):
            (end, event) = (lingerUntil(ofHolder: holder, now: now), .lingerOver)
        case .slice(let holder):
            let until = lingerUntil(ofHolder: holder, now: now)
            if until > now { (end, event) = (until, .lingerOver) }
        case .patience(let waiters):
            ahead = UInt64(waiters)
            end = end.addingSaturating(min(ahead, 4) * settings.patience / 2)
        }
        // Nobody tells a waiter that it has moved up, so it looks itself, the sooner the nearer it is to the turn. In a queue that moves on
        // at each slice, its turn comes before.
        let interval = min(max(2, ahead + 1) * (settings.patience / 16), Self.longestSleep)
        return sleep(until: end, then: event, watching: lastSeen.slot, each: interval)
    }

    /// When patience is over. It counts from the end of an announced slice, however long the slice is (rule T8).
    private func patienceEnd(now: Nanoseconds) -> Nanoseconds {
        let holder = lastSeen.phase == .granted ? nil : lastSeen.slot
        let sliceEnd = holder.flatMap { announcedEnd(ofHolder: $0, now: now) } ?? 0
        return max(progressAt, sliceEnd).addingSaturating(settings.patience)
    }

    /// Sleeps until the participant is woken or a time is over. If the holder is found dead meanwhile, patience ends early (rule T8).
    private func sleep(
        until end: Nanoseconds,
        then event: TurnMachine.Event,
        watching holder: Int?,
        each interval: Nanoseconds
    ) -> TurnMachine.Event {
        while true {
            let now = MonotonicClock.now
            if isCancelled || now >= deadline { return .deadlineOver }
            guard block.isIntact else { return unseat() }
            if now >= end { return event }
            var question = Nanoseconds.max
            if let limit {
                if now >= limit.nextQuestion, !limit.mayContinue(at: now) { return .deadlineOver }
                question = limit.nextQuestion
            }
            let glance = now.addingSaturating(interval)
            switch Futex.wait(
                on: slot.wakeWord,
                while: wakeWordSeen,
                timeout: min(end, deadline, glance, max(question, now)) - now
            ) {
            case .changed: return .woken
            case .failed: return unseat()
            case .timedOut:
                guard block.isIntact else { return unseat() }
                // The turn word has changed, so patience restarts.
                if block.turn.pointee.load(ordering: .acquiring) != lastSeen.rawValue { return .woken }
                if let holder, MonotonicClock.now < min(end, deadline), isDead(holder) { return .patienceOver }
            }
        }
    }

    /// The longest sleep before a waiter checks whether the block is intact. A waiter that sleeps on a truncated file is
    /// never woken (rule G3).
    private static let longestSleep: Nanoseconds = 250_000_000

    /// How long a place in the queue is kept (rule T1b).
    private static let longestKept: Nanoseconds = 10_000_000_000

    private func isDead(_ index: Int) -> Bool {
        let slot = block.slot(index)
        let owner = slot.owner.pointee.load(ordering: .acquiring)
        return block.liveness(of: slot, owner: owner, seenFrom: participant.identity) == .dead
    }

    private func unseat() -> TurnMachine.Event {
        isUncoordinated = true
        return .deadlineOver
    }

    private func judge(_ index: Int) -> TurnMachine.Event {
        // All waiters are checked together, because each dead or stopped one would otherwise cost a patience of its own.
        if block.mayClearQueue(at: MonotonicClock.now, interval: settings.patience / 2) {
            block.clearQueue(seenFrom: participant.identity)
        }
        if isDead(index) {
            block.count(.turnsSteppedOver)
            return .judged(isDead: true, isExcused: false)
        }
        let now = MonotonicClock.now
        // During the sleep, the turn was handed on or a slice was announced. The wait was shorter than patience then.
        if now < patienceEnd(now: now) { return .judged(isDead: false, isExcused: true) }
        let isExcused = lastSeen.phase == .busy && excusesSetup && block.slot(index).traits.state == .settingUp
        if isExcused { progressAt = now }
        return .judged(isDead: false, isExcused: isExcused)
    }
}

extension Slot {
    fileprivate func wakeUp() {
        wakeWord.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
        Futex.wake(wakeWord)
    }
}

extension ControlBlock {
    /// Removes a waiter that was stepped over from the queue (rule T9).
    fileprivate func evict(_ waiter: TurnMachine.Waiter) {
        let slot = slot(waiter.slot)
        let result = slot.ticket.pointee.compareExchange(
            expected: waiter.ticket,
            desired: 0,
            ordering: .sequentiallyConsistent
        )
        if result.exchanged {
            count(.waitersEvicted)
            count(.turnsSteppedOver)
        }
    }
}
