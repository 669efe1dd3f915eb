/// The bank, whose total never changes, and the queue, which gives each item once, the oldest first.
extension HistoryChecker {
    mutating func checkBank() {
        for (number, transaction) in history.transactions.enumerated() where transaction.isCommitted {
            for case .balances(let balances, let total) in transaction.steps {
                let sum = balances.reduce(0, &+)
                if sum != total { found(.wrongTotal, "the balances sum to \(sum) instead of \(total)", [number]) }
            }
        }
    }

    /// Where a step is.
    private struct Place {
        var transaction: Int
        var step: Int
    }

    /// All that is known of the queue.
    private struct Observed {
        var enqueued: [Int: Place] = [:]
        var claimed: [Int: Place] = [:]
        /// The transactions that found the queue empty.
        var empty: [Int] = []
        /// The claims of transactions of unknown outcome: each may have taken one item.
        var openClaims = 0
    }

    mutating func checkQueue() {
        var queue = Observed()
        for (number, transaction) in history.transactions.enumerated() { collect(transaction, number, &queue) }
        guard !queue.enqueued.isEmpty || !queue.claimed.isEmpty else { return }
        let object = self.number(of: .queue)
        for (item, claim) in queue.claimed.sorted(by: { $0.key < $1.key }) {
            guard let enqueue = queue.enqueued[item]?.transaction else {
                let what = "item \(item) was claimed, and no transaction enqueued it"
                found(.inventedValue, what, [claim.transaction])
                continue
            }
            guard history.transactions[enqueue].outcome != .failed else {
                let what = "item \(item) was claimed, and its enqueueing was rolled back"
                found(.abortedRead, what, [enqueue, claim.transaction])
                continue
            }
            graph.add(.writeRead, from: enqueue, to: claim.transaction, object: object, value: item)
        }
        let lost = checkItems(queue)
        let items = items(of: queue, without: lost)
        checkEmptyClaims(queue, items)
        checkOrder(items)
    }

    private mutating func collect(_ transaction: TransactionRecord, _ number: Int, _ queue: inout Observed) {
        /// The items that the transaction itself has enqueued and not claimed so far.
        var own: Set<Int> = []
        var wasEmpty = false
        for (place, step) in transaction.steps.enumerated() {
            switch step {
            case .enqueue(let item):
                if queue.claimed[item]?.transaction == number {
                    found(.futureRead, "item \(item) was claimed by what enqueued it only afterwards", [number])
                }
                queue.enqueued[item] = Place(transaction: number, step: place)
                own.insert(item)
            case .claim(let item?) where transaction.isCommitted:
                if let other = queue.claimed[item] {
                    found(.claimedTwice, "item \(item) was claimed twice", [other.transaction, number])
                }
                queue.claimed[item] = Place(transaction: number, step: place)
                if own.remove(item) == nil, wasEmpty {
                    let what = "item \(item) was claimed after the same transaction had found the queue empty"
                    found(.nonRepeatableRead, what, [number])
                }
            case .claim(nil) where transaction.isCommitted:
                if let item = own.min() {
                    let what = "the queue was found empty by the transaction that had enqueued item \(item)"
                    found(.ownWriteMissed, what, [number])
                }
                wasEmpty = true
                queue.empty.append(number)
            case .claim where transaction.outcome == .unknown: queue.openClaims += 1
            default: break
            }
        }
    }

    /// Whether all items have been claimed when the queue was empty.
    ///
    /// - returns: the items that were reported.
    private mutating func checkItems(_ queue: Observed) -> Set<Int> {
        guard let emptyClaim = queue.empty.max(by: { history.transactions[$0].began < history.transactions[$1].began })
        else { return [] }
        let lastEmpty = history.transactions[emptyClaim].began
        let missing = queue.enqueued.filter { item, enqueue in
            hasEffect[enqueue.transaction] && ends[enqueue.transaction] < lastEmpty && queue.claimed[item] == nil
        }
        // A claim that was cut off may have taken one item each.
        guard missing.count > queue.openClaims else { return [] }
        let rest =
            queue.openClaims == 0
            ? "" : " (\(missing.count) such items, and \(queue.openClaims) claims that were cut off)"
        for (item, enqueue) in missing.sorted(by: { $0.key < $1.key }) {
            found(
                .lostItem,
                "item \(item) was never claimed, and the queue was empty later\(rest)",
                [enqueue.transaction, emptyClaim]
            )
        }
        return Set(missing.keys)
    }

    // MARK: Order

    /// An item that is certainly enqueued, with what is known of its times.
    private struct Item {
        var number: Int
        var enqueue: Place
        /// nil if it was never claimed.
        var claim: Place?
        var enqueueBegan: Int64
        var enqueueEnded: Int64
        var claimBegan: Int64
        var claimEnded: Int64
    }

    /// The items whose claim is known, and, if no claim is unknown, those that are still in the queue.
    private func items(of queue: Observed, without lost: Set<Int>) -> [Item] {
        queue.enqueued.compactMap { number, enqueue in
            let claim = queue.claimed[number]
            guard hasEffect[enqueue.transaction], claim != nil || queue.openClaims == 0, !lost.contains(number) else {
                return nil
            }
            return Item(
                number: number,
                enqueue: enqueue,
                claim: claim,
                enqueueBegan: history.transactions[enqueue.transaction].began,
                enqueueEnded: ends[enqueue.transaction],
                claimBegan: claim.map { history.transactions[$0.transaction].began } ?? .max,
                claimEnded: claim.map { ends[$0.transaction] } ?? .max
            )
        }
    }

    /// Whether an item was in the queue all the time while a claim found it empty.
    private mutating func checkEmptyClaims(_ queue: Observed, _ items: [Item]) {
        let items = items.filter { $0.claim != nil }.sorted {
            ($0.enqueueEnded, $0.number) < ($1.enqueueEnded, $1.number)
        }
        /// Of the items that were enqueued before, the one whose claim began last.
        var latest: Item?
        var passed = 0
        for claim in queue.empty.sorted(by: { history.transactions[$0].began < history.transactions[$1].began }) {
            while passed < items.count, items[passed].enqueueEnded < history.transactions[claim].began {
                if items[passed].claimBegan > latest?.claimBegan ?? .min { latest = items[passed] }
                passed += 1
            }
            guard let latest, let later = latest.claim, latest.claimBegan > ends[claim] else { continue }
            let what = "the queue was found empty, although item \(latest.number) was in it"
            found(.staleRead, what, [latest.enqueue.transaction, claim, later.transaction])
        }
    }

    /// Items that were enqueued earlier than others, and when they were claimed.
    private struct Earlier {
        private var latest: Item?
        /// The item that each transaction claimed last.
        private var last: [Int: Item] = [:]

        mutating func insert(_ item: Item) {
            if item.claimBegan > latest?.claimBegan ?? .min { latest = item }
            guard let claim = item.claim else { return }
            if claim.step > last[claim.transaction]?.claim?.step ?? -1 { last[claim.transaction] = item }
        }

        /// An item that was certainly claimed after this one.
        func claimedAfter(_ item: Item) -> Item? {
            guard let claim = item.claim else { return nil }
            if let latest, latest.claimBegan > item.claimEnded { return latest }
            return last[claim.transaction].flatMap { $0.claim!.step > claim.step ? $0 : nil }
        }
    }

    /// Items are claimed in the order in which they were enqueued, as far as real time and the steps of a transaction tell. Each worker
    /// runs one transaction after the other, also those of unknown outcome.
    private mutating func checkOrder(_ items: [Item]) {
        let byEnd = items.sorted { ($0.enqueueEnded, $0.number) < ($1.enqueueEnded, $1.number) }
        let byBegin = items.sorted {
            ($0.enqueueBegan, $0.enqueue.transaction, $0.enqueue.step)
                < ($1.enqueueBegan, $1.enqueue.transaction, $1.enqueue.step)
        }
        var ofAll = Earlier()
        var ofWorker: [Int: Earlier] = [:]
        var passed = 0
        for item in byBegin {
            while passed < byEnd.count, byEnd[passed].enqueueEnded < item.enqueueBegan {
                ofAll.insert(byEnd[passed])
                passed += 1
            }
            let worker = history.transactions[item.enqueue.transaction].worker
            if let other = ofWorker[worker]?.claimedAfter(item) ?? ofAll.claimedAfter(item) {
                let producer =
                    history.transactions[other.enqueue.transaction].worker == worker
                    ? "its producer enqueued" : "was enqueued"
                let what = "item \(item.number) was claimed before item \(other.number), which \(producer) earlier"
                found(.reorderedItems, what, [other.claim ?? other.enqueue, item.claim!].map(\.transaction))
            }
            ofWorker[worker, default: Earlier()].insert(item)
        }
    }
}
