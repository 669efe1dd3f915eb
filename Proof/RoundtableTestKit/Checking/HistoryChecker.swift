/// Checks what several workers recorded of one database, against strict serializability.
///
/// The method is that of Elle (Kingsbury and Alvaro, VLDB 2020). Lists that are appended to show the order of their writes to
/// every reader, and registers that are read and then written in one transaction show which value replaced which. From this follows which
/// transaction must come before which other one, by writes, by reads, and by real time. A history has an explanation if these
/// requirements have no cycle. The time that a check takes grows with the size of the history, not with its square.
///
/// A transaction of unknown outcome counts as committed if a committed one read a write of it.
///
/// A history may mix lists, registers, a bank and a queue. The check is pure: it opens no database and starts no process.
public struct HistoryChecker {
    /// The largest number of anomalies of each kind that a report explains.
    public static let limit = 3

    /// What transactions read and write.
    enum Object: Hashable {
        case list(Int)
        case register(Int)
        case queue

        var name: String {
            switch self {
            case .list(let key): "list \(key)"
            case .register(let key): "register \(key)"
            case .queue: "the queue"
            }
        }
    }

    let history: RecordedHistory
    var report = CheckReport()
    var graph: DependencyGraph
    private var numbers: [Object: Int32] = [:]
    private(set) var objects: [Object] = []
    let start: Int64
    /// Whether the writes of each transaction are certainly there: it was acknowledged, or somebody read one of them.
    var hasEffect: [Bool]
    /// When each of these transactions had been committed at the latest; `Int64.max` if nobody knows.
    var ends: [Int64]

    /// Checks a history.
    public static func check(_ history: RecordedHistory) -> CheckReport {
        var checker = HistoryChecker(history)
        checker.count()
        checker.findWitnesses()
        checker.checkBank()
        checker.checkQueue()
        checker.addLists()
        checker.addRegisters()
        checker.addTimes()
        checker.findCycles()
        return checker.report
    }

    private init(_ history: RecordedHistory) {
        self.history = history
        graph = DependencyGraph(transactions: history.transactions.count)
        start = history.start
        hasEffect = history.transactions.map(\.isCommitted)
        ends = history.transactions.map { $0.isCommitted ? $0.ended ?? .max : .max }
    }

    private mutating func count() {
        for transaction in history.transactions {
            switch transaction.outcome {
            case .committed: report.committed += 1
            case .failed: report.failed += 1
            case .unknown: report.unknown += 1
            }
        }
    }

    mutating func number(of object: Object) -> Int32 {
        if let number = numbers[object] { return number }
        let number = Int32(objects.count)
        numbers[object] = number
        objects.append(object)
        return number
    }

    // MARK: Reporting

    mutating func found(_ kind: Anomaly.Kind, _ what: @autoclosure () -> String, _ involved: [Int] = []) {
        report.counts[kind, default: 0] += 1
        guard report.counts[kind, default: 0] <= Self.limit else { return }
        let lines = involved.map { "\n  " + text(of: $0) }
        report.anomalies.append(Anomaly(kind: kind, explanation: what() + lines.joined()))
    }

    func text(of transaction: Int) -> String { history.transactions[transaction].description(since: start) }

    // MARK: Cycles

    /// Each of these readers is before each of these writers, other than itself.
    ///
    /// One node stands between them, so the number of edges does not grow with the product.
    ///
    /// - parameter writers: what each of them wrote.
    mutating func addReads(_ readers: [Int], before writers: [Int: Int], _ object: Int32) {
        guard !readers.isEmpty, !writers.isEmpty else { return }
        let node = graph.addNode()
        for reader in readers { graph.add(.readWrite, from: reader, to: node, object: object) }
        let both = Set(readers.filter { writers[$0] != nil }).sorted()
        for (writer, value) in writers.sorted(by: { $0.key < $1.key }) where !both.contains(writer) {
            graph.add(.readWrite, from: node, to: writer, object: object, value: value)
        }
        guard let first = both.first else { return }
        for reader in readers { graph.add(.readWrite, from: reader, to: first, object: object, value: writers[first]!) }
        // Two of them are a cycle already, so the others need no edges.
        if both.count > 1 {
            graph.add(.readWrite, from: first, to: both[1], object: object, value: writers[both[1]]!)
        }
    }

    private mutating func addTimes() {
        let times = history.transactions.map { transaction in
            // What failed, or was cut off, may have ended at any time. A witness of it is behind an edge.
            (began: transaction.began, ended: transaction.isCommitted ? transaction.ended ?? .max : .max)
        }
        graph.addRealTime(times)
        graph.finish()
    }

    private mutating func findCycles() {
        let all: UInt8 = 1 | 2 | 4 | 8 | 16 | 32
        for component in graph.components(all) {
            // The fewest kinds of edges that make a cycle name its class.
            for kinds in [1, 1 | 2, 1 | 2 | 4, all] as [UInt8] {
                let parts = graph.components(kinds, within: Set(component))
                for part in parts {
                    guard let cycle = graph.shortestCycle(kinds, within: Set(part)) else { continue }
                    let explanation = explanation(of: cycle)
                    found(kind(of: cycle), explanation)
                }
                if !parts.isEmpty { break }
            }
        }
    }

    private func kind(of cycle: [DependencyGraph.Edge]) -> Anomaly.Kind {
        // What leads on from a node between transactions has the kind of what leads there.
        let cycle = cycle.filter { Int($0.from) < graph.transactions }
        func count(_ kind: DependencyGraph.Kind) -> Int { cycle.count { $0.kind == kind } }
        let (writes, reads) = (count(.writeWrite), count(.writeRead))
        let missed = count(.readWrite) + count(.timedReadWrite)
        if count(.realTime) + count(.timedWriteWrite) + count(.timedReadWrite) > 0 {
            if missed == 1 { return .staleRead }
            return missed == 0 && reads == 0 ? .reorderedWrites : .realTimeCycle
        }
        switch (writes, reads, missed) {
        case (_, 0, 0): return .dirtyWrite
        case (_, _, 0): return .dirtyRead
        case (1, 0, 1) where cycle[0].object == cycle[1].object: return .lostUpdate
        case (0, 0, 2) where cycle[0].object == cycle[1].object: return .lostUpdate
        case (0, 1, 1): return .fracturedRead
        case (_, _, 1): return .readSkew
        default: return .writeSkew
        }
    }

    private func explanation(of cycle: [DependencyGraph.Edge]) -> String {
        // The nodes between transactions are left out: the edges from one transaction to the next one become one.
        var steps: [(from: Int, to: Int, edge: DependencyGraph.Edge)] = []
        for edge in cycle {
            if Int(edge.from) < graph.transactions {
                steps.append((Int(edge.from), Int(edge.to), edge))
            } else if !steps.isEmpty {
                steps[steps.count - 1].to = Int(edge.to)
                if edge.kind != .realTime { steps[steps.count - 1].edge.value = edge.value }
            }
        }
        let names = Dictionary(uniqueKeysWithValues: steps.enumerated().map { ($0.element.from, "T\($0.offset + 1)") })
        var lines = steps.map { "  \(names[$0.from]!) = \(text(of: $0.from))" }
        for step in steps {
            let (one, other) = (names[step.from]!, names[step.to] ?? "?")
            lines.append("  \(one) is before \(other), because \(reason(one, other, step.edge))")
        }
        return "no order explains these transactions\n" + lines.joined(separator: "\n")
    }

    private func reason(_ one: String, _ other: String, _ edge: DependencyGraph.Edge) -> String {
        let object = edge.object < 0 ? "" : objects[Int(edge.object)].name
        return switch edge.kind {
        case .writeWrite, .timedWriteWrite: "\(other) wrote \(edge.value) to \(object) after what \(one) wrote"
        case .writeRead: "\(other) read \(edge.value) of \(object), which \(one) wrote"
        case .readWrite, .timedReadWrite: "\(one) read \(object) without \(edge.value), which \(other) wrote"
        case .realTime: "\(one) had returned when \(other) began"
        }
    }
}
