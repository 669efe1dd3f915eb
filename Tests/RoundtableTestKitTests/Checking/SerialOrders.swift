import RoundtableTestKit

/// Judges a small history by trying all serial orders that agree with real time: slow, and without any of the checker's reasoning.
struct SerialOrders {
    /// What a database contains.
    struct Contents: Hashable {
        var lists: [Int: [Int]] = [:]
        var registers: [Int: Int] = [:]
        var queue: [Int] = []

        /// Runs a step, and returns it with its result.
        mutating func perform(_ step: Step) -> Step {
            switch step {
            case .append(let list, let element):
                lists[list, default: []].append(element)
                return step
            case .list(let list, _): return .list(list, elements: lists[list] ?? [])
            case .write(let register, let value):
                registers[register] = value
                return step
            case .value(let register, _): return .value(register: register, value: registers[register])
            case .enqueue(let item):
                queue.append(item)
                return step
            case .claim: return .claim(item: queue.isEmpty ? nil : queue.removeFirst())
            case .transfer, .balances: return step
            }
        }
    }

    private struct Visited: Hashable {
        var rest: Set<Int>
        var contents: Contents
    }

    private let transactions: [TransactionRecord]
    private var visited: Set<Visited> = []

    /// Whether an order explains the history. A transaction of unknown outcome is in it or not, and a failed one is not.
    static func explain(_ transactions: [TransactionRecord]) -> Bool {
        var orders = SerialOrders(transactions: transactions.filter { $0.outcome != .failed })
        return orders.search(Set(orders.transactions.indices), Contents())
    }

    private init(transactions: [TransactionRecord]) { self.transactions = transactions }

    private mutating func search(_ rest: Set<Int>, _ contents: Contents) -> Bool {
        let due = rest.filter { transactions[$0].outcome == .committed }
        if due.isEmpty { return true }
        guard visited.insert(Visited(rest: rest, contents: contents)).inserted else { return false }
        let deadline = due.map { transactions[$0].ended ?? .max }.min()!
        for next in rest where transactions[next].began <= deadline {
            var after = contents
            let results = transactions[next].steps.map { after.perform($0) }
            guard transactions[next].outcome == .unknown || results == transactions[next].steps else { continue }
            if search(rest.subtracting([next]), after) { return true }
        }
        return false
    }
}

/// Makes small histories of a database that is right most of the time.
struct RandomHistories {
    /// The kinds of steps.
    enum Content: String, CaseIterable, Sendable {
        case lists
        case registers
        /// One step a transaction.
        case singleRegisters
        case queue
        case singleQueue
        case mixed
    }

    private typealias Contents = SerialOrders.Contents

    let content: Content
    var generator: SeededGenerator
    private var unique = 0

    init(_ content: Content, seed: UInt64) {
        self.content = content
        generator = SeededGenerator(seed: seed)
    }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    private mutating func step() -> Step {
        unique += 1
        let object = Int.random(in: 0..<2, using: &generator)
        let kinds: Range<Int> =
            switch content {
            case .lists: 0..<2
            case .registers, .singleRegisters: 2..<4
            case .queue, .singleQueue: 4..<6
            case .mixed: 0..<6
            }
        return switch Int.random(in: kinds, using: &generator) {
        case 0: .append(list: object, element: unique)
        case 1: .list(object)
        case 2: .write(register: object, value: unique)
        case 3: .value(register: object)
        case 4: .enqueue(item: unique)
        default: .claim()
        }
    }

    /// - parameter faults: the percentage of transactions that read an old state, lose some of their writes, or leave a shuffled list.
    mutating func next(faults: Int) -> [TransactionRecord] {
        var states = [Contents()]
        var transactions: [TransactionRecord] = []
        var moment: Int64 = 100
        let isSingle = content == .singleRegisters || content == .singleQueue
        for number in 0..<Int.random(in: 3...6, using: &generator) {
            let planned = (0..<(isSingle ? 1 : Int.random(in: 1...3, using: &generator))).map { _ in step() }
            let kind = Int.random(in: 0..<10, using: &generator)
            moment += Int64.random(in: 1...10, using: &generator)
            let began = moment - Int64.random(in: 0...15, using: &generator)
            let ended = moment + Int64.random(in: 0...15, using: &generator)
            let outcome: TransactionRecord.Outcome = kind == 0 ? .failed : kind <= 2 ? .unknown : .committed
            var contents = chance(faults) ? states.randomElement(using: &generator)! : states.last!
            let results = planned.map { contents.perform($0) }
            transactions.append(
                TransactionRecord(
                    worker: number,
                    index: 0,
                    began: began,
                    ended: outcome == .unknown ? nil : ended,
                    outcome: outcome,
                    steps: outcome == .committed ? results : planned
                )
            )
            states.append(after(planned, outcome, states.last!, faults: faults))
        }
        if chance(80) {
            let committed = states.last!
            var steps: [Step] = (0..<2).map { .list($0, elements: committed.lists[$0] ?? []) }
            steps += (0..<2).map { .value(register: $0, value: committed.registers[$0]) }
            steps += committed.queue.map { .claim(item: $0) } + [.claim()]
            transactions.append(
                TransactionRecord(worker: 99, index: 0, began: moment + 50, ended: moment + 60, steps: steps)
            )
        }
        return transactions.shuffled(using: &generator)
    }

    /// What a transaction leaves.
    private mutating func after(
        _ steps: [Step],
        _ outcome: TransactionRecord.Outcome,
        _ before: Contents,
        faults: Int
    ) -> Contents {
        let isThere = outcome == .committed || outcome == .unknown && chance(50)
        guard isThere || chance(faults / 4) else { return before }
        let isPartial = chance(faults)
        var contents = before
        for step in steps where !isPartial || chance(50) { _ = contents.perform(step) }
        if chance(faults / 4) { contents.lists[0]?.shuffle(using: &generator) }
        if chance(faults / 4) { contents.queue.shuffle(using: &generator) }
        return contents
    }
}
