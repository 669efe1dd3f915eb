import RoundtableKernel

/// When widgets are reloaded: pure, for ``WidgetReloads``.
///
/// What the system counts is dear: a few dozen reloads a day. What it does not count, while the app is in the foreground, only has to be
/// kept from becoming a burst. So there are two intervals; and the first reload after a stay in the foreground is always made, or the
/// widget would show something else than what the user has just left.
struct WidgetReloadSchedule {
    enum Action: Equatable {
        case none
        case reload
        /// Call `timeHasCome` then.
        case wake(at: Nanoseconds)
    }

    /// Between two reloads that are not counted, and between two that are.
    let interval: Nanoseconds
    let countedInterval: Nanoseconds
    private var isPending = false
    private var last: Nanoseconds?
    /// The last one that was counted, and after which stay in the foreground that was.
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

    /// The process may be frozen, or ends: what is allowed now is done now.
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

    /// Not counted, or the first since the app was in the foreground.
    private func isFree(_ presence: ForegroundPresence) -> Bool {
        presence.isInForeground || lastCounted.map { $0.stays != presence.stays } ?? true
    }
}

/// Whether the app is in the foreground, and how often it has come there.
struct ForegroundPresence: Equatable, Sendable {
    var isInForeground: Bool
    var stays = 0

    /// Where processes are not suspended, nobody counts, and nobody tells.
    static let unknown = ForegroundPresence(isInForeground: true)

    mutating func enterForeground() {
        if !isInForeground { stays += 1 }
        isInForeground = true
    }

    mutating func enterBackground() { isInForeground = false }

    mutating func note(_ event: LifecycleFollower.Event) {
        switch event {
        case .didEnterBackground, .isInBackground: enterBackground()
        case .willEnterForeground, .didBecomeActive: enterForeground()
        }
    }
}
