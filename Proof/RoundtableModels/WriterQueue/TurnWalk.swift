/// A walk through all states of a `TurnModel`, depth first, that keeps fingerprints of what it has seen, and worlds only on its way.
package struct TurnWalk {
    package struct Violation: Error, CustomStringConvertible {
        package let what: String
        package let trace: [String]
        package var description: String { what + "\n" + trace.joined(separator: "\n") }
    }

    package private(set) var stateCount = 0
    package private(set) var transitionCount = 0
    /// The longest way from the start that the walk was on.
    package private(set) var depth = 0
    package var byteCount: Int { seen.byteCount + good.byteCount }

    private let seed: UInt64
    private let folds: Bool
    private let bounds: Bool
    private var seen = Fingerprints()
    /// The states, without their budget, from which all participants that can run get done.
    private var good = Fingerprints()

    /// - parameter folds: whether worlds that differ by the numbers of their participants count as one.
    /// - parameter bounds: whether waits end by themselves when it is checked that all participants get done.
    package init(seed: UInt64 = 0, folds: Bool = true, bounds: Bool) {
        (self.seed, self.folds, self.bounds) = (seed, folds, bounds)
    }

    private struct Frame {
        let step: TurnModel.Step?
        let world: TurnModel
        var successors: [(step: TurnModel.Step, world: TurnModel)]
    }

    /// - throws: `Violation`, with the way that leads to it.
    package mutating func run(from start: TurnModel, progress: (TurnWalk) -> Void = { _ in }) throws {
        var way: [Frame] = []
        func enter(_ world: TurnModel, by step: TurnModel.Step?, _ walk: inout TurnWalk) throws {
            guard walk.seen.insert(world.fingerprint(seed: walk.seed, folds: walk.folds)) else { return }
            walk.stateCount += 1
            if walk.stateCount.isMultiple(of: 1_000_000) { progress(walk) }
            if let what = try world.violation ?? walk.checkLiveness(of: world) {
                let steps = way.compactMap(\.step) + [step].compactMap { $0 }
                throw Violation(what: what, trace: steps.map(\.description) + ["\(world)"])
            }
            let successors = world.successors()
            walk.transitionCount += successors.count
            way.append(Frame(step: step, world: world, successors: successors))
            walk.depth = max(walk.depth, way.count)
        }
        try enter(start, by: nil, &self)
        while let last = way.indices.last {
            if let (step, world) = way[last].successors.popLast() {
                try enter(world, by: step, &self)
            } else {
                way.removeLast()
            }
        }
    }

    /// Lets every participant that can run do so, until all are done.
    ///
    /// - returns: why they do not get done.
    package mutating func checkLiveness(of start: TurnModel) throws -> String? {
        var path: [UInt64] = []
        var world = start
        world.budget = .init()
        while !world.isFinished {
            let fingerprint = world.fingerprint(seed: seed, folds: folds, withBudget: false)
            if good.contains(fingerprint) { break }
            path.append(fingerprint)
            guard let next = world.fairSuccessor(round: path.count, bounds: bounds) else {
                return "all participants wait, and nothing ends it: \(world)"
            }
            world = next
            guard path.count < 1000 else { return "not done after 1000 steps: \(world)" }
        }
        // Short ways only: a state on a long way may owe its end to the deadlines at the end of that way.
        if path.count < 400 { for fingerprint in path { _ = good.insert(fingerprint) } }
        return nil
    }
}
