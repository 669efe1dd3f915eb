import Testing

@testable import RoundtableKernel

/// Steps of `TurnMachine` that no interleaving of the model distinguishes: they only cost other participants time.
@Suite struct TurnMachineTests {
    private typealias Action = TurnMachine.Action

    /// Hands events to a machine, and shows what it does.
    private static func actions(_ machine: inout TurnMachine, _ events: TurnMachine.Event...) -> [Action] {
        events.map { machine.next($0) }
    }

    /// **Rule T1**: a newcomer takes what is claimable. A turn that lingers, and whose time is not over, is its holder's: the newcomer draws
    /// a ticket.
    @Test(arguments: [
        (Turn(.lingering, slot: 0, generation: 5), false, false),
        (Turn(.lingering, slot: 0, generation: 5), true, true),
        (Turn(.lingering, slot: 1, generation: 5), false, true), (Turn(.free, slot: nil, generation: 5), false, true),
        (Turn(.granted, slot: 0, generation: 5), false, false), (Turn(.busy, slot: 0, generation: 5), false, false),
    ])
    func aNewcomer(turn: Turn, isOver: Bool, isClaimed: Bool) {
        var machine = TurnMachine(slot: 1)
        let begins = Self.actions(&machine, .acquire(mayResume: false), .turn(turn, isOver: isOver), .waiters([]))
        let claim = Action.swap(from: turn, to: turn.next(.busy, slot: 1))
        #expect(begins == [.look, .listWaiters, isClaimed ? claim : .drawTicket])
    }

    /// **Rule T1**: a newcomer does not take a claimable turn ahead of waiters.
    @Test func aNewcomerBehindOthers() {
        var machine = TurnMachine(slot: 1)
        let over = TurnMachine.Event.turn(Turn(.lingering, slot: 0, generation: 5), isOver: true)
        let waiter = TurnMachine.Waiter(slot: 2, ticket: 1)
        let actions = Self.actions(&machine, .acquire(mayResume: false), over, .waiters([waiter]))
        #expect(actions.last == .drawTicket)
    }

    /// **Rule T8**: a waiter whose patience seems to be over, and that meanwhile sees the turn linger or granted, judges before it takes
    /// anything: the word may have changed a moment ago.
    @Test(arguments: [Turn(.lingering, slot: 0, generation: 5), Turn(.granted, slot: 0, generation: 6)])
    func patienceWithWhatChangedMeanwhile(turn: Turn) {
        var machine = TurnMachine(slot: 1)
        let busy = Turn(.busy, slot: 0, generation: 5)
        let own = TurnMachine.Waiter(slot: 1, ticket: 9)
        let actions = Self.actions(
            &machine,
            .acquire(mayResume: false),
            .turn(busy, isOver: false),
            .waiters([]),
            .ticket(9),
            .done,
            .turn(busy, isOver: false),
            .waiters([own]),
            .patienceOver,
            .turn(turn, isOver: false),
            .waiters([own]),
            .judged(isDead: false, isExcused: true),
            .turn(turn, isOver: false),
            .waiters([own])
        )
        #expect(actions.suffix(4).first == .judge(slot: 0))
        #expect(actions.suffix(3).first == .look)
        guard case .wait = actions.last else { return _ = Issue.record("\(actions) does not continue to wait") }
    }

    /// **Rule T7**: a waiter that leaves the queue at its deadline, and is granted the turn between leaving and the next look, holds it.
    /// (Otherwise, all others would lose their patience with a participant that does not wait any more.)
    @Test func aGrantWhileLeavingTheQueue() throws {
        let busy = Turn(.busy, slot: 0, generation: 5)
        let own = TurnMachine.Waiter(slot: 1, ticket: 9)
        func leaving() -> TurnMachine {
            var machine = TurnMachine(slot: 1)
            let events: [TurnMachine.Event] = [
                .acquire(mayResume: false), .turn(busy, isOver: false), .waiters([]), .ticket(9), .done,
                .turn(busy, isOver: false), .waiters([own]),
            ]
            let waits = events.map { machine.next($0) }
            #expect(waits.last == .wait(.slice(holder: 0)))
            let leaves = Self.actions(&machine, .deadlineOver, .done)
            #expect(leaves == [.dequeue, .look])
            return machine
        }
        let granted = busy.next(.granted, slot: 1)
        var late = leaving()
        let accepts = Action.swap(from: granted, to: granted.with(.busy))
        try #require(late.next(.turn(granted, isOver: false)) == accepts)
        #expect(late.next(.swapped(true)) == .finish(.acquired))
        #expect(late.hasTurn)
        var tooLate = leaving()
        let misses = Self.actions(&tooLate, .turn(granted, isOver: false), .swapped(false))
        #expect(misses.last == .finish(.timedOut))
        for other in [busy, busy.next(.granted, slot: 2), busy.next(.free)] {
            var machine = leaving()
            #expect(machine.next(.turn(other, isOver: false)) == .finish(.timedOut))
        }
    }
}
