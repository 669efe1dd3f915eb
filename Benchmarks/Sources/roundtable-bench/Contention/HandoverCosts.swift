/// What it costs that the next transaction is another process's, and where that time goes. The parts add up to all the time that commits took
/// beyond that of warm ones.
///
/// A turn is what one process commits in a row. Its first commits take longer, because the caches are cold.
struct HandoverCosts {
    /// Where the time goes.
    enum Part: String, CaseIterable {
        /// From the last commit of one process until the first transaction of the next one has begun, with what that commit took longer.
        case handover = "handover_us"
        /// The first transaction, from its begin.
        case first = "1st_us"
        case second = "2nd_us"
        case thirdTo32nd = "3rd_to_32nd_us"
        case later = "later_us"
        /// Whatever took longer than half a millisecond: checkpoints within a turn, syncs, other programs.
        case stalls = "stalls_us"

        /// - parameter place: in the turn, from 2 on.
        init(place: Int) { self = place == 2 ? .second : place <= HandoverCosts.coldCommits ? .thirdTo32nd : .later }
    }

    private struct Transaction {
        let process: Int
        let began: Nanoseconds
        var ended: Nanoseconds
    }

    /// Of a turn, so many commits may be slower because of the handover.
    private static let coldCommits = 32
    private static let stall: Nanoseconds = 500_000

    /// From the end of one commit to the end of the next one, in the same turn, when the caches are warm (median).
    private var warm: Nanoseconds = 0
    /// How long the transaction takes of this.
    private var warmTransaction: Nanoseconds = 0
    private var handovers = 0
    private var lost: [Part: Double] = [:]
    /// Each handover with the first transaction after it.
    private var untilFirst: [Nanoseconds] = []

    /// - parameter trials: of one side, with the times of all commits of some of their time.
    init(_ trials: [Trial]) {
        let trials = trials.map { Self.transactions($0.results.map(\.holds), until: $0.end) }
        var periods: [Nanoseconds] = []
        var durations: [Nanoseconds] = []
        for transactions in trials {
            Self.visit(transactions) { place, transaction, before, _ in
                guard place > Self.coldCommits else { return }
                periods.append(transaction.ended - before.ended)
                durations.append(transaction.ended - transaction.began)
            }
        }
        guard let warm = periods.percentile(0.5), let warmTransaction = durations.percentile(0.5) else { return }
        (self.warm, self.warmTransaction) = (warm, warmTransaction)
        for transactions in trials {
            Self.visit(transactions) { place, transaction, before, isLast in
                if place == 1 {
                    handovers += 1
                    untilFirst.append(transaction.ended - before.ended)
                    add(transaction.began - before.ended, beyond: warm - warmTransaction, to: .handover)
                    add(transaction.ended - transaction.began, beyond: warmTransaction, to: .first)
                } else {
                    add(transaction.ended - before.ended, beyond: warm, to: isLast ? .handover : Part(place: place))
                }
            }
        }
    }

    private mutating func add(_ time: Nanoseconds, beyond warm: Nanoseconds, to part: Part) {
        lost[time > Self.stall ? .stalls : part, default: 0] += Double(time) - Double(warm)
    }

    /// Calls a closure with each transaction but the first: its place in its turn, counted from 1; the transaction before; and whether the next
    /// one is another process's.
    private static func visit(_ transactions: [Transaction], _ body: (Int, Transaction, Transaction, Bool) -> Void) {
        var place = 1
        for index in transactions.indices.dropFirst() {
            let (transaction, before) = (transactions[index], transactions[index - 1])
            place = transaction.process == before.process ? place + 1 : 1
            let next = index + 1 < transactions.count ? transactions[index + 1].process : transaction.process
            body(place, transaction, before, next != transaction.process)
        }
    }

    /// Of all processes, in the order of the commits.
    ///
    /// - Parameters:
    ///   - holds: of each process: when a transaction began, when its commit returned, and so on.
    ///   - end: when no process begins another one.
    private static func transactions(_ holds: [[Nanoseconds]], until end: Nanoseconds) -> [Transaction] {
        var transactions: [Transaction] = []
        for (process, times) in holds.enumerated() {
            for index in stride(from: 0, to: times.count - 1, by: 2) where times[index] < end {
                transactions.append(Transaction(process: process, began: times[index], ended: times[index + 1]))
            }
        }
        // A transaction begins inside SQLite's write lock, so beginnings are in the order of the commits.
        transactions.sort { $0.began < $1.began }
        // A commit may return after the next process's transaction has begun, which wants the same processor.
        for index in transactions.indices.dropLast() {
            transactions[index].ended = min(transactions[index].ended, transactions[index + 1].began)
        }
        return transactions
    }

    /// Of one handover (mean), in microseconds.
    var figures: Figures {
        let count = Double(max(handovers, 1)) * 1e3
        var figures: Figures = [
            "warm_us": warm.microseconds, "handovers": Double(handovers), "lost_us": lost.values.reduce(0, +) / count,
        ]
        for part in Part.allCases { figures.set(part.rawValue, lost[part, default: 0] / count) }
        figures.set("until_1st_p50_us", (untilFirst.percentile(0.5) ?? 0).microseconds)
        return figures
    }
}
