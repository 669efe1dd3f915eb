/// The order that a history requires of its transactions: an edge means "before, in every serial order that explains the history".
///
/// Real time is a chain of moments, one for each end of a transaction: a transaction leads to the moment of its end, each moment to the
/// next, and the last moment before the begin of a transaction leads to that transaction. So there are three edges a transaction for
/// real time, and not one for each pair.
struct DependencyGraph {
    /// The reason of an edge.
    enum Kind: UInt8 {
        /// The second transaction replaced what the first one wrote.
        case writeWrite = 1
        /// The second transaction read what the first one wrote.
        case writeRead = 2
        /// The first transaction read what the second one then replaced.
        case readWrite = 4
        /// The first transaction ended before the second one began.
        case realTime = 8
        /// As `writeWrite` and `readWrite`, and only the times of other transactions tell it.
        case timedWriteWrite = 16
        case timedReadWrite = 32
    }

    struct Edge {
        var from: Int32
        var to: Int32
        var kind: Kind
        /// The object, as an index of `HistoryChecker`'s; -1 for real time.
        var object: Int32
        /// The element or value that the edge is about.
        var value: Int
    }

    /// The number of nodes that are transactions. Moments, and other nodes between transactions, follow.
    let transactions: Int
    private(set) var nodes: Int
    private(set) var edges: [Edge] = []
    /// The place in `sorted` of the first edge of each node.
    private var firsts: [Int32] = []
    private var sorted: [Int32] = []

    init(transactions: Int) {
        self.transactions = transactions
        nodes = transactions
    }

    mutating func add(_ kind: Kind, from: Int, to: Int, object: Int32 = -1, value: Int = 0) {
        guard from != to else { return }
        edges.append(Edge(from: Int32(from), to: Int32(to), kind: kind, object: object, value: value))
    }

    /// Adds a node that stands between transactions, and is none itself.
    mutating func addNode() -> Int {
        nodes += 1
        return nodes - 1
    }

    /// - parameter times: when each transaction began, and when it ended or `Int64.max`.
    mutating func addRealTime(_ times: [(began: Int64, ended: Int64)]) {
        let byEnd = times.indices.filter { times[$0].ended != .max }.sorted { times[$0].ended < times[$1].ended }
        let byBegin = times.indices.sorted { times[$0].began < times[$1].began }
        let base = nodes
        nodes += byEnd.count
        for (moment, transaction) in byEnd.enumerated() {
            add(.realTime, from: transaction, to: base + moment)
            if moment > 0 { add(.realTime, from: base + moment - 1, to: base + moment) }
        }
        var passed = 0
        for transaction in byBegin {
            while passed < byEnd.count, times[byEnd[passed]].ended < times[transaction].began { passed += 1 }
            if passed > 0 { add(.realTime, from: base + passed - 1, to: transaction) }
        }
    }

    /// Sorts the edges by their first node. Call it once, when all edges are there.
    mutating func finish() {
        firsts = [Int32](repeating: 0, count: nodes + 1)
        for edge in edges { firsts[Int(edge.from) + 1] += 1 }
        for node in 0..<nodes { firsts[node + 1] += firsts[node] }
        var next = firsts
        sorted = [Int32](repeating: 0, count: edges.count)
        for (index, edge) in edges.enumerated() {
            sorted[Int(next[Int(edge.from)])] = Int32(index)
            next[Int(edge.from)] += 1
        }
    }

    private func edges(of node: Int32) -> Range<Int32> { firsts[Int(node)]..<firsts[Int(node) + 1] }

    // MARK: Cycles

    /// The strongly connected components of more than one node, by Tarjan's algorithm without recursion.
    ///
    /// - Parameters:
    ///   - kinds: the edges that count, as a sum of raw values.
    ///   - component: the nodes that count; nil for all.
    func components(_ kinds: UInt8, within component: Set<Int32>? = nil) -> [[Int32]] {
        var found: [[Int32]] = []
        // 0 while a node was not visited.
        var order = component == nil ? [Int32](repeating: 0, count: nodes) : []
        var sparseOrder: [Int32: Int32] = [:]
        func visited(_ node: Int32) -> Int32 { component == nil ? order[Int(node)] : sparseOrder[node, default: 0] }
        var low: [Int32] = component == nil ? [Int32](repeating: 0, count: nodes) : []
        var sparseLow: [Int32: Int32] = [:]
        let gone = Int32.max
        var counter: Int32 = 0
        var open: [Int32] = []
        var path: [(node: Int32, next: Int32)] = []

        func setLow(_ node: Int32, _ value: Int32) {
            if component == nil { low[Int(node)] = value } else { sparseLow[node] = value }
        }
        func lowest(_ node: Int32) -> Int32 { component == nil ? low[Int(node)] : sparseLow[node, default: 0] }
        func enter(_ node: Int32) {
            counter += 1
            if component == nil { order[Int(node)] = counter } else { sparseOrder[node] = counter }
            setLow(node, counter)
            open.append(node)
            path.append((node, firsts[Int(node)]))
        }
        let roots = component.map { $0.sorted() } ?? Array(0..<Int32(nodes))
        for root in roots where visited(root) == 0 {
            enter(root)
            while let (node, place) = path.last {
                if place < firsts[Int(node) + 1] {
                    path[path.count - 1].next += 1
                    let edge = edges[Int(sorted[Int(place)])]
                    guard edge.kind.rawValue & kinds != 0, component?.contains(edge.to) ?? true else { continue }
                    if visited(edge.to) == 0 {
                        enter(edge.to)
                    } else if lowest(edge.to) != gone {
                        setLow(node, min(lowest(node), visited(edge.to)))
                    }
                    continue
                }
                path.removeLast()
                if let parent = path.last { setLow(parent.node, min(lowest(parent.node), lowest(node))) }
                guard lowest(node) == visited(node) else { continue }
                var members: [Int32] = []
                while let last = open.popLast() {
                    setLow(last, gone)
                    members.append(last)
                    if last == node { break }
                }
                if members.count > 1 { found.append(members) }
            }
        }
        return found
    }

    /// The shortest cycle through one of the transactions of a component, as edges; the nodes between transactions are not counted.
    ///
    /// - parameter tries: the number of transactions to begin from.
    func shortestCycle(_ kinds: UInt8, within component: Set<Int32>, tries: Int = 200) -> [Edge]? {
        var best: [Edge]?
        for start in component.sorted().prefix(tries) where start < transactions {
            guard let cycle = cycle(through: start, kinds, component) else { continue }
            if best.map({ length(cycle) < length($0) }) ?? true { best = cycle }
            if let best, length(best) == 2 { break }
        }
        return best
    }

    /// The number of transactions of a cycle.
    private func length(_ cycle: [Edge]) -> Int { cycle.count { $0.from < transactions } }

    /// Searches in rounds, one for each transaction of the cycle: a round follows edges from nodes between transactions without counting them. What the next
    /// round begins with may still be reached in this one.
    private func cycle(through start: Int32, _ kinds: UInt8, _ component: Set<Int32>) -> [Edge]? {
        var arrivals: [Int32: Int32] = [:]
        var round = [start]
        while !round.isEmpty {
            var next: [Int32] = []
            var place = 0
            while place < round.count {
                let node = round[place]
                place += 1
                for index in edges(of: node) {
                    let number = sorted[Int(index)]
                    let edge = edges[Int(number)]
                    guard edge.kind.rawValue & kinds != 0, component.contains(edge.to), arrivals[edge.to] == nil
                    else { continue }
                    if node < transactions {
                        next.append(number)
                        continue
                    }
                    arrivals[edge.to] = number
                    if edge.to == start { return way(to: start, arrivals) }
                    round.append(edge.to)
                }
            }
            round = []
            for number in next {
                let node = edges[Int(number)].to
                guard arrivals[node] == nil else { continue }
                arrivals[node] = number
                if node == start { return way(to: start, arrivals) }
                round.append(node)
            }
        }
        return nil
    }

    private func way(to start: Int32, _ arrivals: [Int32: Int32]) -> [Edge] {
        var way: [Edge] = []
        var node = start
        repeat {
            let edge = edges[Int(arrivals[node]!)]
            way.append(edge)
            node = edge.from
        } while node != start
        return way.reversed()
    }
}
