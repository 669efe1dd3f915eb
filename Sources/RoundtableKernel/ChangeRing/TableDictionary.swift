import Synchronization

/// The numbers of table names in the ring's records (rule R6), with a copy of what was read or added so far.
///
/// Confined to one thread or queue at a time.
package struct TableDictionary {
    private let block: ControlBlock
    private var numbers: [String: Int] = [:]
    private var names: [Int: String] = [:]

    package init(_ block: ControlBlock) { self.block = block }

    /// The name with a number; nil when the entry is empty or damaged.
    package mutating func name(_ number: Int) -> String? {
        guard number >= 0, number < Layout.tableCount else { return nil }
        if let name = names[number] { return name }
        guard let name = read(number) else { return nil }
        names[number] = name
        return name
    }

    /// The number of a name, which is added if it is new; nil when there is no place for it.
    ///
    /// Only while SQLite's write lock is held (rule R6).
    package mutating func number(adding name: String) -> Int? {
        if let number = numbers[name] { return number }
        let used = Int(clamping: usedWord.pointee.load(ordering: .acquiring))
        for number in 0..<min(used, Layout.tableCount) where read(number) == name {
            numbers[name] = number
            return number
        }
        guard used < Layout.tableCount, write(name, used) else { return nil }
        usedWord.pointee.store(UInt64(used + 1), ordering: .releasing)
        numbers[name] = used
        return used
    }

    // MARK: Entries

    private var usedWord: UnsafeMutablePointer<Atomic<UInt64>> { block.word(at: Layout.Header.tablesInUse) }

    private func entryWord(_ number: Int, _ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        block.word(at: Layout.tables + number * Layout.tableSize + index * 8)
    }

    private static let nameSize = Layout.tableSize - 8

    private func read(_ number: Int) -> String? {
        let hash = entryWord(number, 0).pointee.load(ordering: .acquiring)
        guard hash != 0 else { return nil }
        var bytes: [UInt8] = []
        for index in 1..<Layout.tableSize / 8 {
            withUnsafeBytes(of: entryWord(number, index).pointee.load(ordering: .relaxed).littleEndian) {
                bytes.append(contentsOf: $0)
            }
        }
        let name = bytes.prefix { $0 != 0 }
        return Layout.checksum(name) == hash ? String(decoding: name, as: UTF8.self) : nil
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
        entryWord(number, 0).pointee.store(Layout.checksum(utf8), ordering: .releasing)
        return true
    }
}
