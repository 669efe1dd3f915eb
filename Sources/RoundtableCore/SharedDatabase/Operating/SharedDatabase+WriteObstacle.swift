import RoundtableKernel

extension SharedDatabase {
    /// What keeps this participant from writing, as a sentence; nil if writes succeed, or if this cannot be seen without a control block.
    ///
    /// A holder of the turn that is stopped is an obstacle at once. Otherwise, a participant has to hold the turn for longer than
    /// `limit`, or a write of this participant has to wait for longer. A program that does not use Roundtable is therefore found only
    /// when a participant waits for its lock. It takes no lock, and is safe in all threads.
    package func writeObstacle(longerThan limit: Duration) -> String? {
        guard let block = longReads.controlBlock else { return nil }
        let limit = limit.nanoseconds
        let slot = seat.participant?.slot.index
        let participants = block.participants().filter { $0.liveness != .dead }
        let isBlocked = participants.contains { participant in
            if let writing = participant.writing, writing > limit || participant.liveness == .stopped { return true }
            return participant.slot == slot && participant.waiting ?? 0 > limit
        }
        guard isBlocked else { return nil }
        return LockHolder.find(databasePath: path, among: participants).description()
    }
}
