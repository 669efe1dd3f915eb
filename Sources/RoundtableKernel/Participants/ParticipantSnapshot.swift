/// What the control block tells of one participant, at one moment.
package struct ParticipantSnapshot: Sendable, Equatable {
    package let slot: Int
    package let pid: Int32
    package let author: String
    package let role: ParticipantTraits.Role
    package let state: ParticipantTraits.State
    package let priority: UInt8
    package let liveness: Liveness
    /// Whether its pid is one of another pid namespace than the reader's.
    package let isElsewhere: Bool
    /// How long it has been waiting for the turn; nil when it is not.
    package let waiting: Nanoseconds?
    /// How long it has been writing; nil when it is not.
    package let writing: Nanoseconds?
    package let callSite: String?
    package let hasTurn: Bool
    package let turnsTaken: UInt64
    package let longestWait: Nanoseconds
    /// Seconds since 1970.
    package let joinedAt: UInt64
    package let oldestRead: OldestRead?
    /// Where in the code that read began.
    package let readCallSite: String?
    /// The inode of the folder whose commands it applies; 0: none.
    package let commandsFolder: UInt64
    package let startTime: UInt64
    package let owner: OwnerWord

    /// Whether the process with this pid, as it is seen here, is the participant's.
    package func isProcess(_ seen: Int32) -> Bool {
        ProcessTable.isProcess(seen, pid, startTime: startTime, isElsewhere: isElsewhere)
    }

    /// As `'app' (pid 17)`.
    package var name: String { "'\(author)' (\(ProcessTable.description(ofPID: pid, isElsewhere: isElsewhere)))" }
}

extension ControlBlock {
    /// All participants, the dead ones that nobody has cleared yet included (rule P3).
    package func participants(seenFrom reader: ProcessIdentity = .current) -> [ParticipantSnapshot] {
        let now = MonotonicClock.now
        let turn = Turn(rawValue: self.turn.pointee.load(ordering: .acquiring))
        return slots.compactMap { slot in
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            guard owner != 0 else { return nil }
            let ticket = slot.ticket.pointee.load(ordering: .acquiring)
            let traits = slot.traits
            let isFilled = traits.incarnation == OwnerWord(rawValue: owner).incarnation
            let snapshot = ParticipantSnapshot(
                slot: slot.index,
                pid: OwnerWord(rawValue: owner).pid,
                author: slot.author,
                role: traits.role,
                state: traits.state,
                priority: traits.priority,
                liveness: liveness(of: slot, owner: owner, seenFrom: reader),
                isElsewhere: isFilled && slot[.namespace] != reader.namespace,
                waiting: ticket == 0 ? nil : now.subtractingSaturating(slot[.waitingSince]),
                writing: slot[.writingSince] == 0 ? nil : now.subtractingSaturating(slot[.writingSince]),
                callSite: slot.callSite,
                hasTurn: turn.slot == slot.index && turn.phase != .lingering,
                turnsTaken: slot[.turnsTaken],
                longestWait: slot[.longestWait],
                joinedAt: slot[.joinedAt],
                oldestRead: slot.oldestRead,
                readCallSite: slot.readCallSite,
                commandsFolder: slot[.commandsFolder],
                startTime: slot[.startTime],
                owner: OwnerWord(rawValue: owner)
            )
            return slot.owner.pointee.load(ordering: .acquiring) == owner ? snapshot : nil
        }
    }

    /// Frees the slots of the dead, and takes the stopped out of the queue (rule T9), so that the others lose patience
    /// once for all of them.
    package func clearQueue(seenFrom reader: ProcessIdentity) {
        for slot in slots {
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            guard owner != 0 else {
                // A phantom: garbage, or left by somebody who wrote after it had lost the slot.
                if slot.ticket.pointee.load(ordering: .relaxed) != 0 { leaveQueue(slot) }
                continue
            }
            switch liveness(of: slot, owner: owner, seenFrom: reader) {
            case .dead:
                // The ticket first: once the owner word is 0, the slot may be another's.
                leaveQueue(slot)
                if slot.swapOwner(from: owner, to: 0) { count(.slotsReclaimed) }
            case .stopped where slot.ticket.pointee.load(ordering: .relaxed) != 0:
                leaveQueue(slot)
                count(.waitersEvicted)
            case .alive, .stopped, .unknown:
                break
            }
        }
    }

    /// Whether the queue has not been cleared for `interval`: one of many who wait does it for all.
    func mayClearQueue(at now: Nanoseconds, interval: Nanoseconds) -> Bool {
        let word = word(at: Layout.Header.queueCleared)
        let last = word.pointee.load(ordering: .relaxed)
        // A time in the future is garbage (rule G2).
        guard last > now || now - last >= interval else { return false }
        return word.pointee.compareExchange(expected: last, desired: now, ordering: .relaxed).exchanged
    }

    /// Whether some slots belong to processes that cannot be judged from here (rule P4).
    func hasUnknownOwners(seenFrom reader: ProcessIdentity) -> Bool {
        slots.contains { slot in
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            return owner != 0 && liveness(of: slot, owner: owner, seenFrom: reader) == .unknown
        }
    }

    /// Whether the owner of a slot, or of a record of the change ring, may still act: it is neither dead nor stopped.
    package func isRunning(_ owner: OwnerWord) -> Bool {
        let slot = slots.first { $0.owner.pointee.load(ordering: .acquiring) == owner.rawValue }
        // Without a slot, there is its pid alone.
        guard let slot else { return ProcessTable.isRunning(owner.pid) }
        let liveness = liveness(of: slot, owner: owner.rawValue, seenFrom: .current)
        return liveness == .alive || liveness == .unknown
    }

    private func leaveQueue(_ slot: Slot) {
        slot.ticket.pointee.store(0, ordering: .sequentiallyConsistent)
        lowerWaitingBit(slot.index)
    }
}
