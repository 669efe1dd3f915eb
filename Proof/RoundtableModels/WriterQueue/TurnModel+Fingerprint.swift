import RoundtableKernel

/// Worlds that behave alike have the same fingerprint, so that a walk visits one of them (symmetry and bisimulation reduction).
///
/// What is left out or renamed cannot be distinguished by any step, nor by what must hold:
///
/// - slots are renamed: the machine only compares them for equality, and the queue is sorted by tickets;
/// - tickets count by their order, and the next one is above all of them;
/// - generations count relative to that of the turn word, and all below it are equal: a swap from such a word fails, now and later;
/// - a participant that is dead, or has done all its rounds, takes no step: of its machine nothing counts, and of its memory what others read;
/// - whether the write lock was free since a patience ended counts until the waiter has come to a conclusion;
/// - a wake-up counts between the look that precedes a wait and the end of that wait, because the look clears it.
extension TurnModel {
    /// - parameter folds: whether slots are renamed, so that worlds that differ by the numbers of their participants are the same.
    func fingerprint(seed: UInt64, folds: Bool = true, withBudget: Bool = true) -> UInt64 {
        let ranks = TicketRanks(self)
        var best: Words?
        for renaming in folds ? renamings(participants.count) : [Array(participants.indices)] {
            let words = encode(renaming, ranks, withBudget: withBudget)
            if let least = best, !words.lexicographicallyPrecedes(least) { continue }
            best = words
        }
        var fingerprint = Fingerprint(seed: seed)
        for word in best ?? [] { fingerprint.combine(word) }
        return fingerprint.value
    }

    private typealias Words = [UInt64]

    /// - parameter renaming: the new number of each slot.
    private func encode(_ renaming: [Int], _ ranks: TicketRanks, withBudget: Bool) -> Words {
        var words = Words(repeating: 0, count: 1 + 2 * participants.count)
        var world = Encoder(generation: turn.generation, renaming: renaming, ranks: ranks)
        world.put(turn)
        world.put(slot: lock)
        world.put(wrongSwap != nil)
        if withBudget {
            for left in [budget.deaths, budget.freezes, budget.patience, budget.deadlines] { world.put(left, bits: 4) }
        }
        words[0] = world.word
        for (index, participant) in participants.enumerated() {
            let place = 1 + 2 * renaming[index]
            var memory = Encoder(generation: turn.generation, renaming: renaming, ranks: ranks)
            memory.put(ticket: participant.ticket)
            memory.put(participant.hasBit)
            memory.put(participant.lingers)
            memory.put(participant.isSliceOver)
            memory.put(participant.isDead)
            memory.put(participant.isFrozen)
            if participant.actsAgain {
                memory.put(participant.isWoken && participant.isAboutToWait)
                memory.put(participant.sawLockFree && participant.isImpatient)
                memory.put(participant.roundsLeft, bits: 3)
                memory.put(participant.activity)
                var machine = Encoder(generation: turn.generation, renaming: renaming, ranks: ranks)
                machine.put(participant.machine.state)
                machine.put(waiter: participant.machine.watcher)
                words[place] = machine.word
            } else {
                memory.put(true)
            }
            words[place + 1] = memory.word
        }
        return words
    }
}

extension TurnModel.Participant {
    fileprivate var actsAgain: Bool { !isDead && !isDone }

    /// Whether its patience has ended, and it has not come to a conclusion yet.
    fileprivate var isImpatient: Bool {
        switch machine.state {
        case .watching(_, isSuspicious: true), .ranking(_, _, _, isSuspicious: true), .judging, .choosing, .probing,
            .steppingOver:
            true
        default: false
        }
    }

    fileprivate var isAboutToWait: Bool {
        switch activity {
        case .acting(.listWaiters), .acting(.wait): true
        default: false
        }
    }
}

/// All ways to number the participants of a world.
private func renamings(_ count: Int) -> [[Int]] {
    switch count {
    case 2: [[0, 1], [1, 0]]
    case 3: [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    default: preconditionFailure("the walk knows worlds of two and three participants")
    }
}

/// The tickets of a world in their order.
private struct TicketRanks {
    private var tickets: [UInt64] = []

    init(_ world: TurnModel) {
        for participant in world.participants {
            note(participant.ticket)
            guard participant.actsAgain else { continue }
            participant.machine.state.tickets.forEach { note($0) }
            if let watcher = participant.machine.watcher { note(watcher.ticket) }
            switch participant.activity {
            case .acting(.enqueue(let ticket)): note(ticket)
            case .acting(.evict(let waiter)): note(waiter.ticket)
            default: break
            }
        }
    }

    private mutating func note(_ ticket: UInt64) {
        guard ticket != 0 else { return }
        let index = tickets.firstIndex { $0 >= ticket } ?? tickets.count
        if index < tickets.count, tickets[index] == ticket { return }
        tickets.insert(ticket, at: index)
    }

    subscript(ticket: UInt64) -> Int {
        ticket == 0 ? 0 : tickets.firstIndex(of: ticket)! + 1
    }
}

extension TurnMachine.State {
    fileprivate var tickets: [UInt64] {
        switch self {
        case .enqueueing(let ticket), .watching(let ticket, _), .ranking(let ticket, _, _, _),
            .accepting(let ticket, _),
            .wakingFirst(let ticket), .waiting(let ticket), .judging(let ticket, _), .choosing(let ticket, _),
            .probing(let ticket, _), .evicting(let ticket, _), .steppingOver(let ticket, _, nil):
            [ticket]
        case .grantingToFirst(let ticket, let waiter), .steppingOver(let ticket, _, let waiter?):
            [ticket, waiter.ticket]
        case .parking(_, let waiter?), .grantingNext(let waiter): [waiter.ticket]
        default: []
        }
    }
}

/// Packs a part of a world into one word.
private struct Encoder {
    let generation: UInt32
    let renaming: [Int]
    let ranks: TicketRanks
    private(set) var word: UInt64 = 0
    private var used = 0

    init(generation: UInt32, renaming: [Int], ranks: TicketRanks) {
        (self.generation, self.renaming, self.ranks) = (generation, renaming, ranks)
    }

    mutating func put(_ value: Int, bits: Int) {
        precondition(value >= 0 && value < 1 << bits && used + bits <= 64, "the encoding of worlds is too narrow")
        word |= UInt64(value) << UInt64(used)
        used += bits
    }

    mutating func put(_ flag: Bool) { put(flag ? 1 : 0, bits: 1) }
    mutating func put(ticket: UInt64) { put(ranks[ticket], bits: 4) }
    mutating func put(slot: Int?) { put(slot.map { renaming[$0] + 1 } ?? 0, bits: 2) }

    mutating func put(waiter: TurnMachine.Waiter?) {
        put(slot: waiter?.slot)
        put(ticket: waiter?.ticket ?? 0)
    }

    mutating func put(_ turn: Turn) {
        put(Int(turn.phase.rawValue), bits: 2)
        put(slot: turn.slot)
        let distance = Int(turn.generation) - Int(generation)
        put(max(distance, -1) + 1, bits: 2)
    }

    mutating func put(_ activity: TurnModel.Activity) {
        switch activity {
        case .outside: put(0, bits: 5)
        case .beginning(let hasTurn): put(hasTurn ? 1 : 2, bits: 5)
        case .writing(let hasTurn): put(hasTurn ? 3 : 4, bits: 5)
        case .acting(let action): put(action)
        }
    }

    private mutating func put(_ action: TurnMachine.Action) {
        func number(_ value: Int) { put(value, bits: 5) }
        switch action {
        case .look: number(5)
        case .listWaiters: number(6)
        case .swap(let from, let to):
            number(7)
            put(from)
            put(to)
        case .park(let from, let to, let lingers):
            number(lingers ? 8 : 9)
            put(from)
            put(to)
        case .drawTicket: number(10)
        case .enqueue(let ticket):
            number(11)
            put(ticket: ticket)
        case .dequeue: number(12)
        case .evict(let waiter):
            number(13)
            put(waiter: waiter)
        case .wake(let slot):
            number(14)
            put(slot: slot)
        case .wait(.linger(let holder)):
            number(15)
            put(slot: holder)
        case .wait(.slice(let holder)):
            number(16)
            put(slot: holder)
        case .wait(.patience): number(17)
        case .checkTimeLeft: number(18)
        case .judge(let slot):
            number(19)
            put(slot: slot)
        case .probeWriteLock: number(20)
        case .finish: preconditionFailure("an end is no step")
        }
    }

    mutating func put(_ state: TurnMachine.State) {
        func number(_ value: Int) { put(value, bits: 6) }
        func words(_ value: Int, _ ticket: UInt64? = nil, _ turn: Turn? = nil, _ flags: Bool...) {
            number(value)
            if let ticket { put(ticket: ticket) }
            if let turn { put(turn) }
            for flag in flags { put(flag) }
        }
        switch state {
        case .idle: words(0)
        case .lingering(let turn): words(1, nil, turn)
        case .holding(let turn): words(2, nil, turn)
        case .resuming(let turn): words(3, nil, turn)
        case .approaching: words(4)
        case .sizingUp(let turn, let isOver): words(5, nil, turn, isOver)
        case .claiming(let turn): words(6, nil, turn)
        case .drawing: words(7)
        case .enqueueing(let ticket): words(8, ticket)
        case .watching(let ticket, let isSuspicious): words(9, ticket, nil, isSuspicious)
        case .ranking(let ticket, let turn, let isOver, let isSuspicious): words(10, ticket, turn, isOver, isSuspicious)
        case .accepting(let ticket, let turn): words(11, ticket, turn)
        case .grantingToFirst(let ticket, let first):
            words(12, ticket)
            put(waiter: first)
        case .wakingFirst(let ticket): words(13, ticket)
        case .waiting(let ticket): words(14, ticket)
        case .judging(let ticket, let turn): words(15, ticket, turn)
        case .choosing(let ticket, let turn): words(16, ticket, turn)
        case .probing(let ticket, let turn): words(17, ticket, turn)
        case .steppingOver(let ticket, let turn, let late):
            words(18, ticket, turn)
            put(waiter: late)
        case .evicting(let ticket, let turn): words(19, ticket, turn)
        case .dequeueing(let turn): words(20, nil, turn)
        case .abandoning: words(21)
        case .checkingLateGrant: words(22)
        case .acceptingLateGrant(let turn): words(23, nil, turn)
        case .closing(let turn, let mayLinger): words(24, nil, turn, mayLinger)
        case .parking(let turn, let watcher):
            words(25, nil, turn)
            put(waiter: watcher)
        case .wakingWatcher(let turn): words(26, nil, turn)
        case .checkingTime(let turn): words(27, nil, turn)
        case .recheckingWaiters(let turn): words(28, nil, turn)
        case .grantingNext(let next):
            words(29)
            put(waiter: next)
        case .wakingNext: words(30)
        case .leaving(let turn): words(31, nil, turn)
        case .freeing: words(32)
        }
    }
}
