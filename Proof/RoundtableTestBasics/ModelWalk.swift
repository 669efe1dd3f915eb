/// A world of several threads, in which every step that one of them may take next is known.
package protocol WalkedModel: Hashable {
    associatedtype Step: CustomStringConvertible
    /// All worlds that are one step away.
    func successors() -> [(step: Step, world: Self)]
    /// What is wrong with this world; nil when nothing is.
    func check() -> String?
    /// What is wrong with this world if no step leads on; nil when it may end so.
    func checkEnd() -> String?
}

package struct ModelViolation: Error, CustomStringConvertible {
    package let what: String
    package let trace: [String]
    package var description: String { what + "\n" + trace.joined(separator: "\n") }
}

/// A walk through all states of a model: breadth first, then backward from the ends, because each state must lead to one.
///
/// Of a state, it keeps the hash value, and how it was reached first. Swift seeds hash values anew in each process. Among *n* states, one is
/// left out because of an equal hash value with a probability below n² / 2⁶⁵.
package struct ModelWalk<Model: WalkedModel> {
    package private(set) var stateCount = 0
    package private(set) var transitionCount = 0

    private let start: Model
    /// How each state was reached first: from which one, by which of its steps.
    private var origins: [(state: Int32, step: Int32)] = []
    private var transitions: [(from: Int32, to: Int32)] = []
    private var ends: [Int32] = []

    /// - throws: `ModelViolation`, with a shortest way that leads to it.
    package init(from start: Model, limit: Int = 5_000_000) throws {
        self.start = start
        var numbers = [start.hashValue: Int32(0)]
        origins = [(0, -1)]
        var present = [start]
        while !present.isEmpty {
            var next: [Model] = []
            for world in present {
                let number = Int32(stateCount)
                stateCount += 1
                if let what = world.check() { throw violation(what, number) }
                let successors = world.successors()
                transitionCount += successors.count
                if successors.isEmpty {
                    if let what = world.checkEnd() { throw violation(what, number) }
                    ends.append(number)
                }
                for (index, (_, successor)) in successors.enumerated() {
                    let other = numbers[successor.hashValue] ?? Int32(origins.count)
                    if other == origins.count {
                        numbers[successor.hashValue] = other
                        origins.append((number, Int32(index)))
                        next.append(successor)
                    }
                    transitions.append((number, other))
                }
                if stateCount > limit { throw violation("more than \(limit) states", number) }
            }
            present = next
        }
        try checkEnds()
    }

    private func checkEnds() throws {
        // The transitions into each state, one state after the other.
        var positions = [Int](repeating: 0, count: stateCount + 1)
        for (_, to) in transitions { positions[Int(to) + 1] += 1 }
        for number in 0..<stateCount { positions[number + 1] += positions[number] }
        var free = positions
        var predecessors = [Int32](repeating: 0, count: transitions.count)
        for (from, to) in transitions {
            predecessors[free[Int(to)]] = from
            free[Int(to)] += 1
        }
        var canEnd = [Bool](repeating: false, count: stateCount)
        var pending = ends
        while let number = pending.popLast() {
            if canEnd[Int(number)] { continue }
            canEnd[Int(number)] = true
            pending += predecessors[positions[Int(number)]..<positions[Int(number) + 1]]
        }
        if let number = canEnd.firstIndex(of: false) { throw violation("no way to an end", Int32(number)) }
    }

    private func violation(_ what: String, _ number: Int32) -> ModelViolation {
        var way: [Int] = []
        var number = number
        while number != 0 {
            way.append(Int(origins[Int(number)].step))
            number = origins[Int(number)].state
        }
        var world = start
        var trace: [String] = []
        for index in way.reversed() {
            let (step, next) = world.successors()[index]
            trace.append(step.description)
            world = next
        }
        return ModelViolation(what: what, trace: trace + ["\(world)"])
    }
}
