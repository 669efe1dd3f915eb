import Synchronization

extension ControlBlock {
    /// The waiters in the queue, best first: by priority, which waiting raises, then by ticket (rule T3).
    ///
    /// - parameter now: reads the clock; called only if there are waiters.
    func waiters(_ now: () -> Nanoseconds) -> [TurnMachine.Waiter] {
        if !hasWaiters { return [] }
        var ranked: [(level: UInt64, waiter: TurnMachine.Waiter)] = []
        var time: Nanoseconds?
        forEachWaitingSlot { index in
            let slot = slot(index)
            let ticket = slot.ticket.pointee.load(ordering: .sequentiallyConsistent)
            guard ticket != 0 else { return }
            let now = time ?? now()
            time = now
            let levels = now.subtractingSaturating(slot[.waitingSince]) / TurnSettings.ageing
            let level = UInt64(min(slot.traits.priority, 8)).subtractingSaturating(levels)
            ranked.append((level, TurnMachine.Waiter(slot: index, ticket: ticket)))
        }
        if ranked.count > 1 {
            ranked.sort { ($0.level, $0.waiter.ticket) < ($1.level, $1.waiter.ticket) }
        }
        return ranked.map(\.waiter)
    }
}
