import RoundtableKernel

// Rule M5a: The line of code of a closure that has ended its transaction, for a reason of its own, is remembered: the last 64 of a
// participant. Its writes have a transaction of their own from then on.

/// The lines of code whose closures have ended a transaction, by `ROLLBACK`, `ON CONFLICT ROLLBACK` or the like. Their writes share no
/// transaction, because they would take the parts of others with them (rule M5a).
struct TransactionEndings {
    /// A program has few such lines. One that is forgotten is found again, at the price of one more transaction.
    static let capacity = 64

    /// The oldest comes first.
    private var sites: [CallSite] = []

    func contains(_ site: CallSite) -> Bool { sites.contains(site) }

    mutating func insert(_ site: CallSite) {
        if contains(site) { return }
        if sites.count == Self.capacity { sites.removeFirst() }
        sites.append(site)
    }
}
