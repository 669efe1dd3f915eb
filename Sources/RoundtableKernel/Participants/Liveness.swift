import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Whether a process lives, as far as the system shows it.
package enum Liveness: Equatable, Sendable {
    case alive
    case stopped
    case dead
    /// The system does not show whether the process lives. This is never treated as dead (rule P4).
    case unknown
}

extension ProcessIdentity {
    /// The liveness that the pid shows (rule P4). It is *unknown* in another pid namespace. `reader` is the process that asks.
    package func liveness(seenFrom reader: ProcessIdentity) -> Liveness {
        guard namespace == reader.namespace, pid > 0 else { return .unknown }
        // Two namespaces that could not be read are not known to be the same.
        if namespace == 0, ProcessTable.hasNamespaces { return .unknown }
        if self == reader, startTime != 0 { return .alive }
        do {
            try System.perform(.kill) { kill(pid, 0) }
        } catch let error as SystemError {
            if error.errno == ESRCH { return .dead }
            if error.errno != EPERM { return .unknown }
        } catch {
            return .unknown
        }
        // If `/proc` belongs to another pid namespace, the entry is that of another process.
        guard ProcessTable.showsOwnNamespace, let entry = ProcessTable.entry(pid) else { return .unknown }
        if entry.isZombie { return .dead }
        if startTime != 0, entry.startTime != 0, entry.startTime != startTime { return .dead }
        return entry.isStopped ? .stopped : .alive
    }
}

extension ControlBlock {
    /// The liveness of a slot's owner (rule P4).
    ///
    /// - parameter ownerWord: the slot's owner word, as it was just read.
    func liveness(of slot: Slot, owner ownerWord: UInt64, seenFrom reader: ProcessIdentity) -> Liveness {
        let word = OwnerWord(rawValue: ownerWord)
        guard ownerWord != 0, word.pid > 0 else { return .dead }
        // While a claim is in progress, the slot may hold the start time of a former owner.
        let traits = slot.traits
        let isFilled = traits.incarnation == word.incarnation
        let identity = ProcessIdentity(
            pid: word.pid,
            startTime: isFilled ? slot[.startTime] : 0,
            namespace: isFilled ? slot[.namespace] : reader.namespace
        )
        // The pid is asked before the lock, because a child of `fork` may keep the lock of a dead parent.
        var liveness = identity.liveness(seenFrom: reader)
        if !isFilled {
            // The owner's namespace is unknown as well, so its pid proves nothing against a lock that is held.
            if locks.isHeld(slot.index) == true { liveness = .alive }
        } else if liveness == .unknown, traits.isLocked {
            liveness = locks.isHeld(slot.index).map { $0 ? .alive : .dead } ?? .unknown
        }
        // The fields belong to this owner only if it is still the owner (rule P3).
        return slot.owner.pointee.load(ordering: .acquiring) == ownerWord ? liveness : .unknown
    }

    /// Whether a participant is left that is not dead.
    package func hasLivingParticipant(seenFrom reader: ProcessIdentity = .current) -> Bool {
        slots.contains { slot in
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            return owner != 0 && liveness(of: slot, owner: owner, seenFrom: reader) != .dead
        }
    }
}
