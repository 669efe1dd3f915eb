import RoundtableKernel

/// A world of participants that run `TurnMachine`, with the shared memory, SQLite's write lock, and what may befall them.
/// Each step is one action of one participant, so walking all steps walks all interleavings.
package struct TurnModel: Hashable, Sendable {
    /// What else a participant does between the actions of its machine.
    package enum Activity: Hashable, Sendable {
        case outside
        case acting(TurnMachine.Action)
        case beginning(hasTurn: Bool)
        case writing(hasTurn: Bool)
    }

    package struct Participant: Hashable, Sendable {
        package internal(set) var machine: TurnMachine
        var activity = Activity.outside
        var roundsLeft: Int
        var ticket: UInt64 = 0
        var hasBit = false
        /// Whether the wake word changed since the last look.
        var isWoken = false
        /// Whether its time to linger is the end of its slice, and not none at all.
        var lingers = false
        var isSliceOver = false
        package var isDead = false
        var isFrozen = false
        /// Whether the write lock was free at any time since this participant's patience ended.
        var sawLockFree = false

        var canAct: Bool { !isDead && !isFrozen }
        var isDone: Bool { roundsLeft == 0 && activity == .outside }
    }

    /// What may still go wrong.
    package struct Budget: Hashable, Sendable, CustomStringConvertible {
        package var deaths: Int
        package var freezes: Int
        package var patience: Int
        package var deadlines: Int

        package init(deaths: Int = 0, freezes: Int = 0, patience: Int = 0, deadlines: Int = 0) {
            (self.deaths, self.freezes, self.patience, self.deadlines) = (deaths, freezes, patience, deadlines)
        }

        package var description: String {
            "\(deaths) deaths, \(freezes) freezes, \(patience) patience, \(deadlines) deadlines"
        }
    }

    package enum WrongSwap: String, Sendable {
        /// T8: the waiter took the turn of a participant that lives, and that held the write lock all the time.
        case fromALivingWriter = "the turn was taken from a living participant that held the write lock all the time"
        /// T5: the waiter took a lingering turn before the announced time was over.
        case withinTheSlice = "a lingering turn was taken before its time was over"
    }

    /// A machine that is broken on purpose, to show that the walk detects it.
    package enum Break: String, CaseIterable, Sendable {
        /// A wake-up is never sent.
        case losesWakeUps
        /// A swap stores the new word although the turn has changed meanwhile.
        case swapsBlindly
        /// Whoever loses patience takes the holder for dead, without looking.
        case condemnsTheLiving
        /// The write lock always looks busy, so that a frozen holder outside of a transaction keeps the turn.
        case neverProbes
        /// A waiter takes the turn of a holder whose time to linger is not over.
        case ignoresTheSlice
    }

    /// A step, whose name is composed only when it is shown.
    package struct Step: CustomStringConvertible, Sendable {
        package enum Kind: Sendable {
            case acquires, begins, dies, freezes, thaws
            case ends(String, mayLinger: Bool?)
            case acts(TurnMachine.Action, TurnMachine.Event)
        }

        let index: Int
        let kind: Kind

        var isLingerOver: Bool {
            if case .acts(_, .lingerOver) = kind { true } else { false }
        }

        package var description: String {
            switch kind {
            case .ends(let name, let mayLinger?): "\(index) \(name), may linger: \(mayLinger)"
            case .ends(let name, nil): "\(index) \(name)"
            case .acts(let action, let event): "\(index) \(action) → \(event)"
            default: "\(index) \(kind)"
            }
        }
    }

    package var turn = Turn(rawValue: 0)
    var nextTicket: UInt64 = 1
    var lock: Int?
    package var participants: [Participant]
    package var budget: Budget
    private let patienceAtStart: Int
    /// A swap that no rule allows, once there was one.
    var wrongSwap: WrongSwap?
    /// Whether a holder may leave the turn lingering while others wait (rule T5). Without, worlds are much smaller.
    let lingering: Bool
    let broken: Break?

    package init(
        participants count: Int,
        rounds: Int,
        budget: Budget,
        lingering: Bool = true,
        broken: Break? = nil
    ) {
        (self.lingering, self.broken) = (lingering, broken)
        patienceAtStart = budget.patience
        participants = (0..<count).map { Participant(machine: TurnMachine(slot: $0), roundsLeft: rounds) }
        self.budget = budget
    }
}

// MARK: - Steps

extension TurnModel {
    /// All worlds that are one step away, with the name of the step.
    package func successors() -> [(step: Step, world: TurnModel)] {
        participants.indices.flatMap { steps(of: $0) + faults(of: $0) }
    }

    private func steps(of index: Int) -> [(Step, TurnModel)] {
        let me = participants[index]
        guard me.canAct else { return [] }
        switch me.activity {
        case .outside:
            guard me.roundsLeft > 0 else { return [] }
            var worlds = [self]
            if me.machine.isLingering, me.lingers, !me.isSliceOver {
                worlds.append(changed(index, .acquires) { $0.participants[index].isSliceOver = true }.1)
            }
            return worlds.map { world in
                let mayResume = me.machine.isLingering && !world.isOver(index)
                return world.feed(.acquire(mayResume: mayResume), to: index, .acquires)
            }
        case .acting(let action):
            return perform(action, index)
        case .beginning(let hasTurn):
            var steps: [(Step, TurnModel)] = []
            if lock == nil {
                steps.append(
                    changed(index, .begins) { world in
                        world.lock = index
                        world.participants[index].activity = .writing(hasTurn: hasTurn)
                    }
                )
            } else if budget.deadlines > 0 || !hasTurn {
                // SQLite's busy timeout: without the turn it is over already (rule T11).
                var world = self
                if hasTurn { world.budget.deadlines -= 1 }
                steps += world.end(index, hadTurn: hasTurn, "receives SQLITE_BUSY")
            }
            return steps
        case .writing(let hasTurn):
            var world = self
            world.unlock()
            return world.end(index, hadTurn: hasTurn, "commits")
        }
    }

    /// The end of a transaction, or of the attempt.
    private func end(_ index: Int, hadTurn: Bool, _ name: String) -> [(Step, TurnModel)] {
        var world = self
        world.participants[index].roundsLeft -= 1
        guard hadTurn else {
            world.participants[index].activity = .outside
            return [(Step(index: index, kind: .ends(name, mayLinger: nil)), world)]
        }
        let lingering = self.lingering && !participants[index].isSliceOver ? [true, false] : [false]
        return lingering.map { world.feed(.release(mayLinger: $0), to: index, .ends(name, mayLinger: $0)) }
    }

    private func perform(_ action: TurnMachine.Action, _ index: Int) -> [(Step, TurnModel)] {
        let me = participants[index]
        func answer(_ event: TurnMachine.Event, _ change: (inout TurnModel) -> Void = { _ in }) -> (Step, TurnModel) {
            var world = self
            change(&world)
            return world.feed(event, to: index, .acts(action, event))
        }

        switch action {
        case .look:
            guard turn.phase == .lingering, let holder = turn.slot else {
                return [answer(.turn(turn, isOver: false)) { $0.participants[index].isWoken = false }]
            }
            if broken == .ignoresTheSlice {
                return [answer(.turn(turn, isOver: true)) { $0.participants[index].isWoken = false }]
            }
            return (isOver(holder) ? [true] : [true, false]).map { isOver in
                answer(.turn(turn, isOver: isOver)) { world in
                    world.participants[index].isWoken = false
                    if isOver { world.participants[holder].isSliceOver = true }
                }
            }
        case .listWaiters:
            return [answer(.waiters(queue))]
        case .swap(let from, let to):
            let isSame = turn == from || broken == .swapsBlindly
            return [
                answer(.swapped(isSame)) { world in
                    guard isSame else { return }
                    world.wrongSwap = wrongSwap(by: index, from: from, to: to)
                    world.turn = to
                }
            ]
        case .park(let from, let to, let lingers):
            return [
                answer(.swapped(turn == from)) { world in
                    world.participants[index].lingers = lingers
                    if world.turn == from { world.turn = to }
                }
            ]
        case .drawTicket:
            return [answer(.ticket(nextTicket)) { $0.nextTicket += 1 }]
        case .enqueue(let ticket):
            return [
                answer(.done) { world in
                    world.participants[index].ticket = ticket
                    world.participants[index].hasBit = true
                }
            ]
        case .dequeue:
            return [answer(.done) { $0.clearTicket(index) }]
        case .evict(let waiter):
            return [
                answer(.done) { world in
                    if world.participants[waiter.slot].ticket == waiter.ticket {
                        world.participants[waiter.slot].ticket = 0
                    }
                }
            ]
        case .wake where broken == .losesWakeUps:
            return [answer(.done)]
        case .wake(let slot):
            return [answer(.done) { $0.participants[slot].isWoken = true }]
        case .wait(let wait):
            if me.isWoken { return [answer(.woken)] }
            var answers: [(Step, TurnModel)] = []
            switch wait {
            case .linger(let holder):
                answers.append(answer(.lingerOver) { $0.participants[holder].isSliceOver = true })
            case .slice(let holder) where !isOver(holder):
                answers.append(answer(.lingerOver) { $0.participants[holder].isSliceOver = true })
            case .slice, .patience:
                guard budget.patience > 0 else { break }
                answers.append(
                    answer(.patienceOver) { world in
                        world.budget.patience -= 1
                        world.participants[index].sawLockFree = lock == nil
                    }
                )
            }
            if budget.deadlines > 0 { answers.append(answer(.deadlineOver) { $0.budget.deadlines -= 1 }) }
            return answers
        case .checkTimeLeft:
            let left = isOver(index) ? [] : [answer(.timeLeft(true))]
            return left + [answer(.timeLeft(false)) { $0.participants[index].isSliceOver = true }]
        case .judge(let slot):
            guard participants[slot].isDead || broken == .condemnsTheLiving else {
                // The patience of a waiter begins after the announced slice (rule T8).
                let late = answer(.judged(isDead: false, isExcused: false))
                guard turn.phase != .granted, turn.slot == slot, !isOver(slot) else { return [late] }
                // The slice may end by now, also when no waiter waits for its end.
                return [
                    answer(.judged(isDead: false, isExcused: false)) { $0.participants[slot].isSliceOver = true },
                    answer(.judged(isDead: false, isExcused: true)),
                ]
            }
            return [
                answer(.judged(isDead: true, isExcused: false)) { world in
                    for dead in world.participants.indices where world.participants[dead].isDead {
                        world.clearTicket(dead)
                    }
                }
            ]
        case .probeWriteLock:
            return [answer(.probed(isFree: lock == nil && broken != .neverProbes))]
        case .finish:
            preconditionFailure("an end is no step")
        }
    }

    private func faults(of index: Int) -> [(Step, TurnModel)] {
        let me = participants[index]
        guard !me.isDead, !me.isDone else { return [] }
        var steps: [(Step, TurnModel)] = []
        if budget.deaths > 0 {
            steps.append(
                changed(index, .dies) { world in
                    world.budget.deaths -= 1
                    world.participants[index].isDead = true
                    // The system releases the locks of the dead.
                    if world.lock == index { world.unlock() }
                }
            )
        }
        if me.isFrozen {
            steps.append(changed(index, .thaws) { $0.participants[index].isFrozen = false })
        } else if budget.freezes > 0 {
            steps.append(
                changed(index, .freezes) { world in
                    world.budget.freezes -= 1
                    world.participants[index].isFrozen = true
                }
            )
        }
        return steps
    }

    // MARK: Helpers

    /// Whether the time that a participant has announced to linger is over.
    private func isOver(_ index: Int) -> Bool {
        !participants[index].lingers || participants[index].isSliceOver
    }

    private func wrongSwap(by index: Int, from: Turn, to: Turn) -> WrongSwap? {
        guard let holder = from.slot, holder != index, to.slot != holder, !participants[holder].isDead else {
            return nil
        }
        switch from.phase {
        case .busy where lock == holder && !participants[index].sawLockFree: return .fromALivingWriter
        case .lingering where !isOver(holder): return .withinTheSlice
        default: return nil
        }
    }

    private mutating func unlock() {
        lock = nil
        for index in participants.indices { participants[index].sawLockFree = true }
    }

    private var queue: [TurnMachine.Waiter] {
        participants.enumerated()
            .filter { $0.element.hasBit && $0.element.ticket != 0 }
            .map { TurnMachine.Waiter(slot: $0.offset, ticket: $0.element.ticket) }
            .sorted { $0.ticket < $1.ticket }
    }

    private mutating func clearTicket(_ index: Int) {
        participants[index].ticket = 0
        participants[index].hasBit = false
    }

    private func changed(_ index: Int, _ kind: Step.Kind, _ change: (inout TurnModel) -> Void) -> (Step, TurnModel) {
        var world = self
        change(&world)
        return (Step(index: index, kind: kind), world)
    }

    private func feed(_ event: TurnMachine.Event, to index: Int, _ kind: Step.Kind) -> (Step, TurnModel) {
        var world = self
        let isResuming = if case .resuming = participants[index].machine.state { true } else { false }
        let action = world.participants[index].machine.next(event)
        switch action {
        case .finish(.acquired):
            // A turn that is not resumed begins a slice (rule T4).
            if !isResuming { world.participants[index].isSliceOver = false }
            world.participants[index].activity = .beginning(hasTurn: true)
        case .finish(.timedOut): world.participants[index].activity = .beginning(hasTurn: false)
        case .finish(.released): world.participants[index].activity = .outside
        default: world.participants[index].activity = .acting(action)
        }
        return (Step(index: index, kind: kind), world)
    }
}

// MARK: - What must hold

extension TurnModel {
    /// Those who believe to have the turn, and could act on it.
    package var believers: Int {
        participants.count { participant in
            guard !participant.isDead else { return false }
            switch participant.activity {
            case .beginning(hasTurn: true), .writing(hasTurn: true): return true
            default: return false
            }
        }
    }

    package var writers: Int {
        participants.count {
            guard !$0.isDead, case .writing = $0.activity else { return false }
            return true
        }
    }

    /// Everyone who can act has done all its rounds.
    package var isFinished: Bool { participants.allSatisfy { !$0.canAct || $0.isDone } }

    /// What is wrong with this world; nil when nothing is.
    package var violation: String? {
        if let wrongSwap { return wrongSwap.rawValue }
        if writers > 1 { return "\(writers) participants write at once" }
        // Only a waiter whose patience is over steps over a holder (T8–T10), so each that did adds one believer at most.
        let spent = patienceAtStart - budget.patience
        if believers > 1 + spent {
            return "\(believers) participants believe to have the turn, and patience has ended \(spent) times"
        }
        return nil
    }

    /// The next world when nothing else goes wrong, and every process that can run does: those who can act do so in
    /// turn; when all wait, a time to linger ends; when that does not help, the patience of a waiter; and only while a frozen process
    /// holds SQLite's write lock, a deadline (T11).
    ///
    /// - parameter bounds: whether patience and deadlines end. Without, only wake-ups and lingering do.
    package func fairSuccessor(round: Int, bounds: Bool) -> TurnModel? {
        var stages: [(budget: Budget, lingers: Bool)] = [(Budget(), false), (Budget(), true)]
        if bounds {
            stages.append((Budget(patience: 1), true))
            if let lock, participants[lock].isFrozen {
                stages.append((Budget(patience: 1, deadlines: 1), true))
                // What patience has not ended by now, it never will.
                if round > 400 { stages.removeFirst(3) }
            }
        }
        for stage in stages {
            var fair = self
            fair.budget = stage.budget
            for offset in participants.indices {
                let steps = fair.steps(of: (round + offset) % participants.count)
                let allowed = stage.lingers ? steps : steps.filter { !$0.0.isLingerOver }
                guard let step = stage.budget == Budget() ? allowed.first : allowed.last else { continue }
                var next = step.1
                next.budget = Budget()
                return next
            }
        }
        return nil
    }
}
