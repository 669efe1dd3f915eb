/// A control block of another layout version beside the same database. The programs that use it have their own queue and change ring
/// (rule L1).
package struct OtherControlBlock: Equatable, Sendable {
    package let path: String
    package let version: UInt32
    /// The processes that own a slot in the block and are not proven dead, in ascending order.
    package let pids: [Int32]

    /// All such control blocks of a database, sorted by version, without those of users who may not write the database (rule B7). This function
    /// reads the files and changes nothing.
    package static func all(besideDatabaseAt databasePath: String) -> [OtherControlBlock] {
        let (folder, name) = System.place(of: databasePath)
        let names = (try? System.names(inFolder: folder)) ?? []
        return names.filter { isName($0, of: name + ControlBlock.kind) }
            .compactMap { OtherControlBlock("\(folder)/\($0)", databasePath) }
            .sorted { $0.version < $1.version }
    }

    /// Whether `name` is that of another version's control block. Before version 4, the name had no number.
    private static func isName(_ name: String, of beginning: String) -> Bool {
        guard name.hasPrefix(beginning) else { return false }
        let number = name.dropFirst(beginning.count)
        return number.allSatisfy { $0.isASCII && $0.isNumber } && number != "\(Layout.version)"
    }

    private init?(_ path: String, _ databasePath: String) {
        let contents = try? System.contents(
            ofFileAt: path,
            limit: Self.limit,
            followingLinks: false,
            notOf: databasePath,
            isAccepted: { try ControlBlock.mayUse($0, besideDatabaseAt: databasePath) }
        )
        guard let contents else { return nil }
        let bytes = Bytes(all: contents)
        guard bytes.word(at: Layout.Header.magic) == Layout.magic,
            let version = bytes.halfWord(at: Layout.Header.version)
        else { return nil }
        self.path = path
        self.version = version
        pids = bytes.pids()
    }

    private static let limit = 1 << 20
}

// Rule L6: All layout versions have in common: the words of the seal, slots that follow the header, and the first 32 bytes of a slot. So a
// program can tell whether a block named `NAME-coord` with digits or nothing is in use. It is read, at most its first MiB, and not mapped.

/// The contents of a control block, read with what all layout versions have in common: the seal, and the first words of a slot
/// (rule L6).
private struct Bytes {
    let all: [UInt8]

    /// The number of bytes at the start of a slot that all layout versions have in common.
    private static let commonSize = 32

    func halfWord(at offset: Int) -> UInt32? { number(at: offset) }
    func word(at offset: Int) -> UInt64? { number(at: offset) }

    private func number<Number: FixedWidthInteger>(at offset: Int) -> Number? {
        let size = MemoryLayout<Number>.size
        guard offset + size <= all.count else { return nil }
        return all[offset..<offset + size].reversed().reduce(0) { $0 << 8 | Number($1) }
    }

    func pids() -> [Int32] {
        guard let start = halfWord(at: Layout.Header.headerSize), let size = halfWord(at: Layout.Header.slotSize),
            let count = halfWord(at: Layout.Header.slotCount), size >= Self.commonSize
        else { return [] }
        let reader = ProcessIdentity.current
        var pids: Set<Int32> = []
        for index in 0..<min(Int(count), max(0, all.count - Int(start)) / Int(size)) {
            guard let owner = owner(ofSlotAt: Int(start) + index * Int(size), seenFrom: reader) else { continue }
            if owner.liveness(seenFrom: reader) != .dead { pids.insert(owner.pid) }
        }
        return pids.sorted()
    }

    /// The owner of a slot; nil if it has none. An owner that has not filled its slot yet is known by its pid alone (rule P4).
    private func owner(ofSlotAt offset: Int, seenFrom reader: ProcessIdentity) -> ProcessIdentity? {
        guard let word = word(at: offset + Layout.Slot.owner).map(OwnerWord.init), word.pid > 0,
            let traits = self.word(at: offset + Layout.Slot.description).map(ParticipantTraits.init),
            let startTime = self.word(at: offset + Layout.SlotNumber.startTime.rawValue),
            let namespace = self.word(at: offset + Layout.SlotNumber.namespace.rawValue)
        else { return nil }
        let isFilled = traits.incarnation == word.incarnation
        return ProcessIdentity(
            pid: word.pid,
            startTime: isFilled ? startTime : 0,
            namespace: isFilled ? namespace : reader.namespace
        )
    }
}
