/// Something in a recorded history that a correct database does not do.
public struct Anomaly: Sendable, Hashable, CustomStringConvertible {
    /// The classes of anomalies. Those of isolation are Adya's (Weak Consistency, MIT 1999).
    public enum Kind: String, Sendable, Codable, CaseIterable {
        /// An acknowledged write is in no read that began after it.
        case lostWrite
        /// A write shows twice.
        case duplicatedWrite
        /// Two reads show the same writes in different orders, or writes are ordered against real time.
        case reorderedWrites
        /// A read shows what no transaction wrote.
        case inventedValue
        /// Writes of two transactions interleave.
        case dirtyWrite
        /// A read shows a write of a transaction that was rolled back.
        case abortedRead
        /// A read shows a state in the middle of another transaction.
        case intermediateRead
        /// Two transactions read each other's writes (circular information flow), so at least one was read before it committed.
        case dirtyRead
        /// One transaction reads the same object twice and finds different states.
        case nonRepeatableRead
        /// A transaction does not read what it wrote itself.
        case ownWriteMissed
        /// A transaction reads what it wrote itself only afterwards.
        case futureRead
        /// A read shows one write of a transaction and misses another of the same transaction.
        case fracturedRead
        /// Two transactions read the same state and both replace it.
        case lostUpdate
        /// A transaction reads states of different moments.
        case readSkew
        /// Transactions each read what another one then changes.
        case writeSkew
        /// A read misses a write that was acknowledged before the read began.
        case staleRead
        /// Another cycle over real time.
        case realTimeCycle
        /// The balances of a bank do not have the sum that they always have.
        case wrongTotal
        /// An acknowledged item was never claimed, although the queue became empty.
        case lostItem
        /// An item was claimed twice.
        case claimedTwice
        /// Items were claimed in another order than they were enqueued, as far as that order is known.
        case reorderedItems
    }

    public var kind: Kind
    /// What was found, with the transactions that show it: several lines.
    public var explanation: String

    public var description: String { "\(kind.name): \(explanation)" }
}

extension Anomaly.Kind {
    /// The name in words, such as `lost update`.
    public var name: String {
        rawValue.reduce(into: "") { $0 += $1.isUppercase ? " " + $1.lowercased() : String($1) }
    }
}

/// The result of checking a history.
public struct CheckReport: Sendable, CustomStringConvertible {
    /// The number of transactions by outcome, as recorded.
    public var committed = 0
    public var failed = 0
    public var unknown = 0
    /// Acknowledged writes that no later read could show, because there was none: nothing is known about them.
    public var unverified = 0
    /// The anomalies, at most ``HistoryChecker/limit`` of each kind.
    public var anomalies: [Anomaly] = []
    /// The number of anomalies of each kind, also of those that are left out. Of a group of transactions that form cycles, only the
    /// shortest cycles of the first class are counted.
    public var counts: [Anomaly.Kind: Int] = [:]

    public var transactions: Int { committed + failed + unknown }
    /// Whether something was checked, and no anomaly found. Without a committed transaction, nothing is checked.
    public var isClean: Bool { counts.isEmpty && committed > 0 }

    public var description: String {
        let total =
            "\(transactions) transactions: \(committed) committed, \(failed) failed, \(unknown) of unknown outcome"
        let unverified = unverified == 0 ? "" : "; \(unverified) acknowledged writes without a later read"
        guard !counts.isEmpty else {
            let result = isClean ? "no anomaly" : "NOTHING WAS CHECKED, because no transaction was committed"
            return "\(total)\(unverified); \(result)"
        }
        let found = counts.sorted { $0.key.rawValue < $1.key.rawValue }.map { "\($0.value) × \($0.key.name)" }
        return (["\(total)\(unverified); \(found.joined(separator: ", "))"] + anomalies.map(\.description))
            .joined(separator: "\n\n")
    }
}
