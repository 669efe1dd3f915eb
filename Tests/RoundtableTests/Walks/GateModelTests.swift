import Foundation
import RoundtableKernel
import Testing

@testable import RoundtableCore

/// The suspension gate, walked through every interleaving of small worlds (`docs/PROTOCOL-PROCESS.md`, rules F1 to F6).
@Suite struct GateModelTests {
    struct Scenario: Sendable, CustomTestStringConvertible {
        let visitors: [Suspension.Access.Kind]
        let requesters: [[GateModel.Request]]

        init(_ visitors: Suspension.Access.Kind..., requesters: [GateModel.Request]...) {
            (self.visitors, self.requesters) = (visitors, requesters)
        }

        var testDescription: String {
            let others = requesters.map { $0.map { "\($0)" }.joined(separator: " then ") }
            return (visitors.map(\.rawValue) + others).joined(separator: ", ")
        }
    }

    private static let scenarios = [
        Scenario(.write, .write, requesters: [.suspend, .resume]),
        Scenario(.write, .checkpoint, requesters: [.suspend, .resume]),
        Scenario(.turn, .opening, requesters: [.suspend, .resume]),
        Scenario(.write, .closing, requesters: [.suspend, .resume]),
        Scenario(.checkpoint, .closing, requesters: [.suspend], [.resume]),
        Scenario(.opening, requesters: [.suspend], [.stop, .endStop]),
        Scenario(.write, requesters: [.suspend, .resume], [.suspend]),
        Scenario(.write, requesters: [.suspend], [.protect, .endProtection]),
        Scenario(.write, requesters: [.protect, .endProtection], [.expire, .endExpiry]),
        Scenario(.write, requesters: [.suspend, .resume], [.stop, .endStop]),
    ]

    /// **Invariant**, in every state that can be reached:
    ///
    /// - F1: the gate is closed while the requests say so, and otherwise a thread is about to open it. An abandoned gate stays open.
    /// - F1, F4: no visit enters or starts, and no step begins, while the requests say that the gate is closed.
    /// - F2, F3: no wake-up is lost, of the suspending thread or of a visitor outside.
    /// - F3: while an aborted visit is inside, `mustNotCommit` is true, and not afterwards. Only aborted visits are interrupted, and no
    ///   connection while it closes. A write that has committed is not aborted. No suspension answers that the locks are released while a visit
    ///   holds one.
    /// - F5: each use of the assertion ends once.
    /// - F6: no lock is held behind a gate that was settled. When no thread waits any more, a closed gate was settled.
    /// - Each state leads to one in which all threads have ended, or wait outside of a closed gate.
    @Test(arguments: scenarios)
    func everyInterleaving(scenario: Scenario) throws {
        let start = GateModel(visitors: scenario.visitors, requesters: scenario.requesters)
        let began = ContinuousClock.now
        let count = try walk(from: start)
        print("gate model: \(count) states in \(ContinuousClock.now - began): \(scenario.testDescription)")
        #expect(count > 1000, "the walk is suspiciously short")
    }
}

private struct GateViolation: Error, CustomStringConvertible {
    let what: String
    let trace: [String]
    var description: String { what + "\n" + trace.joined(separator: "\n") }
}

/// Goes breadth first through all states, then backward from the final states: each state must lead to one.
///
/// - returns: the number of states.
private func walk(from start: GateModel, limit: Int = 1_000_000) throws -> Int {
    var worlds = [start]
    var numbers = [start: 0]
    /// How each world was reached first; nil for the start.
    var parents: [(number: Int, step: GateModel.Step)?] = [nil]
    var predecessors: [[Int]] = [[]]
    var ends: [Int] = []

    func violation(_ what: String, _ number: Int) -> GateViolation {
        let path = sequence(first: number) { parents[$0]?.number }
        let steps = path.compactMap { parents[$0]?.step.description }
        return GateViolation(what: what, trace: steps.reversed() + ["\(worlds[number])"])
    }

    var next = 0
    while next < worlds.count {
        let world = worlds[next]
        if let what = world.check() { throw violation(what, next) }
        let successors = world.successors()
        // A thread that waits outside of a closed gate waits for good when no other thread is left.
        if successors.isEmpty {
            guard world.isFinished || world.machine.isClosed else { throw violation("all threads wait", next) }
            ends.append(next)
        }
        for (step, successor) in successors {
            if let number = numbers[successor] {
                predecessors[number].append(next)
            } else {
                numbers[successor] = worlds.count
                worlds.append(successor)
                parents.append((next, step))
                predecessors.append([next])
            }
        }
        next += 1
        guard worlds.count <= limit else { throw violation("more than \(limit) states", next) }
    }

    var canEnd = [Bool](repeating: false, count: worlds.count)
    var pending = ends
    while let number = pending.popLast() {
        guard !canEnd[number] else { continue }
        canEnd[number] = true
        pending += predecessors[number]
    }
    if let number = canEnd.firstIndex(of: false) { throw violation("no way to an end", number) }
    return worlds.count
}
