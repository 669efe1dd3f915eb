#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Lists: each read shows the order of the appends before it.
extension HistoryChecker {
    /// A read of a list.
    private struct Read {
        var transaction: Int
        /// Without the elements that the transaction itself had appended.
        var elements: ArraySlice<Int>
    }

    private struct Append {
        var transaction: Int
        /// Whether it is the last append of its transaction to the list.
        var isLast = true
    }

    /// All that is known of one list.
    private struct Observed {
        var appends: [Int: Append] = [:]
        var reads: [Read] = []
        /// The longest list that a transaction read, and which transaction read it.
        var longest: [Int] = []
        var reader = -1
        /// When the last read began.
        var lastRead = Int64.min
    }

    mutating func addLists() {
        var lists: [Int: Observed] = [:]
        for (number, transaction) in history.transactions.enumerated() {
            collect(transaction, number, &lists)
        }
        for (key, list) in lists.sorted(by: { $0.key < $1.key }) {
            let object = self.number(of: .list(key))
            checkOrder(key, list)
            checkWrites(key, list)
            addEdges(list, object)
        }
    }

    private mutating func collect(_ transaction: TransactionRecord, _ number: Int, _ lists: inout [Int: Observed]) {
        var own: [(list: Int, elements: [Int])] = []
        var external: [(list: Int, elements: ArraySlice<Int>)] = []
        for step in transaction.steps {
            switch step {
            case .append(let key, let element):
                let index = own.firstIndex { $0.list == key }
                if let index {
                    lists[key]?.appends[own[index].elements.last!]?.isLast = false
                    own[index].elements.append(element)
                } else {
                    own.append((key, [element]))
                }
                if let other = lists[key]?.appends[element] {
                    found(
                        .duplicatedWrite,
                        "two transactions appended \(element) to list \(key)",
                        [other.transaction, number]
                    )
                }
                lists[key, default: Observed()].appends[element] = Append(transaction: number)
            case .list(let key, let elements) where transaction.isCommitted:
                let mine = own.first { $0.list == key }?.elements ?? []
                guard elements.count >= mine.count, elements.suffix(mine.count).elementsEqual(mine) else {
                    found(.ownWriteMissed, "list \(key) does not end with \(mine), which its reader appended", [number])
                    continue
                }
                let before = elements.dropLast(mine.count)
                if let first = external.first(where: { $0.list == key }) {
                    if first.elements != before {
                        found(.nonRepeatableRead, "list \(key) was read twice in one transaction", [number])
                    }
                } else {
                    external.append((key, before))
                    lists[key, default: Observed()].reads.append(Read(transaction: number, elements: before))
                }
                lists[key, default: Observed()].lastRead = max(lists[key]!.lastRead, transaction.began)
                if elements.count > lists[key]!.longest.count {
                    lists[key]!.longest = elements
                    lists[key]!.reader = number
                }
            default: break
            }
        }
    }

    private static func isPrefix(_ short: ArraySlice<Int>, of long: [Int]) -> Bool {
        short.withUnsafeBytes { short in
            long.withUnsafeBytes { long in
                short.count <= long.count
                    && (short.isEmpty || memcmp(short.baseAddress!, long.baseAddress!, short.count) == 0)
            }
        }
    }

    /// Whether all reads agree, and show no element twice.
    private mutating func checkOrder(_ key: Int, _ list: Observed) {
        var seen: Set<Int> = []
        for element in list.longest where !seen.insert(element).inserted {
            found(.duplicatedWrite, "\(element) is in list \(key) twice", involved(element, list, list.reader))
        }
        for read in list.reads where !Self.isPrefix(read.elements, of: list.longest) {
            let place =
                zip(read.elements, list.longest).enumerated().first { $0.element.0 != $0.element.1 }?.offset ?? 0
            let missing = list.longest.dropFirst(place).first { !read.elements.contains($0) }
            if let missing, Set(read.elements).isSubset(of: list.longest) {
                // The other elements have the same order: this one was inserted, or was not there any more.
                let what = "list \(key) was read with and without \(missing), although later elements were there"
                found(.lostWrite, what, [read.transaction, list.reader])
            } else if Set(read.elements).isSubset(of: list.longest) {
                found(
                    .reorderedWrites,
                    "two reads of list \(key) differ in the order",
                    [read.transaction, list.reader]
                )
            } else {
                let gone = read.elements.first { !list.longest.contains($0) }!
                let what = "\(gone) was read in list \(key), and is not in the longest list"
                found(.lostWrite, what, involved(gone, list, read.transaction) + [list.reader])
                checkOrigin(key, read.elements.filter { !list.longest.contains($0) }, list, read.transaction)
            }
        }
        checkOrigin(key, list.longest, list, list.reader)
        for read in list.reads {
            guard let last = read.elements.last, let append = list.appends[last], Self.isIntermediate(read, list)
            else { continue }
            let what = "list \(key) was read up to \(last), in the middle of the transaction that appended it"
            found(.intermediateRead, what, [append.transaction, read.transaction])
        }
    }

    /// Whether a read ends in the middle of the appends of another transaction.
    private static func isIntermediate(_ read: Read, _ list: Observed) -> Bool {
        guard let last = read.elements.last, let append = list.appends[last] else { return false }
        return !append.isLast && append.transaction != read.transaction
    }

    /// Whether elements that were read come from transactions that may have been committed.
    private mutating func checkOrigin(_ key: Int, _ elements: [Int], _ list: Observed, _ reader: Int) {
        for element in elements {
            guard let append = list.appends[element] else {
                found(.inventedValue, "\(element) is in list \(key), and no transaction appended it", [reader])
                continue
            }
            if history.transactions[append.transaction].outcome == .failed {
                let what = "\(element) is in list \(key), and its transaction was rolled back"
                found(.abortedRead, what, [append.transaction, reader])
            }
        }
    }

    private func involved(_ element: Int, _ list: Observed, _ reader: Int) -> [Int] {
        (list.appends[element].map { [$0.transaction] } ?? []) + [reader]
    }

    /// Whether all acknowledged appends were read by those that began later.
    private mutating func checkWrites(_ key: Int, _ list: Observed) {
        let read = Set(list.longest).union(
            list.reads.lazy.filter { !Self.isPrefix($0.elements, of: list.longest) }.flatMap(\.elements)
        )
        for (element, append) in list.appends.sorted(by: { $0.key < $1.key }) where !read.contains(element) {
            let transaction = history.transactions[append.transaction]
            guard transaction.isCommitted, let ended = transaction.ended else { continue }
            guard list.lastRead > ended else {
                report.unverified += 1
                continue
            }
            let witness = list.reads.first { history.transactions[$0.transaction].began > ended }
            let what = "\(element) was appended to list \(key), and no read has it"
            found(.lostWrite, what, [append.transaction] + (witness.map { [$0.transaction] } ?? []))
        }
    }

    private mutating func addEdges(_ list: Observed, _ object: Int32) {
        let order = list.longest
        let writers = order.map { list.appends[$0]?.transaction }
        for place in order.indices.dropFirst() {
            guard let one = writers[place - 1], let other = writers[place] else { continue }
            graph.add(.writeWrite, from: one, to: other, object: object, value: order[place])
        }
        // An intermediate read is reported already, and would be a cycle, too.
        for read in list.reads where Self.isPrefix(read.elements, of: order) && !Self.isIntermediate(read, list) {
            let count = read.elements.count
            if count > 0, let writer = writers[count - 1] {
                graph.add(.writeRead, from: writer, to: read.transaction, object: object, value: order[count - 1])
            }
            if count < order.count, let writer = writers[count] {
                graph.add(.readWrite, from: read.transaction, to: writer, object: object, value: order[count])
            }
        }
    }
}
