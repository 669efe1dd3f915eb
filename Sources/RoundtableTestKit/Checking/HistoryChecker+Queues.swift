/// The bank, whose total never changes, and the queue, which gives each item once.
extension HistoryChecker {
    mutating func checkBank() {
        for (number, transaction) in history.transactions.enumerated() where transaction.isCommitted {
            for case .balances(let balances, let total) in transaction.steps {
                let sum = balances.reduce(0, &+)
                if sum != total { found(.wrongTotal, "the balances sum to \(sum) instead of \(total)", [number]) }
            }
        }
    }

    mutating func checkQueue() {
        var enqueued: [Int: Int] = [:]
        var claimed: [Int: Int] = [:]
        /// Items and claims of transactions whose end is not known.
        var openClaims = 0
        var lastEmpty = Int64.min
        var emptyClaim = -1
        for (number, transaction) in history.transactions.enumerated() {
            for step in transaction.steps {
                switch step {
                case .enqueue(let item): enqueued[item] = number
                case .claim(let item?) where transaction.isCommitted:
                    if let other = claimed[item] {
                        found(.claimedTwice, "item \(item) was claimed twice", [other, number])
                    }
                    claimed[item] = number
                case .claim(nil) where transaction.isCommitted:
                    if transaction.began > lastEmpty { (lastEmpty, emptyClaim) = (transaction.began, number) }
                case .claim where transaction.outcome == .unknown: openClaims += 1
                default: break
                }
            }
        }
        for (item, claim) in claimed.sorted(by: { $0.key < $1.key }) {
            guard let enqueue = enqueued[item] else {
                found(.inventedValue, "item \(item) was claimed, and no transaction enqueued it", [claim])
                continue
            }
            if history.transactions[enqueue].outcome == .failed {
                found(.abortedRead, "item \(item) was claimed, and its enqueueing was rolled back", [enqueue, claim])
            }
        }
        checkItems(enqueued, claimed, openClaims: openClaims, lastEmpty: lastEmpty, emptyClaim: emptyClaim)
        checkOrder(enqueued, claimed)
    }

    private mutating func checkItems(
        _ enqueued: [Int: Int],
        _ claimed: [Int: Int],
        openClaims: Int,
        lastEmpty: Int64,
        emptyClaim: Int
    ) {
        let missing = enqueued.filter { item, number in
            let transaction = history.transactions[number]
            return transaction.isCommitted && (transaction.ended ?? .max) < lastEmpty && claimed[item] == nil
        }
        // A claim that was cut off may have taken one item each.
        guard missing.count > openClaims else { return }
        let rest = openClaims == 0 ? "" : " (\(missing.count) such items, and \(openClaims) claims that were cut off)"
        for (item, number) in missing.sorted(by: { $0.key < $1.key }) {
            found(
                .lostItem,
                "item \(item) was never claimed, and the queue was empty later\(rest)",
                [number, emptyClaim]
            )
        }
    }

    /// Items of one producer are claimed in the order in which they were enqueued, as far as real time tells.
    private mutating func checkOrder(_ enqueued: [Int: Int], _ claimed: [Int: Int]) {
        let items = enqueued.filter { claimed[$0.key] != nil }.sorted { $0.value < $1.value }
        for producer in Dictionary(grouping: items, by: { history.transactions[$0.value].worker }).values {
            let sorted = producer.sorted { history.transactions[$0.value].began < history.transactions[$1.value].began }
            // The claim, of the items so far, that began last.
            var latest: (item: Int, began: Int64)?
            for (item, _) in sorted {
                let claim = history.transactions[claimed[item]!]
                if let latest, let ended = claim.ended, ended < latest.began {
                    let what =
                        "item \(item) was claimed before item \(latest.item), which its producer enqueued earlier"
                    found(.reorderedItems, what, [claimed[latest.item]!, claimed[item]!])
                }
                if latest.map({ claim.began > $0.began }) ?? true { latest = (item, claim.began) }
            }
        }
    }
}
