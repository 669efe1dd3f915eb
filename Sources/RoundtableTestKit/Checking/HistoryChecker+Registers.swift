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
        var own: [(register: Int, value: Int)] = []
        var external: [(register: Int, value: Int?)] = []
        for step in transaction.steps {
            switch step {
            case .write(let key, let value):
                if let index = own.firstIndex(where: { $0.register == key }) {
                    registers[key]?.writes[own[index].value]?.isLast = false
                    own[index].value = value
                } else {
                    own.append((key, value))
                }
                let read = external.first { $0.register == key }
                registers[key, default: Observed()].writes[value] = Write(
                    transaction: number,
                    value: value,
                    replaced: read.map { $0.value }
                )
            case .value(let key, let value) where transaction.isCommitted:
                if let mine = own.first(where: { $0.register == key }) {
                    if mine.value != value {
                        found(.ownWriteMissed, "register \(key) is not \(mine.value), which its reader wrote", [number])
                    }
                } else if let first = external.first(where: { $0.register == key }) {
                    if first.value != value {
                        found(.nonRepeatableRead, "register \(key) was read twice in one transaction", [number])
                    }
                } else {
                    external.append((key, value))
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
        let writes = register.writes.values.filter { isEffective($0) }
        var successors: [Int?: Write] = [:]
        // A lost update is reported already, and would be a cycle, too.
        var replacedTwice: Set<Int?> = []
        for write in writes.sorted(by: { $0.value < $1.value }) {
            guard case .some(let replaced) = write.replaced, history.transactions[write.transaction].isCommitted else {
                continue
            }
            if let other = successors[replaced] {
                guard other.transaction != write.transaction else { continue }
                replacedTwice.insert(replaced)
                let value = replaced.map(String.init) ?? "nothing"
                let what = "two transactions read \(value) in register \(key) and replaced it"
                found(.lostUpdate, what, [other.transaction, write.transaction])
            } else {
                successors[replaced] = write
            }
            if let replaced, let before = register.writes[replaced] {
                graph.add(
                    .writeWrite,
                    from: before.transaction,
                    to: write.transaction,
                    object: object,
                    value: write.value
                )
            }
        }
        let later = LaterWrites(writes.compactMap { times(of: $0) })
        for read in register.reads {
            let writer = read.value.flatMap { register.writes[$0] }
            if let writer, let value = read.value {
                graph.add(.writeRead, from: writer.transaction, to: read.transaction, object: object, value: value)
            }
            if let next = successors[read.value] {
                graph.add(.readWrite, from: read.transaction, to: next.transaction, object: object, value: next.value)
            }
            // A write that began after the writer of the value had returned also came after it.
            let ended = writer.map { times(of: $0)?.ended ?? .max } ?? .min
            if read.value == nil || writer != nil, !replacedTwice.contains(read.value),
                let next = later.firstToEnd(after: ended)
            {
                graph.add(.readWrite, from: read.transaction, to: next.transaction, object: object, value: next.value)
            }
        }
    }

    /// Whether a write counts: it was acknowledged, and is what its transaction left.
    private func isEffective(_ write: Write) -> Bool {
        write.isLast && history.transactions[write.transaction].isCommitted
    }

    private func times(of write: Write) -> LaterWrites.Entry? {
        let transaction = history.transactions[write.transaction]
        guard transaction.isCommitted, let ended = transaction.ended else { return nil }
        return LaterWrites.Entry(
            transaction: write.transaction,
            value: write.value,
            began: transaction.began,
            ended: ended
        )
    }
}

/// The acknowledged writes of a register, by the times of their begin.
private struct LaterWrites {
    struct Entry {
        var transaction: Int
        var value: Int
        var began: Int64
        var ended: Int64
    }

    private var entries: [Entry]
    /// The entry of each suffix that ends first.
    private var first: [Int]

    init(_ entries: [Entry]) {
        self.entries = entries.sorted { $0.began < $1.began }
        first = Array(self.entries.indices)
        for index in self.entries.indices.dropLast().reversed() {
            if self.entries[first[index + 1]].ended < self.entries[index].ended { first[index] = first[index + 1] }
        }
    }

    /// Of the writes that began after `time`, the one that ended first.
    func firstToEnd(after time: Int64) -> Entry? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].began > time { high = middle } else { low = middle + 1 }
        }
        return low < entries.count ? entries[first[low]] : nil
    }
}
