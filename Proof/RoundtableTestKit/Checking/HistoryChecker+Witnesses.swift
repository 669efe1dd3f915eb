/// Transactions of unknown outcome that a read proves to be committed.
extension HistoryChecker {
    /// Finds the transactions of unknown outcome of which a committed transaction read a write. Such a transaction was committed, with all
    /// of its writes, at the latest when its first witness ended. What it planned to read still says nothing.
    mutating func findWitnesses() {
        let writers = uncertainWriters()
        guard !writers.isEmpty else { return }
        for transaction in history.transactions where transaction.isCommitted {
            let ended = transaction.ended ?? .max
            for step in transaction.steps {
                switch step {
                case .list(let key, let elements):
                    guard let writers = writers[.list(key)] else { continue }
                    for element in elements { witness(writers[element], ended) }
                case .value(let key, let value?): witness(writers[.register(key)]?[value], ended)
                case .claim(let item?): witness(writers[.queue]?[item], ended)
                default: break
                }
            }
        }
    }

    private mutating func witness(_ writer: Int?, _ ended: Int64) {
        guard let writer else { return }
        hasEffect[writer] = true
        ends[writer] = min(ends[writer], ended)
    }

    /// The transactions of unknown outcome, by what they write.
    private func uncertainWriters() -> [Object: [Int: Int]] {
        var writers: [Object: [Int: Int]] = [:]
        for (number, transaction) in history.transactions.enumerated() where transaction.outcome == .unknown {
            // Only the last value of a register: another one that is read was not committed, and is an anomaly of its own.
            var values: [Int: Int] = [:]
            for step in transaction.steps {
                switch step {
                case .append(let key, let element): writers[.list(key), default: [:]][element] = number
                case .write(let key, let value): values[key] = value
                case .enqueue(let item): writers[.queue, default: [:]][item] = number
                default: break
                }
            }
            for (key, value) in values { writers[.register(key), default: [:]][value] = number }
        }
        return writers
    }
}
