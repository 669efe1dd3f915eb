import Synchronization

/// Maps table names to their numbers in the ring's records (rule R6), with a cache of the entries read or added so far.
///
/// It is confined to one thread or queue at a time.
package struct TableDictionary {
    private let block: ControlBlock
    private var entries: [String: Entry] = [:]
    private var names: [Int: Entry] = [:]

    /// An entry as it was read or added. The hash detects an entry that is another now: participants never change an entry, but
    /// the block may be overwritten (rule G2).
    struct Entry {
        let number: Int
        fileprivate let name: String
        fileprivate let hash: UInt64
    }

    package init(_ block: ControlBlock) { self.block = block }

    /// The table name of a number; nil when the entry is empty or damaged.
    package mutating func name(_ number: Int) -> String? {
        guard number >= 0, number < Layout.tableCount else { return nil }
        if let entry = names[number], isPresent(entry) { return entry.name }
        guard let entry = read(number) else { return nil }
        names[number] = entry
        return entry.name
    }

    /// The entry of a table name, which is added if it is new; nil when it does not fit. SQLite's write lock must be held (rule R6).
    mutating func entry(adding name: String) -> Entry? {
        if let entry = entries[name], isPresent(entry) { return entry }
        let used = Int(clamping: usedWord.pointee.load(ordering: .acquiring))
        for number in 0..<Layout.tableCount {
            if let entry = read(number) {
                guard entry.name == name else { continue }
                entries[name] = entry
                return entry
            }
            // An intact entry is never overwritten, even if the number of entries does not include it.
            guard number >= used else { continue }
            guard write(name, number) else { return nil }
            usedWord.pointee.store(UInt64(number + 1), ordering: .releasing)
            entries[name] = read(number)
            return entries[name]
        }
        return nil
    }

    // MARK: Entries

    private var usedWord: UnsafeMutablePointer<Atomic<UInt64>> { block.word(at: Layout.Header.tablesInUse) }

    private func entryWord(_ number: Int, _ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        block.word(at: Layout.tables + number * Layout.tableSize + index * 8)
    }

    private static let nameSize = Layout.tableSize - 8

    /// Whether the entry is unchanged since it was read.
    func isPresent(_ entry: Entry) -> Bool {
        entryWord(entry.number, 0).pointee.load(ordering: .acquiring) == entry.hash
    }

    private func read(_ number: Int) -> Entry? {
        let hash = entryWord(number, 0).pointee.load(ordering: .acquiring)
        guard hash != 0 else { return nil }
        var bytes: [UInt8] = []
        for index in 1..<Layout.tableSize / 8 {
            withUnsafeBytes(of: entryWord(number, index).pointee.load(ordering: .relaxed).littleEndian) {
                bytes.append(contentsOf: $0)
            }
        }
        let name = bytes.prefix { $0 != 0 }
        guard Checksum.fnv1a(name) == hash else { return nil }
        return Entry(number: number, name: String(decoding: name, as: UTF8.self), hash: hash)
    }

    private func write(_ name: String, _ number: Int) -> Bool {
        let utf8 = Array(name.utf8)
        guard !utf8.isEmpty, utf8.count <= Self.nameSize, !utf8.contains(0) else { return false }
        entryWord(number, 0).pointee.store(0, ordering: .releasing)
        let padded = utf8 + [UInt8](repeating: 0, count: Self.nameSize - utf8.count)
        for index in 0..<Self.nameSize / 8 {
            let word = padded[index * 8..<index * 8 + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            entryWord(number, index + 1).pointee.store(word, ordering: .relaxed)
        }
        entryWord(number, 0).pointee.store(Checksum.fnv1a(utf8), ordering: .releasing)
        return true
    }
}
