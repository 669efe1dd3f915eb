/// A record of the change ring, which describes one commit. The rules R of `docs/PROTOCOL.md` specify who writes what.
package struct ChangeRecord: Equatable, Sendable {
    /// The state of the commit. Rule R4 specifies which participant makes each transition.
    package enum State: UInt8, Sendable {
        /// The commit is about to be made.
        case reserved = 1
        case committed
        /// Only an attached database was written, so the commit counter does not change.
        case aside
        /// Nothing was committed.
        case void
        /// Either the record's owner or a program that is not a participant made the commit with this counter.
        case unsure

        /// The state's word in shared memory. It includes the record's sequence, so that a late owner cannot change another record's state.
        func word(_ sequence: UInt64) -> UInt64 { UInt64(rawValue) | sequence << 8 }

        init?(word: UInt64, sequence: UInt64) {
            guard word >> 8 == (sequence << 8) >> 8 else { return nil }
            self.init(rawValue: UInt8(truncatingIfNeeded: word))
        }
    }

    package var sequence: UInt64
    package var state: State
    /// The value of the commit counter after this commit.
    package var counter: UInt32
    package var owner: OwnerWord
    /// The time of the reservation, in ns of the monotonic clock.
    package var time: Nanoseconds
    package var tables: TableSet
    package var author: String
}

/// A set of tables, by their numbers in the table dictionary.
package struct TableSet: Equatable, Sendable {
    /// `Layout.tableWords` words, stored in place.
    package var words = SIMD4<UInt64>()
    /// Whether some table is not in the dictionary, or the written tables are unknown.
    package var isUnknown = false

    package static var unknown: TableSet { TableSet(isUnknown: true) }

    package mutating func insert(_ number: Int) {
        words[number / 64] |= 1 << UInt64(number % 64)
    }

    package var numbers: [Int] {
        var numbers: [Int] = []
        for index in 0..<Layout.tableWords {
            var word = words[index]
            while word != 0 {
                numbers.append(index * 64 + word.trailingZeroBitCount)
                word &= word - 1
            }
        }
        return numbers
    }

    package var isEmpty: Bool { !isUnknown && words == .zero }
}
