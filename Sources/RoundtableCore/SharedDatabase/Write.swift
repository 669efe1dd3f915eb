import RoundtableGate
import RoundtableKernel

extension SharedDatabase {
    /// A requested write.
    package struct Write {
        let site: CallSite?
        /// Whether the write waits for the gate to open. Otherwise it fails.
        let waits: Bool
        /// When the waits for the connection, the turn and SQLite's lock end; nil: as the busy timeout says.
        package var deadline: Nanoseconds?
        /// nil for a group of writes, each of which has a priority of its own (rule M10).
        let priority: TurnPriority?
    }

    /// The write of a blocking function.
    package func blockingWrite(
        _ site: CallSite? = nil,
        _ whileSuspended: WhileSuspended? = nil,
        _ priority: TurnPriority? = nil
    ) -> Write {
        request(site, whileSuspended ?? options.whileSuspended ?? .fail, priority)
    }

    /// The write of a function that is async or returns immediately.
    func waitingWrite(
        _ site: CallSite? = nil,
        _ whileSuspended: WhileSuspended? = nil,
        _ priority: TurnPriority? = nil
    ) -> Write {
        request(site, whileSuspended ?? options.whileSuspended ?? .wait, priority)
    }

    private func request(_ site: CallSite?, _ whileSuspended: WhileSuspended, _ priority: TurnPriority?) -> Write {
        Write(site: site, waits: whileSuspended == .wait, priority: priority ?? options.priority)
    }

    /// A write begins to wait for the turn (rule T3).
    func beginWaiting(_ write: Write) {
        if let priority = write.priority { waitingPriorities.add(priority, seat) }
    }

    /// A write has the turn, or waits no longer.
    func endWaiting(_ write: Write) {
        if let priority = write.priority { waitingPriorities.remove(priority) }
    }
}
