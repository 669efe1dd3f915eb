/// Shows a participant's oldest read in its slot (rule O2), and skips writes that change nothing. Its owner accesses it under
/// one lock.
package struct ReadSign {
    private let seat: Seat
    private var participant: Participant?
    private var seen: UInt64 = .max
    private var shown: OldestRead?
    /// The call site that the slot already shows.
    private var site: CallSite?

    package init(of seat: Seat) { self.seat = seat }

    /// Shows `read` as the participant's oldest read.
    ///
    /// - parameter read: the oldest read; nil if there is none.
    package mutating func show(_ read: OldestRead?, at newSite: CallSite?) {
        let newSite = newSite ?? .unknown
        let changes = seat.changes
        if changes != seen {
            // A new slot shows nothing yet.
            participant = seat.participant
            seen = changes
            shown = nil
            site = nil
        } else if read == shown, read == nil || site == newSite {
            return
        }
        shown = read
        guard let participant, participant.isSeated else { return }
        let slot = participant.slot
        slot.hideRead()
        guard let read else { return }
        if site != newSite {
            site = newSite
            slot.setReadCallSite(newSite)
        }
        slot.show(read)
    }

    /// When the checkpointer asked the participant to advance (rule K8), in ns of the monotonic clock; nil if it did not.
    package var askedToAdvance: Nanoseconds? {
        guard let participant, participant.isSeated else { return nil }
        let time = participant.slot[.askedToAdvance]
        return time == 0 ? nil : time
    }
}
