import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A claimed slot in a control block. It belongs to this process until `leave()`.
package final class Participant: Sendable {
    package let block: ControlBlock
    package let slot: Slot
    package let identity: ProcessIdentity
    let ownerWord: UInt64

    /// The owner that the change ring's records of this participant's commits name.
    package var owner: OwnerWord { OwnerWord(rawValue: ownerWord) }

    /// Claims a slot and fills it (rules P1, P2).
    ///
    /// - throws: `full` if no slot is free and none belongs to a dead owner.
    package init(
        in block: ControlBlock,
        author: String,
        traits: ParticipantTraits
    ) throws(ControlBlock.Unusable) {
        let identity = ProcessIdentity.current
        let incarnation = block.nextIncarnation.pointee.wrappingAdd(1, ordering: .relaxed).newValue
        let ownerWord = OwnerWord(pid: identity.pid, incarnation: UInt32(truncatingIfNeeded: incarnation)).rawValue
        guard let (slot, isLocked) = Self.claim(in: block, ownerWord: ownerWord, identity: identity) else {
            throw .full
        }
        self.block = block
        self.slot = slot
        self.identity = identity
        self.ownerWord = ownerWord

        block.leaveQueue(slot)
        slot[.writingSince] = 0
        slot[.lingerUntil] = 0
        slot[.turnsTaken] = 0
        slot[.longestWait] = 0
        slot[.oldestReadSince] = 0
        slot[.askedToAdvance] = 0
        slot[.commandsFolder] = 0
        slot[.companionStamp] = 0
        slot.answered.pointee.store(block.lastQuestion, ordering: .releasing)
        slot[.namespace] = identity.namespace
        slot[.startTime] = identity.startTime
        slot[.joinedAt] = UInt64(max(0, time(nil)))
        slot.author = author
        slot.setCallSite(.unknown)
        var traits = traits
        traits.incarnation = OwnerWord(rawValue: ownerWord).incarnation
        traits.isLocked = isLocked
        slot.traits = traits
    }

    deinit { block.locks.drop(slot.index, of: ownerWord) }

    /// Claims a free slot, or else the slot of a dead owner. Also returns whether the slot's lock is held.
    private static func claim(in block: ControlBlock, ownerWord: UInt64, identity: ProcessIdentity) -> (Slot, Bool)? {
        for slot in block.slots where slot.owner.pointee.load(ordering: .relaxed) == 0 {
            if let isLocked = take(slot, in: block, from: 0, to: ownerWord) { return (slot, isLocked) }
        }
        for slot in block.slots {
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            guard owner != 0, block.liveness(of: slot, owner: owner, seenFrom: identity) == .dead,
                let isLocked = take(slot, in: block, from: owner, to: ownerWord)
            else { continue }
            block.count(.slotsReclaimed)
            return (slot, isLocked)
        }
        return nil
    }

    /// - returns: whether the slot is locked; nil when another participant owns it.
    private static func take(_ slot: Slot, in block: ControlBlock, from old: UInt64, to new: UInt64) -> Bool? {
        block.locks.take(slot.index, for: new) { slot.swapOwner(from: old, to: new) }
    }

    /// Whether this participant still owns the slot (rule P6), and the block is usable.
    package var isSeated: Bool {
        block.isIntact && slot.owner.pointee.load(ordering: .acquiring) == ownerWord
    }

    package func setState(_ state: ParticipantTraits.State) {
        guard isSeated else { return }
        slot.changeTraits { $0.state = state }
    }

    /// Shows other participants whether this one refuses its own writes (rule S9). Safe from any thread.
    package func show(refusesWrites: Bool) {
        guard isSeated, slot.traits.refusesWrites != refusesWrites else { return }
        slot.changeTraits { $0.refusesWrites = refusesWrites }
    }

    /// Sets the priority in the queue (rule T3), which may be raised meanwhile. Called on the writer's queue.
    func setPriority(_ priority: () -> UInt8) {
        guard isSeated else { return }
        while true {
            let present = priority()
            if slot.traits.priority != present { slot.changeTraits { $0.priority = present } }
            // Whoever wants a more urgent one later raises that which was set.
            if priority() == present { return }
        }
    }

    /// Raises the priority in the queue, unless it is as urgent already (rule T3). Safe from any thread.
    func raisePriority(to priority: UInt8) {
        guard isSeated else { return }
        // Exchanged in any case, because `setPriority` sees what came before an exchange that came before its own.
        slot.changeTraits { $0.priority = min($0.priority, priority) }
    }

    /// Shows other participants a wait for SQLite's lock within the turn, if it is the longest. Called on the writer's queue.
    package func note(wait: Nanoseconds) {
        guard isSeated, wait > slot[.longestWait] else { return }
        slot[.longestWait] = wait
    }

    /// Shows other participants the folder whose commands this one applies; nil: it applies none (rule X14).
    package func showCommandsFolder(_ folder: FileIdentity?) {
        guard isSeated else { return }
        slot[.commandsFolder] = folder?.inode ?? 0
    }

    /// Shows other participants which files this one has open (rule P15).
    package func show(_ files: FileStamps) {
        guard isSeated else { return }
        slot[.databaseStamp] = files.database
        slot[.companionStamp] = UInt64(OwnerWord(rawValue: ownerWord).incarnation) << 32 | UInt64(files.companions)
    }

    /// Shows that this participant runs (rule P16).
    func answer(_ question: UInt32) {
        guard isSeated else { return }
        slot.answered.pointee.store(question, ordering: .releasing)
    }

    /// Releases the slot. If the participant held the turn, it must have passed it on before (rule P5).
    package func leave() {
        defer { block.locks.drop(slot.index, of: ownerWord) }
        guard isSeated else { return }
        block.leaveQueue(slot)
        slot[.writingSince] = 0
        _ = slot.swapOwner(from: ownerWord, to: 0)
    }
}

/// The pid and incarnation of a slot's owner.
package struct OwnerWord: Hashable, Sendable {
    let rawValue: UInt64
    init(rawValue: UInt64) { self.rawValue = rawValue }
    package init(pid: Int32, incarnation: UInt32) {
        rawValue = UInt64(UInt32(bitPattern: pid)) << 32 | UInt64(incarnation)
    }
    package var pid: Int32 { Int32(bitPattern: UInt32(rawValue >> 32)) }
    var incarnation: UInt32 { UInt32(truncatingIfNeeded: rawValue) }

    /// The word as a column of a table has it.
    package var stored: Int64 { Int64(bitPattern: rawValue) }
    package init(stored: Int64) { rawValue = UInt64(bitPattern: stored) }
}

extension Slot {
    func swapOwner(from old: UInt64, to new: UInt64) -> Bool {
        owner.pointee.compareExchange(expected: old, desired: new, ordering: .sequentiallyConsistent).exchanged
    }
}
