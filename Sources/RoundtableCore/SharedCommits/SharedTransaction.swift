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
        /// The gate turned the write back.
        case turnedBack
        /// The write has failed with the error of the transaction.
        case failed
        /// The closure of another write has ended the transaction, and with it what this one has written.
        case lost
    }

    /// In the order in which they have run.
    private(set) var writes: [Write] = []
    /// The number of the first write whose part is in the transaction; nil while there is nothing to commit.
    private var firstPart: Int?
    /// The number of the write whose closure has ended the transaction.
    private var culprit: Int?

    /// Whether the part of a write is to be committed.
    var hasPart: Bool { firstPart != nil }
    /// The write whose closure has ended the transaction, and all parts with it.
    var endedBy: Write? { culprit.map { writes[$0] } }

    mutating func append(_ write: Write) { writes.append(write) }

    /// Notes that the part of the last write is in the transaction.
    mutating func lastIsPart() { firstPart = firstPart ?? writes.indices.last }

    /// Notes that the closure of the last write has ended the transaction.
    mutating func lastHasEnded() { culprit = writes.indices.last }

    func outcomes(_ end: End) -> [(write: Write, outcome: Outcome)] {
        writes.enumerated().map { index, write in
            switch end {
            case .final: (write, .final)
            case .turnedBack: (write, .turnedBack)
            case .failed:
                // A closure that threw before there was any part saw nothing that is undone, so its error stands. The error of a later one
                // may be the consequence of rows that are undone.
                if index < firstPart ?? writes.count - 1 {
                    (write, .final)
                } else {
                    (write, culprit == nil || culprit == index ? .failed : .lost)
                }
            }
        }
    }
}

extension SharedTransaction: Sendable where Write: Sendable {}
extension SharedTransaction: Equatable where Write: Equatable {}
extension SharedTransaction: Hashable where Write: Hashable {}
