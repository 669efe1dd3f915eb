import Synchronization

/// A copy of what the control block shows of one participant.
package struct ParticipantRecord: Sendable, Equatable {
    package let slot: Int
    package let pid: Int32
    package let author: String
    package let role: ParticipantTraits.Role
    package let state: ParticipantTraits.State
    /// Whether it refuses its own writes, because it does not know a migration of the database.
    package let refusesWrites: Bool
    package let priority: UInt8
    package let liveness: Liveness
    /// Whether its pid belongs to another pid namespace than the reader's.
    package let isElsewhere: Bool
    /// How long the participant has been waiting for the turn, in ns; nil when it is not waiting.
    package let waiting: Nanoseconds?
    /// How long the participant has been writing, in ns; nil when it is not writing.
    package let writing: Nanoseconds?
    package let callSite: String?
    package let hasTurn: Bool
    package let turnsTaken: UInt64
    package let longestWait: Nanoseconds
    /// Seconds since 1970.
    package let joinedAt: UInt64
    package let oldestRead: OldestRead?
    /// The call site of the oldest read.
    package let readCallSite: String?
    /// The inode of the folder whose commands the participant applies; 0: none.
    package let commandsFolder: UInt64
    /// The files that the participant has open; nil when it does not show them.
    package let files: FileStamps?
    package let startTime: UInt64
    package let owner: OwnerWord

    /// Whether the process with this pid, in the reader's namespace, is the participant's process.
    package func isProcess(_ seen: Int32) -> Bool {
        ProcessTable.isProcess(seen, pid, startTime: startTime, isElsewhere: isElsewhere)
    }

    /// The author and the process, for example `'app' (pid 17)`.
    package var name: String { "'\(author)' (\(ProcessTable.description(ofPID: pid, isElsewhere: isElsewhere)))" }
}

extension ControlBlock {
    /// All participants, including dead ones whose slots have not been freed (rule P3).
    package func participants(seenFrom reader: ProcessIdentity = .current) -> [ParticipantRecord] {
        let now = MonotonicClock.now
        let turn = Turn(rawValue: self.turn.pointee.load(ordering: .acquiring))
        return slots.compactMap { slot in
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            guard owner != 0 else { return nil }
            let ticket = slot.ticket.pointee.load(ordering: .acquiring)
            let traits = slot.traits
            let isFilled = traits.incarnation == OwnerWord(rawValue: owner).incarnation
            let snapshot = ParticipantRecord(
                slot: slot.index,
                pid: OwnerWord(rawValue: owner).pid,
                author: slot.author,
                role: traits.role,
                state: traits.state,
                refusesWrites: traits.refusesWrites,
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
                files: slot.files(of: OwnerWord(rawValue: owner)),
                startTime: slot[.startTime],
                owner: OwnerWord(rawValue: owner)
            )
            return slot.owner.pointee.load(ordering: .acquiring) == owner ? snapshot : nil
        }
    }

    /// Frees the slots of dead participants, and removes stopped ones from the queue (rule T9). The waiters then lose patience
    /// once, and not once for each of them.
    package func clearQueue(seenFrom reader: ProcessIdentity) {
        for slot in slots {
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            guard owner != 0 else {
                // A free slot with a ticket is garbage, or was written by a former owner after it had lost the slot.
                if slot.ticket.pointee.load(ordering: .relaxed) != 0 { leaveQueue(slot) }
                continue
            }
            switch liveness(of: slot, owner: owner, seenFrom: reader) {
            case .dead:
                // The ticket is cleared first, because another participant may own the slot once the owner word is 0.
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

    /// Whether the caller is to clear the queue, because it has not been cleared for `interval`. One of many waiters gets true.
    func mayClearQueue(at now: Nanoseconds, interval: Nanoseconds) -> Bool {
        let word = word(at: Layout.Header.queueCleared)
        let last = word.pointee.load(ordering: .relaxed)
        // A time in the future is garbage (rule G2).
        guard last > now || now - last >= interval else { return false }
        return word.pointee.compareExchange(expected: last, desired: now, ordering: .relaxed).exchanged
    }

    /// Whether some slots belong to processes whose liveness cannot be determined from here (rule P4).
    func hasUnknownOwners(seenFrom reader: ProcessIdentity) -> Bool {
        slots.contains { slot in
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            return owner != 0 && liveness(of: slot, owner: owner, seenFrom: reader) == .unknown
        }
    }

    /// Whether the owner of a slot, or of a record of the change ring, may still act, because it is neither dead nor stopped.
    package func isRunning(_ owner: OwnerWord) -> Bool {
        let slot = slots.first { $0.owner.pointee.load(ordering: .acquiring) == owner.rawValue }
        // Without a slot, only the pid shows whether the owner runs.
        guard let slot else { return ProcessTable.isRunning(owner.pid) }
        let liveness = liveness(of: slot, owner: owner.rawValue, seenFrom: .current)
        return liveness == .alive || liveness == .unknown
    }

    /// The database and companions that participants show, the dead included (rule P15). Unlike `participants()`, it asks the system nothing.
    package var shownFiles: [FileStamps] {
        slots.compactMap { slot in
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            return owner == 0 ? nil : slot.files(of: OwnerWord(rawValue: owner))
        }
        .filter(\.areComplete)
    }
}

extension Slot {
    /// The files that an owner of this slot shows (rule P15); nil when it shows none, or a former owner has left them.
    fileprivate func files(of owner: OwnerWord) -> FileStamps? {
        let companions = self[.companionStamp]
        guard companions >> 32 == UInt64(owner.incarnation), companions != 0 else { return nil }
        return FileStamps(database: self[.databaseStamp], companions: UInt32(truncatingIfNeeded: companions))
    }
}
