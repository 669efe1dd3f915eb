import Foundation
import RoundtableTestBasics
import Testing

@testable import RoundtableKernel

/// The change ring, walked through every interleaving of small worlds (`docs/PROTOCOL.md`, section R).
///
/// With `ROUNDTABLE_LONG=1` the reader of the larger worlds looks twice.
@Suite struct RingModelTests {
    private static let looks = isLongRun ? 2 : 1

    /// **Invariant** (R1–R3): while nothing goes wrong, the reader receives each commit, exactly.
    @Test(arguments: [(2, 2, 2), (2, 1, 3), (1, 3, 3)])
    func everythingIsReportedExactly(writers: Int, rounds: Int, looks: Int) throws {
        let kinds = Array(repeating: RingModel.Kind.participant, count: writers)
        try walk(from: RingModel(kinds, rounds: rounds, looks: looks, places: 8, hasTurns: true))
    }

    /// A raw handle reserves one record for all commits of its turn, and replaces it (U4, U5).
    @Test(arguments: [([RingModel.Kind.handle], 2, 2), ([.handle, .participant], 1, 2)])
    func theCommitsOfHandlesAreReportedExactly(kinds: [RingModel.Kind], rounds: Int, looks: Int) throws {
        try walk(from: RingModel(kinds, rounds: rounds, looks: looks, places: 16, hasTurns: true))
    }

    /// **Invariant** (R3, R5): for each commit, a reader that looks after it receives it, or that anything may have changed, at
    /// or after it; and none before it is made. This holds whatever the writers do at once, without turns.
    @Test func nothingIsMissedWithoutTurns() throws {
        try walk(from: RingModel([.participant, .participant, .participant], rounds: 1, looks: Self.looks, places: 8))
        try walk(from: RingModel([.participant, .participant], rounds: 2, looks: Self.looks, places: 8))
        try walk(from: RingModel([.participant, .participant], rounds: 1, looks: 3, places: 8))
    }

    /// Nothing is missed beside writers that do not know the ring.
    @Test func nothingIsMissedBesideStrangers() throws {
        try walk(from: RingModel([.participant, .participant, .stranger], rounds: 1, looks: Self.looks, places: 8))
        try walk(from: RingModel([.participant, .stranger], rounds: 2, looks: 2, places: 8))
    }

    /// Nothing is missed beside raw handles, which may die in their turn (U4, U5).
    @Test(.long(), arguments: [[RingModel.Kind.handle, .participant], [.handle, .stranger], [.handle, .handle]])
    func nothingIsMissedBesideHandles(kinds: [RingModel.Kind]) throws {
        let budget = RingModel.Budget(deaths: 1)
        try walk(from: RingModel(kinds, rounds: 1, looks: Self.looks, places: 16, budget: budget))
    }

    /// Nothing is missed when writers die at any step, and transactions are rolled back after their record was reserved (R4).
    @Test(arguments: [
        ([RingModel.Kind.participant, .participant], 2, 1), ([.participant, .participant], 1, 2),
        ([.participant, .participant, .stranger], 1, 1),
    ])
    func nothingIsMissedWhenWritersDie(kinds: [RingModel.Kind], rounds: Int, looks: Int) throws {
        let budget = RingModel.Budget(deaths: 1, rollbacks: 1)
        let looks = max(looks, Self.looks)
        try walk(from: RingModel(kinds, rounds: rounds, looks: looks, places: 8, budget: budget))
    }

    /// Nothing is missed when the wal-index is rebuilt, which sets the counter back (R5).
    @Test func nothingIsMissedWhenTheCounterIsSetBack() throws {
        let budget = RingModel.Budget(deaths: 1, recoveries: 1)
        try walk(from: RingModel([.participant, .stranger], rounds: 1, looks: 2, places: 8, budget: budget))
        try walk(from: RingModel([.participant, .stranger], rounds: 2, looks: Self.looks, places: 8, budget: budget))
    }

    /// Nothing is missed when the ring comes around (R5).
    @Test func nothingIsMissedWhenTheRingComesAround() throws {
        let budget = RingModel.Budget(deaths: 1)
        try walk(
            from: RingModel([.participant, .participant], rounds: 2, looks: Self.looks, places: 2, budget: budget)
        )
        try walk(from: RingModel([.participant, .participant], rounds: 2, looks: 2, places: 2, hasTurns: true))
    }

    /// **Teeth**: a counter that is set back and counts up to where it was shows nothing. The walk must see it; a real one
    /// counts far, and is compared again after 10 ms.
    @Test func theWalkSeesACommitThatIsMissed() {
        let budget = RingModel.Budget(recoveries: 1)
        let world = RingModel([.stranger], rounds: 1, looks: 1, places: 8, counter: 1, budget: budget)
        #expect(throws: ModelViolation.self) { try walk(from: world) }
    }
}

/// Breadth first through all states.
private func walk(from start: RingModel, limit: Int = 2_000_000) throws {
    var worlds = [start]
    var seen: Set = [start]
    var parents: [(parent: Int, step: String)] = [(-1, "start")]
    var next = 0
    while next < worlds.count {
        for step in worlds[next].successors() {
            if let violation = step.violation {
                let trace = sequence(first: next) { parents[$0].parent }.prefix { $0 >= 0 }.map { parents[$0].step }
                throw ModelViolation(what: violation, trace: trace.reversed() + [step.name])
            }
            if seen.insert(step.world).inserted {
                worlds.append(step.world)
                parents.append((next, step.name))
            }
        }
        next += 1
        guard worlds.count <= limit else { throw ModelViolation(what: "more than \(limit) states", trace: []) }
    }
    #expect(worlds.count > 100, "the walk is suspiciously short")
    print("ring: \(worlds.count) states")
}

struct ModelViolation: Error, CustomStringConvertible {
    let what: String
    let trace: [String]
    var description: String { what + "\n" + trace.joined(separator: "\n") }
}
