import RoundtableCore
import RoundtableGate
import RoundtableKernel

/// Decides when widgets are reloaded, without side effects, for ``WidgetReloads``.
///
/// The system counts reloads while the app is in the background, and allows a few dozen a day. It does not count reloads while the
/// app is in the foreground; these must only not become a burst. Therefore there are two intervals. The first reload after a stay in
/// the foreground is always made, because the widget would otherwise show something else than what the user has just left.
struct WidgetReloadSchedule {
    enum Action: Equatable {
        case none
        case reload
        /// Call `timeHasCome` at that time.
        case wake(at: Nanoseconds)
    }

    /// The shortest time between two reloads that are not counted.
    let interval: Nanoseconds
    /// The shortest time between two reloads that are counted.
    let countedInterval: Nanoseconds
    private var isPending = false
    private var last: Nanoseconds?
    /// The last reload that was counted, and the number of stays in the foreground before it.
    private var lastCounted: (time: Nanoseconds, stays: Int)?
    /// When `timeHasCome` will be called.
    private var wakeTime: Nanoseconds?

    init(interval: Nanoseconds, countedInterval: Nanoseconds) {
        self.interval = interval
        self.countedInterval = max(interval, countedInterval)
    }

    mutating func published(_ presence: ForegroundPresence, at now: Nanoseconds) -> Action {
        isPending = true
        return next(presence, at: now)
    }

    mutating func timeHasCome(_ presence: ForegroundPresence, at now: Nanoseconds) -> Action {
        wakeTime = nil
        return next(presence, at: now)
    }

    /// Called when the process may be frozen, or ends. A pending reload is made now if it is allowed now.
    mutating func leave(_ presence: ForegroundPresence, at now: Nanoseconds) -> Action {
        guard isPending, isFree(presence) || now >= countedTime else { return .none }
        return reload(presence, at: now)
    }

    mutating func next(_ presence: ForegroundPresence, at now: Nanoseconds) -> Action {
        guard isPending else { return .none }
        let time = earliest(presence)
        if now >= time { return reload(presence, at: now) }
        guard wakeTime != time else { return .none }
        wakeTime = time
        return .wake(at: time)
    }

    private mutating func reload(_ presence: ForegroundPresence, at now: Nanoseconds) -> Action {
        isPending = false
        last = now
        if !presence.isInForeground { lastCounted = (now, presence.stays) }
        return .reload
    }

    private func earliest(_ presence: ForegroundPresence) -> Nanoseconds {
        let burst = last.map { $0.addingSaturating(interval) } ?? 0
        return isFree(presence) ? burst : max(burst, countedTime)
    }

    private var countedTime: Nanoseconds { lastCounted.map { $0.time.addingSaturating(countedInterval) } ?? 0 }

    /// Whether a reload is not counted, or is the first one since the app was in the foreground.
    private func isFree(_ presence: ForegroundPresence) -> Bool {
        presence.isInForeground || lastCounted.map { $0.stays != presence.stays } ?? true
    }
}
