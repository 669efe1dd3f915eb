import RoundtableKernel

extension SharedDatabase {
    /// What keeps this participant from writing, as a sentence; nil if writes succeed, or if this cannot be seen without a control block.
    ///
    /// A holder of the turn that is stopped is an obstacle at once. Otherwise, a participant has to hold the turn for longer than
    /// `limit`, or a write of this participant has to wait for longer, or for half of its busy timeout. A program that does not use
    /// Roundtable is therefore found only when a participant waits for its lock. It takes no lock, and is safe in all threads.
    package func writeObstacle(longerThan limit: Duration) -> String? {
        guard let block = longReads.controlBlock else { return nil }
        let limit = limit.nanoseconds
        let waitLimit = min(limit, options.busyTimeout.nanoseconds / 2)
        let slot = seat.participant?.slot.index
        let participants = block.participants().filter { $0.liveness != .dead }
        func holder() -> LockHolder { LockHolder.find(databasePath: path, among: participants) }
        var mayWaitForAStranger = false
        for participant in participants {
            if let writing = participant.writing {
                if writing > limit || participant.liveness == .stopped { return holder().description() }
                // Within its turn, it waits for programs without turns.
                if participant.slot == slot, writing > waitLimit { mayWaitForAStranger = true }
            }
            if participant.slot == slot, participant.waiting ?? 0 > waitLimit { return holder().description() }
        }
        guard mayWaitForAStranger, case .stranger = holder().party else { return nil }
        return holder().description()
    }
}
