import Synchronization

/// The memory that all participants of one database share: a small file beside the database, mapped by each.
///
/// All of its contents are advice (rule G1), and all may be garbage (rule G2). Every word but the seal is an atomic, so the
/// block is safe to use from any thread.
package final class ControlBlock: @unchecked Sendable {
    // @unchecked: the pointer is constant, and the memory behind it is accessed through atomics only (rule B4).
    package let path: String
    package let file: MappedFile
    let base: UnsafeMutableRawPointer
    let locks: SlotLocks

    init(path: String, file: MappedFile) {
        self.path = path
        self.file = file
        self.locks = SlotLocks(path: path, file: file)
        self.base = file.base
    }

    /// The part of the file name's ending that all layout versions have in common.
    static let kind = "-coord"

    /// The ending that the control block's file name appends to the database's name. Each layout version has its own file (rule L1).
    package static let ending = "\(kind)\(Layout.version)"

    /// The path of a database's control block.
    package static func path(forDatabaseAt databasePath: String) -> String { databasePath + ending }

    // MARK: Words

    func word(at offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        (base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    func halfWord(at offset: Int) -> UnsafeMutablePointer<Atomic<UInt32>> {
        (base + offset).assumingMemoryBound(to: Atomic<UInt32>.self)
    }

    var turn: UnsafeMutablePointer<Atomic<UInt64>> { word(at: Layout.Header.turn) }
    var nextTicket: UnsafeMutablePointer<Atomic<UInt64>> { word(at: Layout.Header.nextTicket) }
    var nextIncarnation: UnsafeMutablePointer<Atomic<UInt64>> { word(at: Layout.Header.nextIncarnation) }

    package func slot(_ index: Int) -> Slot {
        precondition(index >= 0 && index < Layout.slotCount, "slot \(index) of \(Layout.slotCount)")
        return Slot(index: index, blockBase: base)
    }

    package var slots: some Sequence<Slot> {
        (0..<Layout.slotCount).lazy.map { [base] in Slot(index: $0, blockBase: base) }
    }

    /// The owner of the slot that the turn word names; nil when the turn is free.
    package var turnOwner: OwnerWord? {
        let turn = Turn(rawValue: turn.pointee.load(ordering: .acquiring))
        guard turn.phase != .free, let index = turn.slot else { return nil }
        let owner = slot(index).owner.pointee.load(ordering: .acquiring)
        return owner == 0 ? nil : OwnerWord(rawValue: owner)
    }

    // MARK: Waiting bits

    func raiseWaitingBit(_ index: Int) {
        word(at: Layout.Header.waitingBits + index / 64 * 8).pointee
            .bitwiseOr(1 << UInt64(index % 64), ordering: .sequentiallyConsistent)
    }

    /// Withdraws the ticket of a slot, and lowers its waiting bit.
    func leaveQueue(_ slot: Slot) {
        slot.ticket.pointee.store(0, ordering: .sequentiallyConsistent)
        word(at: Layout.Header.waitingBits + slot.index / 64 * 8).pointee
            .bitwiseAnd(~(1 << UInt64(slot.index % 64)), ordering: .sequentiallyConsistent)
    }

    /// Whether any waiting bit is set.
    var hasWaiters: Bool {
        (0..<Layout.waitingWords).contains { number in
            word(at: Layout.Header.waitingBits + number * 8).pointee.load(ordering: .sequentiallyConsistent) != 0
        }
    }

    /// Calls `body` with the index of each slot whose waiting bit is set.
    func forEachWaitingSlot(_ body: (Int) -> Void) {
        for number in 0..<Layout.waitingWords {
            var bits = word(at: Layout.Header.waitingBits + number * 8).pointee.load(ordering: .sequentiallyConsistent)
            while bits != 0 {
                body(number * 64 + bits.trailingZeroBitCount)
                bits &= bits - 1
            }
        }
    }

    // MARK: Counters

    package enum Counter: Int, CaseIterable, Sendable {
        case grants, turnsSteppedOver, waitersEvicted, slotsReclaimed
        case checkpoints, walRestarts, checkpointsHeldUp, checkpointsByWriters
    }

    private func pointer(_ counter: Counter) -> UnsafeMutablePointer<Atomic<UInt64>> {
        let ofCheckpoints = counter.rawValue - Counter.checkpoints.rawValue
        return ofCheckpoints >= 0
            ? word(at: Layout.Header.checkpoints + ofCheckpoints * 8)
            : word(at: Layout.Header.grants + counter.rawValue * 8)
    }

    package func count(_ counter: Counter) {
        pointer(counter).pointee.wrappingAdd(1, ordering: .relaxed)
    }

    package func value(of counter: Counter) -> UInt64 {
        pointer(counter).pointee.load(ordering: .relaxed)
    }
}
