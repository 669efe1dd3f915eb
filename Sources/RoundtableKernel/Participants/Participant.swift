import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A claimed slot: this process's place in a control block, until `leave()`.
package final class Participant: Sendable {
    package let block: ControlBlock
    package let slot: Slot
    package let identity: ProcessIdentity
    let ownerWord: UInt64

    /// What the records of its commits in the change ring name as their owner.
    package var owner: OwnerWord { OwnerWord(rawValue: ownerWord) }

    /// Claims a slot (rules P1, P2).
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

        slot.ticket.pointee.store(0, ordering: .sequentiallyConsistent)
        block.lowerWaitingBit(slot.index)
        slot[.writingSince] = 0
        slot[.lingerUntil] = 0
        slot[.turnsTaken] = 0
        slot[.longestWait] = 0
        slot[.oldestReadSince] = 0
        slot[.askedToAdvance] = 0
        slot[.commandsFolder] = 0
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

    /// A free slot, else the slot of a dead owner; and whether its lock could be taken.
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

    /// The lock comes first (rule P9): so a slot without it is never that of a living owner who can lock.
    ///
    /// - returns: nil when the slot is another's; else whether it is locked.
    private static func take(_ slot: Slot, in block: ControlBlock, from old: UInt64, to new: UInt64) -> Bool? {
        switch block.locks.take(slot.index, for: new, claim: { slot.swapOwner(from: old, to: new) }) {
        case .failed: nil
        case .locked: true
        case .unlocked: false
        }
    }

    /// Whether the slot is still ours (rule P6), in a block that can be used.
    package var isSeated: Bool {
        block.isIntact && slot.owner.pointee.load(ordering: .acquiring) == ownerWord
    }

    package func setState(_ state: ParticipantTraits.State) {
        guard isSeated else { return }
        slot.traits.state = state
    }

    /// Rule T3.
    package func setPriority(_ priority: UInt8) {
        guard isSeated, slot.traits.priority != priority else { return }
        slot.traits.priority = priority
    }

    /// Shows others that this participant applies the commands that come into a folder; nil: into none (rule X15).
    package func showCommandsFolder(_ folder: FileIdentity?) {
        guard isSeated else { return }
        slot[.commandsFolder] = folder?.inode ?? 0
    }

    /// Gives the slot up. The turn, if we have it, must have been passed on (rule P5).
    package func leave() {
        defer { block.locks.drop(slot.index, of: ownerWord) }
        guard isSeated else { return }
        slot.ticket.pointee.store(0, ordering: .sequentiallyConsistent)
        block.lowerWaitingBit(slot.index)
        slot[.writingSince] = 0
        _ = slot.swapOwner(from: ownerWord, to: 0)
    }
}

/// pid and incarnation of a slot's owner.
package struct OwnerWord: Hashable, Sendable {
    let rawValue: UInt64
    init(rawValue: UInt64) { self.rawValue = rawValue }
    init(pid: Int32, incarnation: UInt32) {
        rawValue = UInt64(UInt32(bitPattern: pid)) << 32 | UInt64(incarnation)
    }
    package var pid: Int32 { Int32(bitPattern: UInt32(rawValue >> 32)) }
    var incarnation: UInt32 { UInt32(truncatingIfNeeded: rawValue) }
}

extension Slot {
    func swapOwner(from old: UInt64, to new: UInt64) -> Bool {
        owner.pointee.compareExchange(expected: old, desired: new, ordering: .sequentiallyConsistent).exchanged
    }
}

extension ControlBlock {
    /// Rule P4, for the owner word of a slot that was just read.
    func liveness(of slot: Slot, owner ownerWord: UInt64, seenFrom reader: ProcessIdentity) -> Liveness {
        let word = OwnerWord(rawValue: ownerWord)
        guard ownerWord != 0, word.pid > 0 else { return .dead }
        // While a claim is in progress, the slot may hold the start time of a predecessor.
        let traits = slot.traits
        let isFilled = traits.incarnation == word.incarnation
        let identity = ProcessIdentity(
            pid: word.pid,
            startTime: isFilled ? slot[.startTime] : 0,
            namespace: isFilled ? slot[.namespace] : reader.namespace
        )
        var liveness = identity.liveness(seenFrom: reader)
        if !isFilled {
            // Its namespace is not known either, so its pid proves nothing against the lock.
            if locks.isHeld(slot.index) == true { liveness = .alive }
        } else if liveness == .unknown, traits.isLocked {
            liveness = locks.isHeld(slot.index).map { $0 ? .alive : .dead } ?? .unknown
        }
        // Rule P3: what was read belongs to this owner only if it still is the owner.
        return slot.owner.pointee.load(ordering: .acquiring) == ownerWord ? liveness : .unknown
    }
}
