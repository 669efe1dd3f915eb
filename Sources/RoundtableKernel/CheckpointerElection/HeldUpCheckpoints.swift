import Synchronization

/// The checkpointer, and the reads that hold checkpoints up (rules K2, K8, O3 of `docs/PROTOCOL.md`).
extension ControlBlock {
    /// The owner of the checkpointer's slot, which may be dead; nil: there is no checkpointer.
    package var checkpointer: OwnerWord? {
        let word = word(at: Layout.Header.checkpointer).pointee.load(ordering: .acquiring)
        return word == 0 ? nil : OwnerWord(rawValue: word)
    }

    /// Asks the participants to advance whose oldest read keeps frames of the WAL from being copied (rule K8).
    ///
    /// - parameter end: the end of the WAL.
    /// - returns: the number of participants that were asked.
    @discardableResult
    package func askToAdvance(end: WalMark) -> Int {
        let (now, reader) = (MonotonicClock.now, ProcessIdentity.current)
        var asked = 0
        for slot in slots {
            let owner = slot.owner.pointee.load(ordering: .acquiring)
            guard owner != 0, let read = slot.oldestRead, read.mark.framesHeld(now: end) > 0,
                liveness(of: slot, owner: owner, seenFrom: reader) != .dead,
                slot.owner.pointee.load(ordering: .acquiring) == owner
            else { continue }
            slot[.askedToAdvance] = now
            asked += 1
        }
        return asked
    }
}
