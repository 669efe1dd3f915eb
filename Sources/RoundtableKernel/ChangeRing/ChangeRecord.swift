/// What the change ring tells of one commit. The rules R of `docs/PROTOCOL.md` say who writes what.
package struct ChangeRecord: Equatable, Sendable {
    /// Rule R4 says who leads from one to another.
    package enum State: UInt8, Sendable {
        /// About to be committed.
        case reserved = 1
        case committed
        /// Only an attached database was written: the commit counter stays.
        case aside
        /// Nothing was committed.
        case void
        /// Its owner or a stranger made the commit with this number.
        case unsure

        /// In memory, a state stands beside its record's sequence: whoever is late cannot change that of another record.
        func word(_ sequence: UInt64) -> UInt64 { UInt64(rawValue) | sequence << 8 }

        init?(word: UInt64, sequence: UInt64) {
            guard word >> 8 == (sequence << 8) >> 8 else { return nil }
            self.init(rawValue: UInt8(truncatingIfNeeded: word))
        }
    }

    package var sequence: UInt64
    package var state: State
    /// The value of the commit counter that this commit makes.
    package var counter: UInt32
    package var owner: OwnerWord
    /// Of the reservation, ns of the monotonic clock.
    package var time: Nanoseconds
    package var tables: TableSet
    package var author: String
}

/// Tables, by their number in the table dictionary.
package struct TableSet: Equatable, Sendable {
    package var words: InlineWords = InlineWords()
    /// Some table is not in the dictionary, or nobody knows what was written.
    package var isUnknown = false

    package static var unknown: TableSet { TableSet(isUnknown: true) }

    package init(isUnknown: Bool = false) { self.isUnknown = isUnknown }

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

    package var isEmpty: Bool { !isUnknown && words == InlineWords() }

    /// `Layout.tableWords` words.
    package struct InlineWords: Equatable, Sendable {
        private var storage: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

        package init() {}

        package subscript(index: Int) -> UInt64 {
            get { withUnsafeBytes(of: storage) { $0.load(fromByteOffset: index * 8, as: UInt64.self) } }
            set {
                withUnsafeMutableBytes(of: &storage) {
                    $0.storeBytes(of: newValue, toByteOffset: index * 8, as: UInt64.self)
                }
            }
        }

        package static func == (a: InlineWords, b: InlineWords) -> Bool { a.storage == b.storage }
    }
}
