@testable import RoundtableKernel

/// What a raw handle does to the ring in its turn (rules U4, U5).
extension RingModel {
    struct HandleTurn: Hashable {
        /// The record that was reserved when the turn began.
        let placeholder: UInt64
        /// The commit counter when the turn began.
        let start: UInt32
        /// The handle's own commits in the turn.
        var commits: [Int] = []
        /// How many of the commits have a committed record of their own.
        var replaced = 0
        var append = Append.next
    }

    /// What is done of the next record that is appended.
    enum Append: Hashable {
        case next
        /// The record is whole; the ring's last sequence does not say so yet.
        case filled
        /// The record is reserved.
        case listed
    }

    private static let mostCommits = 2

    func stepsInTurn(of index: Int, _ turn: HandleTurn) -> [Step] {
        var steps: [Step] = []
        if lock == nil, turn.commits.count < Self.mostCommits {
            var world = self
            var turn = turn
            turn.commits.append(commitCount)
            world.commit(record: nil)
            world.writers[index].phase = .inTurn(turn)
            steps.append(Step(name: "\(index) commits in its turn", world: world))
        }
        func end(_ phase: Phase, _ name: String) {
            var world = self
            if case .replacing = phase { world.lock = index }
            if case .ended(_, .committed) = phase { world.commitOfRecord[turn.placeholder] = turn.commits[0] }
            world.writers[index].phase = phase
            steps.append(Step(name: "\(index) ends its turn: \(name)", world: world))
        }
        if counter == turn.start {
            end(.ended(turn.placeholder, .void), "no commit")
        } else if counter &- turn.start != UInt32(turn.commits.count) {
            end(.ended(turn.placeholder, .unsure), "others have committed")
        } else {
            if turn.commits.count == 1 { end(.ended(turn.placeholder, .committed), "one commit, as reserved") }
            let canReplace = lock == nil && last == turn.placeholder && record(last)?.state == .reserved
            end(
                canReplace ? .replacing(turn) : .ended(turn.placeholder, .unsure),
                canReplace ? "its commits are not as reserved" : "others have reserved"
            )
        }
        return steps
    }

    /// The next access to shared memory of a handle that replaces the reserved record.
    func stepOfReplacing(by index: Int, _ turn: HandleTurn) -> Step {
        var world = self
        var turn = turn
        var name: String
        var phase: Phase?
        switch turn.append {
        case .next where turn.replaced == turn.commits.count:
            name = "makes \(turn.placeholder) void"
            world.settle(turn.placeholder, .void)
            world.lock = nil
            phase = .outside
        case .next:
            let sequence = last + 1
            name = "fills record \(sequence)"
            world.records[place(sequence)] = Record(
                sequence: sequence,
                state: .reserved,
                counter: turn.start &+ UInt32(turn.replaced) &+ 1,
                writer: index
            )
            world.commitOfRecord[sequence] = turn.commits[turn.replaced]
            turn.append = .filled
        case .filled:
            world.last += 1
            name = "adds \(world.last)"
            turn.append = .listed
        case .listed:
            name = "publishes \(last)"
            world.settle(last, .committed)
            turn.replaced += 1
            turn.append = .next
        }
        world.writers[index].phase = phase ?? .replacing(turn)
        return Step(name: "\(index) \(name)", world: world)
    }
}
