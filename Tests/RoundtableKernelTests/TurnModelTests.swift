import Foundation
import RoundtableKernel
import Testing

/// The writer queue, walked through every interleaving of small worlds (`docs/PROTOCOL-SHARED-MEMORY.md`, section T).
///
/// With `ROUNDTABLE_LONG=1` the worlds are larger, and the walk takes minutes.
@Suite struct TurnModelTests {
    private static let isLong = ProcessInfo.processInfo.environment["ROUNDTABLE_LONG"] == "1"

    private static let budgets: [TurnModel.Budget] =
        [.init(deaths: 1, patience: 1), .init(freezes: 1, patience: 1), .init(patience: 1, deadlines: 1)]
        + (isLong
            ? [.init(patience: 2), .init(deaths: 1, freezes: 1, patience: 1), .init(deaths: 2, patience: 1)] : [])

    /// **Invariant** (T1, T2): while nothing goes wrong, one participant at most believes to have the turn, and nobody needs
    /// patience to get it: no wake-up is lost.
    @Test(arguments: [(2, 3), (3, 1)])
    func oneTurnWhileNothingGoesWrong(participants: Int, rounds: Int) throws {
        let world = TurnModel(participants: participants, rounds: rounds, budget: .init())
        let walk = try explore(from: world) { world in
            world.believers <= 1 ? nil : "\(world.believers) participants believe to have the turn"
        }
        #expect(walk.count > 1000, "the walk is suspiciously short")
        try checkLiveness(of: walk, bounds: false)
    }

    /// **Invariant** (T8–T11, G1, G3): whatever dies, freezes, thaws, loses patience or meets its deadline, at any step,
    /// two participants never write at once, and from every state that can be reached, everyone who can run gets done.
    @Test(arguments: budgets)
    func nobodyWaitsForEver(budget: TurnModel.Budget) throws {
        try exploreWithLiveness(from: TurnModel(participants: 3, rounds: 1, budget: budget, lingering: Self.isLong))
    }

    /// The same, with several faults in one life, and several turns each, for two participants.
    @Test func nobodyWaitsForEverAfterSeveralFaults() throws {
        let budget = TurnModel.Budget(deaths: 1, freezes: 1, patience: Self.isLong ? 2 : 1)
        try exploreWithLiveness(from: TurnModel(participants: 2, rounds: 2, budget: budget))
    }

    /// **Teeth**: were waits not bounded, a participant that dies between granting and waking would leave the next one
    /// asleep for ever. The checker must see it.
    @Test func theCheckerSeesAWaitWithoutEnd() throws {
        var world = TurnModel(participants: 2, rounds: 1, budget: .init())
        world.turn = Turn(.busy, slot: 0, generation: 1)
        world.participants[0].isDead = true
        #expect(throws: ModelViolation.self) { try checkLiveness(of: [world], bounds: false) }
        try checkLiveness(of: [world], bounds: true)
    }
}

struct ModelViolation: Error, CustomStringConvertible {
    let what: String
    let trace: [String]
    var description: String { what + "\n" + trace.joined(separator: "\n") }
}

/// Breadth first through all states.
private func explore(
    from start: TurnModel,
    limit: Int = 8_000_000,
    _ violation: (TurnModel) -> String?
) throws -> [TurnModel] {
    var worlds = [start]
    var seen: Set = [start]
    var parents: [(parent: Int, step: String)] = [(-1, "start")]
    var next = 0
    while next < worlds.count {
        let world = worlds[next]
        if let what = violation(world) {
            let trace = sequence(first: next) { parents[$0].parent }.prefix { $0 >= 0 }.map { parents[$0].step }
            throw ModelViolation(what: what, trace: trace.reversed())
        }
        for (step, successor) in world.successors() where seen.insert(successor).inserted {
            worlds.append(successor)
            parents.append((next, step))
        }
        next += 1
        guard worlds.count <= limit else { throw ModelViolation(what: "more than \(limit) states", trace: []) }
    }
    return worlds
}

private func exploreWithLiveness(from start: TurnModel) throws {
    let worlds = try explore(from: start) { world in
        world.writers <= 1 ? nil : "\(world.writers) participants write at once"
    }
    #expect(worlds.count > 1000, "the walk is suspiciously short")
    try checkLiveness(of: worlds, bounds: true)
}

/// From each world, lets everyone who can run do so, until all are done.
private func checkLiveness(of worlds: [TurnModel], bounds: Bool) throws {
    var good = Set<TurnModel>()
    for start in worlds {
        var path: [TurnModel] = []
        var world = start
        world.budget = .init()
        while !world.isFinished, !good.contains(world) {
            path.append(world)
            guard let next = world.fairSuccessor(round: path.count, bounds: bounds) else {
                throw ModelViolation(what: "everybody waits, and nothing ends it: \(world)", trace: [])
            }
            world = next
            guard path.count < 1000 else {
                throw ModelViolation(what: "not done after 1000 steps: \(start)\n…\n\(world)", trace: [])
            }
        }
        // Short ways only: a state on a long way may owe its end to the deadlines at the end of that way.
        if path.count < 400 { good.formUnion(path) }
    }
}
