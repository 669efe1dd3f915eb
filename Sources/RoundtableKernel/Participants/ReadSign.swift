/// Keeps what a participant's slot says of its oldest read (rule O2), and writes there only what is new. Confined to one
/// lock.
package struct ReadSign {
    private let seat: Seat
    private var participant: Participant?
    private var seen: UInt64 = .max
    private var shown: OldestRead?
    /// What the slot says already.
    private var site: CallSite?

    package init(of seat: Seat) { self.seat = seat }

    /// - parameter read: nil: there is none.
    package mutating func show(_ read: OldestRead?, at newSite: CallSite?) {
        let changes = seat.changes
        if changes != seen {
            // Another seat is told anew.
            participant = seat.participant
            seen = changes
            shown = nil
            site = nil
        } else if read == shown, read == nil || site?.isSame(as: newSite ?? .unknown) == true {
            return
        }
        shown = read
        guard let participant, participant.isSeated else { return }
        let slot = participant.slot
        slot.hideRead()
        guard let read else { return }
        let newSite = newSite ?? .unknown
        if site?.isSame(as: newSite) != true {
            site = newSite
            slot.setReadCallSite(newSite)
        }
        slot.show(read)
    }

    /// When it was asked to advance, by the one who checkpoints (rule K8); nil when it was not.
    package var askedToAdvance: Nanoseconds? {
        guard let participant, participant.isSeated else { return nil }
        let time = participant.slot[.askedToAdvance]
        return time == 0 ? nil : time
    }
}
