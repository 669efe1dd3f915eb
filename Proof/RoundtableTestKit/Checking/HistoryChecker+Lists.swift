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
        /// Its place among the appends of its transaction to the list.
        var place: Int
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
            addEdges(list, unread: checkWrites(key, list), object)
        }
    }

    private mutating func collect(_ transaction: TransactionRecord, _ number: Int, _ lists: inout [Int: Observed]) {
        var own: [Int: [Int]] = [:]
        var external: [Int: ArraySlice<Int>] = [:]
        for step in transaction.steps {
            switch step {
            case .append(let key, let element):
                if let last = own[key]?.last { lists[key]?.appends[last]?.isLast = false }
                let place = own[key]?.count ?? 0
                own[key, default: []].append(element)
                if let other = lists[key]?.appends[element] {
                    found(
                        .duplicatedWrite,
                        "two transactions appended \(element) to list \(key)",
                        [other.transaction, number]
                    )
                }
                lists[key, default: Observed()].appends[element] = Append(transaction: number, place: place)
            case .list(let key, let elements) where transaction.isCommitted:
                let mine = own[key] ?? []
                guard elements.count >= mine.count, elements.suffix(mine.count).elementsEqual(mine) else {
                    found(.ownWriteMissed, "list \(key) does not end with \(mine), which its reader appended", [number])
                    continue
                }
                let before = elements.dropLast(mine.count)
                if let first = external[key] {
                    if first != before {
                        found(.nonRepeatableRead, "list \(key) was read twice in one transaction", [number])
                    }
                } else {
                    external[key] = before
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
        for (key, before) in external {
            guard let mine = own[key].map(Set.init), let early = before.first(where: mine.contains) else { continue }
            let what = "list \(key) was read with \(early), which its reader appended only afterwards"
            found(.futureRead, what, [number])
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
        var places: [Int: Int] = [:]
        /// The last append that was passed, of each transaction.
        var passed: [Int: Append] = [:]
        for (place, element) in list.longest.enumerated() {
            guard places.updateValue(place, forKey: element) == nil else {
                found(.duplicatedWrite, "\(element) is in list \(key) twice", involved(element, list, list.reader))
                continue
            }
            guard let append = list.appends[element] else { continue }
            if let other = passed.updateValue(append, forKey: append.transaction), other.place > append.place {
                let what = "\(element) is in list \(key) behind what its transaction appended later"
                found(.reorderedWrites, what, involved(element, list, list.reader))
            }
        }
        for read in list.reads where !Self.isPrefix(read.elements, of: list.longest) {
            compare(key, read, list, places)
        }
        checkOrigin(key, list.longest, list, list.reader)
        for read in list.reads {
            guard let last = read.elements.last, let append = list.appends[last], Self.isIntermediate(read, list)
            else { continue }
            let what = "list \(key) was read up to \(last), in the middle of the transaction that appended it"
            found(.intermediateRead, what, [append.transaction, read.transaction])
        }
    }

    /// Names the difference between a read and the longest one, of which it is no prefix.
    ///
    /// - parameter places: the places of the elements of the longest list.
    private mutating func compare(_ key: Int, _ read: Read, _ list: Observed, _ places: [Int: Int]) {
        let unknown = read.elements.filter { places[$0] == nil }
        if let gone = unknown.first {
            let what = "\(gone) was read in list \(key), and is not in the longest list"
            found(.lostWrite, what, involved(gone, list, read.transaction) + [list.reader])
            checkOrigin(key, unknown, list, read.transaction)
            return
        }
        var isSeen = [Bool](repeating: false, count: list.longest.count)
        var last = 0
        for element in read.elements {
            let place = places[element]!
            if isSeen[place] {
                let what = "\(element) is in list \(key) twice"
                return found(.duplicatedWrite, what, involved(element, list, read.transaction))
            }
            isSeen[place] = true
            last = max(last, place)
        }
        if let missing = isSeen[..<last].firstIndex(of: false) {
            // It was inserted before others, or was not there any more.
            let element = list.longest[missing]
            let what = "list \(key) was read with and without \(element), although later elements were there"
            found(.lostWrite, what, [read.transaction, list.reader])
        } else {
            found(.reorderedWrites, "two reads of list \(key) differ in the order", [read.transaction, list.reader])
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

    /// Whether all appends that are certainly there were read by those that began later.
    ///
    /// - returns: the last append of each transaction that no read has, and that no read had to have: it is behind all that was read.
    private mutating func checkWrites(_ key: Int, _ list: Observed) -> [Int: Int] {
        let read = Set(list.longest).union(
            list.reads.lazy.filter { !Self.isPrefix($0.elements, of: list.longest) }.flatMap(\.elements)
        )
        let missing = list.appends.filter { !read.contains($0.key) && hasEffect[$0.value.transaction] }
        guard !missing.isEmpty else { return [:] }
        let shown = Set(read.compactMap { list.appends[$0]?.transaction })
        let end = list.longest.last.flatMap { list.appends[$0] }
        var unread: [Int: Int] = [:]
        for (element, append) in missing.sorted(by: { $0.key < $1.key }) {
            let ended = ends[append.transaction]
            if shown.contains(append.transaction) {
                guard let end, end.transaction == append.transaction, end.place < append.place else {
                    let what =
                        "\(element) was appended to list \(key), and only other appends of its transaction were read"
                    found(.lostWrite, what, [append.transaction, list.reader])
                    continue
                }
                // The longest list ends in the middle of the transaction. This is reported, unless the transaction itself read it.
                guard list.reader == append.transaction else { continue }
            }
            if list.lastRead > ended {
                let witness = list.reads.first { history.transactions[$0.transaction].began > ended }
                let what = "\(element) was appended to list \(key), and no read has it"
                found(.lostWrite, what, [append.transaction] + (witness.map { [$0.transaction] } ?? []))
                continue
            }
            if history.transactions[append.transaction].isCommitted { report.unverified += 1 }
            if append.isLast { unread[append.transaction] = element }
        }
        return unread
    }

    private mutating func addEdges(_ list: Observed, unread: [Int: Int], _ object: Int32) {
        let order = list.longest
        let writers = order.map { list.appends[$0]?.transaction }
        for place in order.indices.dropFirst() {
            guard let one = writers[place - 1], let other = writers[place] else { continue }
            graph.add(.writeWrite, from: one, to: other, object: object, value: order[place])
        }
        if let last = writers.last ?? nil {
            for (writer, element) in unread.sorted(by: { $0.key < $1.key }) {
                graph.add(.writeWrite, from: last, to: writer, object: object, value: element)
            }
        }
        var readersOfAll: [Int] = []
        // An intermediate read is reported already, and would be a cycle, too.
        for read in list.reads where Self.isPrefix(read.elements, of: order) && !Self.isIntermediate(read, list) {
            let count = read.elements.count
            if count > 0, let writer = writers[count - 1] {
                graph.add(.writeRead, from: writer, to: read.transaction, object: object, value: order[count - 1])
            }
            if count == order.count {
                readersOfAll.append(read.transaction)
            } else if let writer = writers[count] {
                graph.add(.readWrite, from: read.transaction, to: writer, object: object, value: order[count])
            }
        }
        addReads(readersOfAll, before: unread, object)
    }
}
