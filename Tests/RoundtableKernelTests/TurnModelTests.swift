import Foundation
import RoundtableKernel
import RoundtableModels
import RoundtableTestBasics
import Testing

/// The writer queue, walked through every interleaving of small worlds (`docs/PROTOCOL.md`, section T).
///
/// `make walk` walks larger worlds, optimized.
@Suite struct TurnModelTests {
    private static let budgets: [TurnModel.Budget] =
        [.init(deaths: 1, patience: 1), .init(freezes: 1, patience: 1), .init(patience: 1, deadlines: 1)]
        + (isLongRun ? [.init(patience: 2), .init(deaths: 2, patience: 1)] : [])

    /// **Invariant** (T1, T2): while nothing goes wrong, one participant at most believes to hold the turn, and none needs
    /// patience to get it: no wake-up is lost.
    @Test(arguments: [(2, 3), (3, 1)])
    func oneTurnWhileNothingGoesWrong(participants: Int, rounds: Int) throws {
        try walk(TurnModel(participants: participants, rounds: rounds, budget: .init()), bounds: false)
    }

    /// **Invariant** (T8–T11, G1, G3): whatever dies, freezes, thaws, loses patience or reaches its deadline, at any step:
    ///
    /// - two participants never write at once;
    /// - no more participants believe to hold the turn than one, and one for each time that a patience has ended;
    /// - from every state that can be reached, every participant that can run gets done. No deadline is needed for that, unless a frozen
    ///   process holds SQLite's write lock.
    @Test(.long(oneIn: 32), arguments: budgets)
    func noParticipantWaitsForEver(budget: TurnModel.Budget) throws {
        try walk(TurnModel(participants: 3, rounds: 1, budget: budget, lingering: isLongRun))
    }

    /// Two participants have several faults in one life, and several turns each.
    @Test(.long()) func noParticipantWaitsForEverAfterSeveralFaults() throws {
        let budget = TurnModel.Budget(deaths: 1, freezes: 1, patience: isLongRun ? 2 : 1)
        try walk(TurnModel(participants: 2, rounds: 2, budget: budget))
    }

    /// **Invariant**: renaming the participants hides nothing. A walk that does not rename them visits more states, at most two for each
    /// of two participants' states, and also finds nothing.
    @Test func aWalkWithoutFoldingFindsTheSame() throws {
        let world = TurnModel(participants: 2, rounds: 2, budget: .init(patience: 1))
        var folded = TurnWalk(bounds: true)
        var unfolded = TurnWalk(folds: false, bounds: true)
        try folded.run(from: world)
        try unfolded.run(from: world)
        #expect(folded.stateCount < unfolded.stateCount)
        #expect(unfolded.stateCount <= 2 * folded.stateCount)
        var reseeded = TurnWalk(seed: 1, bounds: true)
        try reseeded.run(from: world)
        #expect(reseeded.stateCount == folded.stateCount, "two states had the same fingerprint")
    }

    /// **Teeth**: a machine that is broken on purpose is detected, with participants folded and not.
    @Test(arguments: TurnModel.Break.allCases, [true, false])
    func theWalkSeesABrokenMachine(broken: TurnModel.Break, folds: Bool) {
        let budget =
            switch broken {
            case .losesWakeUps, .ignoresTheSlice: TurnModel.Budget()
            case .swapsBlindly, .condemnsTheLiving: TurnModel.Budget(patience: 1)
            case .neverProbes: TurnModel.Budget(freezes: 1, patience: 1)
            }
        // Lingering turns would show the false verdict of death first by another violation.
        let lingering = broken != .condemnsTheLiving
        let world = TurnModel(participants: 2, rounds: 2, budget: budget, lingering: lingering, broken: broken)
        var walk = TurnWalk(folds: folds, bounds: broken != .losesWakeUps)
        #expect(throws: TurnWalk.Violation.self) { try walk.run(from: world) }
    }

    /// **Teeth**: were waits not bounded, a participant that dies between granting and waking would leave the next one
    /// asleep for ever. The checker must see it.
    @Test func theCheckerSeesAWaitWithoutEnd() throws {
        var world = TurnModel(participants: 2, rounds: 1, budget: .init())
        world.turn = Turn(.busy, slot: 0, generation: 1)
        world.participants[0].isDead = true
        var unbounded = TurnWalk(bounds: false)
        let waits = try unbounded.checkLiveness(of: world)
        #expect(waits != nil)
        var bounded = TurnWalk(bounds: true)
        let ends = try bounded.checkLiveness(of: world)
        #expect(ends == nil)
    }

    private func walk(_ world: TurnModel, bounds: Bool = true) throws {
        var walk = TurnWalk(bounds: bounds)
        try walk.run(from: world)
        print("turn model: \(walk.stateCount) states, \(walk.transitionCount) transitions: \(world.budget)")
        #expect(walk.stateCount > 1000, "the walk is suspiciously short")
    }
}
