import RoundtableKernel

// Rule M5a: The line of code of a closure that has ended its transaction, for a reason of its own, is remembered: the last 64 of a
// participant. Its writes have a transaction of their own from then on.

/// The lines of code whose closures have ended a transaction, by `ROLLBACK`, `ON CONFLICT ROLLBACK` or the like. Their writes share no
/// transaction, because they would take the parts of others with them (rule M5a).
struct TransactionEndings {
    /// A program has few such lines. One that is forgotten is found again, at the price of one more transaction.
    static let capacity = 64

    private var sites: [CallSite] = []
    /// The place of the oldest site, when all are taken.
    private var oldest = 0

    func contains(_ site: CallSite) -> Bool { sites.contains { CallSite.areSame($0, site) } }

    mutating func insert(_ site: CallSite) {
        if contains(site) { return }
        if sites.count < Self.capacity { return sites.append(site) }
        sites[oldest] = site
        oldest = (oldest + 1) % Self.capacity
    }
}
