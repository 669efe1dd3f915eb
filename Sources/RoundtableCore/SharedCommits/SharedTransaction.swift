// Rule M2: Each write runs in a savepoint of its own. If its closure throws, the savepoint is rolled back, and nothing else. The first
// write needs none while no other one waits: its part is the whole transaction. If its closure ends that transaction, no other write joins
// it.

// Rule M3: A write returns, or throws, when the transaction is committed, because an error can be the consequence of rows that are not
// committed yet. If nothing is left to commit, the transaction is rolled back, and the errors stand.

// Rule M5: A closure runs once. If the transaction is not committed, each write that had run fails with that error, and those that had not
// begun continue in the next transaction. A closure that threw before there was any part keeps its error. The error of the others names the
// line of code of the closure that ended the transaction, with the code `SQLITE_ABORT_ROLLBACK` if it is to blame. An interruption that
// leaves the transaction open undoes the running part alone. Observers are notified of each rollback once, also of one by SQLite.

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
