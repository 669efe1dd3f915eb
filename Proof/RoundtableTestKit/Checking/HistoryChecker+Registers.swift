/// Registers: a transaction that reads a value and writes another one shows which value replaced which.
extension HistoryChecker {
    private struct Write {
        var transaction: Int
        var value: Int
        /// The value that the transaction read before, if it did.
        var replaced: Int??
        /// Whether it is the last write of its transaction to the register.
        var isLast = true
    }

    private struct Read {
        var transaction: Int
        var value: Int?
    }

    private struct Observed {
        var writes: [Int: Write] = [:]
        var reads: [Read] = []
    }

    mutating func addRegisters() {
        var registers: [Int: Observed] = [:]
        for (number, transaction) in history.transactions.enumerated() {
            collect(transaction, number, &registers)
        }
        for (key, register) in registers.sorted(by: { $0.key < $1.key }) {
            let object = self.number(of: .register(key))
            checkReads(key, register)
            addEdges(key, register, object)
        }
    }

    private mutating func collect(_ transaction: TransactionRecord, _ number: Int, _ registers: inout [Int: Observed]) {
        var own: [Int: Int] = [:]
        var external: [Int: Int?] = [:]
        for step in transaction.steps {
            switch step {
            case .write(let key, let value):
                if let last = own.updateValue(value, forKey: key) { registers[key]?.writes[last]?.isLast = false }
                let read = external[key]
                if let read, read == value {
                    let what = "register \(key) was read as \(value), which its reader wrote only afterwards"
                    found(.futureRead, what, [number])
                }
                registers[key, default: Observed()].writes[value] = Write(
                    transaction: number,
                    value: value,
                    replaced: read
                )
            case .value(let key, let value) where transaction.isCommitted:
                if let mine = own[key] {
                    if mine != value {
                        found(.ownWriteMissed, "register \(key) is not \(mine), which its reader wrote", [number])
                    }
                } else if let first = external[key] {
                    if first != value {
                        found(.nonRepeatableRead, "register \(key) was read twice in one transaction", [number])
                    }
                } else {
                    external[key] = .some(value)
                    registers[key, default: Observed()].reads.append(Read(transaction: number, value: value))
                }
            default: break
            }
        }
    }

    private mutating func checkReads(_ key: Int, _ register: Observed) {
        for read in register.reads {
            guard let value = read.value else { continue }
            guard let write = register.writes[value] else {
                found(.inventedValue, "\(value) is in register \(key), and no transaction wrote it", [read.transaction])
                continue
            }
            let involved = [write.transaction, read.transaction]
            if history.transactions[write.transaction].outcome == .failed {
                found(.abortedRead, "\(value) is in register \(key), and its transaction was rolled back", involved)
            }
            if !write.isLast, write.transaction != read.transaction {
                let what = "register \(key) was read as \(value), in the middle of the transaction that wrote it"
                found(.intermediateRead, what, involved)
            }
        }
    }

    private mutating func addEdges(_ key: Int, _ register: Observed, _ object: Int32) {
        let writes = register.writes.values.filter { isEffective($0) }.sorted { $0.value < $1.value }
        var successors: [Int?: Write] = [:]
        var isUpdateLost = false
        for write in writes {
            guard case .some(let replaced) = write.replaced else { continue }
            if let replaced {
                guard let before = effectiveWrite(of: replaced, in: register), before.transaction != write.transaction
                else { continue }
                graph.add(
                    .writeWrite,
                    from: before.transaction,
                    to: write.transaction,
                    object: object,
                    value: write.value
                )
            }
            if let other = successors[replaced] {
                isUpdateLost = true
                let value = replaced.map(String.init) ?? "nothing"
                let what = "two transactions read \(value) in register \(key) and replaced it"
                found(.lostUpdate, what, [other.transaction, write.transaction])
            } else {
                successors[replaced] = write
            }
        }
        // Other reads are reported already.
        let reads = register.reads.filter { read in
            guard let value = read.value else { return true }
            return effectiveWrite(of: value, in: register).map { $0.transaction != read.transaction } ?? false
        }
        for read in reads {
            if let value = read.value {
                let writer = register.writes[value]!.transaction
                graph.add(.writeRead, from: writer, to: read.transaction, object: object, value: value)
            }
            if let next = successors[read.value] {
                graph.add(.readWrite, from: read.transaction, to: next.transaction, object: object, value: next.value)
            }
        }
        // A lost update is reported already, and would be a cycle, too.
        if !isUpdateLost { addOrder(writes, reads, successors, object) }
    }

    /// The write of a value, if it counts: its transaction took effect, and left it.
    private func effectiveWrite(of value: Int, in register: Observed) -> Write? {
        register.writes[value].flatMap { isEffective($0) ? $0 : nil }
    }

    private func isEffective(_ write: Write) -> Bool { write.isLast && hasEffect[write.transaction] }

    // MARK: Chains

    /// A value that somebody wrote without reading the one before, and all that replaced it, and one another, by a read and a write: nothing
    /// else comes between them.
    private struct Chain {
        /// The first write; nil if the chain begins with nothing.
        var head: Write?
        /// The transactions that read a value of the chain.
        var readers: [Int] = []
        /// When the first of all its transactions had ended, and when the last one of them began.
        var ended: Int64
        var began = Int64.min

        mutating func include(began: Int64, ended: Int64) {
            self.began = max(self.began, began)
            self.ended = min(self.ended, ended)
        }
    }

    /// Adds what real time tells of the order of writes that do not replace one another.
    ///
    /// If one transaction of a chain ended before one of another chain began, the whole chain is before the other one.
    private mutating func addOrder(_ writes: [Write], _ reads: [Read], _ successors: [Int?: Write], _ object: Int32) {
        var chains = [Chain(head: nil, ended: .min)]
        var numbers: [Int?: Int] = [nil: 0]
        func follow(_ value: Int?, _ chain: Int) {
            var next = successors[value]
            while let write = next, numbers.updateValue(chain, forKey: write.value) == nil {
                next = successors[write.value]
            }
        }
        follow(nil, 0)
        let replacing = Set(successors.values.map(\.value))
        for write in writes where !replacing.contains(write.value) {
            let transaction = history.transactions[write.transaction]
            var chain = Chain(head: write, ended: .max)
            chain.include(began: transaction.began, ended: ends[write.transaction])
            numbers[write.value] = chains.count
            follow(write.value, chains.count)
            chains.append(chain)
        }
        for read in reads {
            guard let number = numbers[read.value] else { continue }
            chains[number].readers.append(read.transaction)
            chains[number].include(
                began: history.transactions[read.transaction].began,
                ended: ends[read.transaction]
            )
        }
        let heads = chains.dropFirst().map { ($0.head!.transaction, $0.head!.value) }
        addReads(chains[0].readers, before: Dictionary(uniqueKeysWithValues: heads), object)
        let later = LaterChains(chains.indices.dropFirst().map { ($0, chains[$0].began, chains[$0].ended) })
        for (number, chain) in chains.enumerated().dropFirst() {
            guard let other = later.firstToEnd(after: chain.ended, otherThan: number).map({ chains[$0] }),
                let next = other.head, let head = chain.head
            else { continue }
            // If each of two chains should be before the other one, the edges from the one that ended first make the cycle.
            if other.ended < min(chain.ended, chain.began) { continue }
            // Otherwise, a reader that began later shows the same.
            if history.transactions[head.transaction].began == chain.began {
                graph.add(
                    .timedWriteWrite,
                    from: head.transaction,
                    to: next.transaction,
                    object: object,
                    value: next.value
                )
            }
            for reader in chain.readers {
                graph.add(.timedReadWrite, from: reader, to: next.transaction, object: object, value: next.value)
            }
        }
    }
}

/// The chains of a register, by the times at which their last transactions began.
private struct LaterChains {
    typealias Entry = (number: Int, began: Int64, ended: Int64)

    private var entries: [Entry]
    /// Of each suffix, the two entries that end first.
    private var first: [[Int]]

    init(_ entries: [Entry]) {
        self.entries = entries.sorted { ($0.began, $0.number) < ($1.began, $1.number) }
        first = Array(repeating: [], count: entries.count + 1)
        for index in entries.indices.reversed() {
            let candidates = [index] + first[index + 1]
            first[index] = Array(candidates.sorted { self.entries[$0].ended < self.entries[$1].ended }.prefix(2))
        }
    }

    /// Of the other chains of which a transaction began after `time`, the one that ended first.
    func firstToEnd(after time: Int64, otherThan number: Int) -> Int? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].began > time { high = middle } else { low = middle + 1 }
        }
        return first[low].lazy.map { entries[$0].number }.first { $0 != number }
    }
}
