import Synchronization

extension ControlBlock {
    /// The owner of the slot that the turn word names; nil when the turn is free.
    package var turnOwner: OwnerWord? {
        let turn = Turn(rawValue: turn.pointee.load(ordering: .acquiring))
        guard turn.phase != .free, let index = turn.slot else { return nil }
        let owner = slot(index).owner.pointee.load(ordering: .acquiring)
        return owner == 0 ? nil : OwnerWord(rawValue: owner)
    }
}
