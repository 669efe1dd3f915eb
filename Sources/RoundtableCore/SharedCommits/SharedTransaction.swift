/// The writes of one transaction of a group, and how each of them ends, as a pure value (rules M2, M3, M5).
struct SharedTransaction<Write> {
    /// In what a write runs.
    enum Extent: Hashable {
        /// Nobody else's part is in the transaction, so it is undone as a whole. Others may join it afterwards if it is shareable, and
        /// still open.
        case transaction(isShareable: Bool)
        case savepoint
    }

    /// How the transaction has ended.
    enum End: Hashable {
        /// It was committed, or there was nothing to commit because all closures have failed.
        case final
        /// The gate turned it back before it began.
        case turnedBack
        case failed
    }

    /// How a write has ended.
    enum Outcome: Hashable {
        /// What the closure returned or threw is final.
        case final
        /// The write has no effect, and must run again, alone.
        case again
        /// The gate turned the write back.
        case turnedBack
        /// The write has failed with the transaction.
        case failed
    }

    /// In the order in which they have run.
    var writes: [Write] = []
    /// Whether the part of a write is to be committed.
    var hasPart = false
    /// The number of the write whose closure was interrupted.
    private var interrupted: Int?

    /// Notes that the closure of the last write was interrupted, which ends the transaction.
    mutating func lastWasInterrupted() { interrupted = writes.indices.last }

    func outcomes(_ end: End) -> [(write: Write, outcome: Outcome)] {
        writes.enumerated().map { index, write in
            switch end {
            case .final: (write, .final)
            case .turnedBack: (write, .turnedBack)
            case .failed: (write, writes.count == 1 || index == interrupted ? .failed : .again)
            }
        }
    }
}

extension SharedTransaction: Sendable where Write: Sendable {}
extension SharedTransaction: Equatable where Write: Equatable {}
extension SharedTransaction: Hashable where Write: Hashable {}
