import Dispatch
import RoundtableKernel
import Synchronization

#if canImport(WidgetKit)
    // Whether WidgetCenter is Sendable, its documentation does not say. Chromium, for one, calls it on a queue of its own.
    @preconcurrency import WidgetKit
#endif

/// Has the system reload the time lines of widgets after a snapshot file was published, within the budget that it has for that.
///
/// ```swift
/// let publisher = try db.publish(to: file, reloading: WidgetReloads(ofKinds: ["Tasks"])) { db in … }
/// ```
///
/// [The system's budget](https://developer.apple.com/documentation/widgetkit/keeping-a-widget-up-to-date) is typically 40 to 70 reloads a day
/// for a widget that is seen often. It does not count those while the app is in the foreground. So there are two intervals; the last
/// state always comes to be shown, as far as the process lives; and when the app leaves the foreground, what is still to be reloaded is, at once.
///
/// A reload is a request: the system decides when, and it is yours to give the time line a policy that looks again by itself, such as
/// `.after` an hour, for the case that the process was killed before it could ask.
///
/// Publishers that feed the same widgets share one of these. Where there is no WidgetKit, on Linux for one, it does nothing.
public final class WidgetReloads: Sendable {
    /// What a request goes to, the clock, and what is known of the app.
    struct Surroundings: Sendable {
        /// - parameter kinds: nil for all widgets of the app.
        var reload: @Sendable (_ kinds: [String]?) -> Void
        var presence: @Sendable () -> ForegroundPresence = { PlatformLifecycle.presence }
        /// Of a clock that goes on while the device sleeps: the budget is one for each day.
        var now: @Sendable () -> Nanoseconds = { (ContinuousClock.now - Self.epoch).nanoseconds }
        var later: @Sendable (Nanoseconds, @escaping @Sendable () -> Void) -> Void = { pause, body in
            let pause = DispatchTimeInterval.nanoseconds(Int(clamping: pause))
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + pause, execute: body)
        }

        private static let epoch = ContinuousClock.now
    }

    /// As named in the widgets' configurations. nil: all widgets of the app.
    public let kinds: [String]?
    private let surroundings: Surroundings
    private let schedule: Mutex<WidgetReloadSchedule>

    /// - Parameters:
    ///   - kinds: as named in the widgets' configurations (`StaticConfiguration(kind:…)`). nil: all widgets of the app.
    ///   - interval: the shortest time between two reloads.
    ///   - backgroundInterval: the same while the app is not in the foreground, where they are counted; but the first one after a stay in the
    ///     foreground does not wait.
    public convenience init(
        ofKinds kinds: [String]? = nil,
        atMostEvery interval: Duration = .seconds(5),
        inBackground backgroundInterval: Duration = .seconds(30 * 60)
    ) {
        self.init(ofKinds: kinds, atMostEvery: interval, inBackground: backgroundInterval, .init(reload: Self.system))
    }

    init(
        ofKinds kinds: [String]?,
        atMostEvery interval: Duration,
        inBackground backgroundInterval: Duration,
        _ surroundings: Surroundings
    ) {
        self.kinds = kinds
        self.surroundings = surroundings
        schedule = Mutex(
            WidgetReloadSchedule(interval: interval.nanoseconds, countedInterval: backgroundInterval.nanoseconds)
        )
    }

    /// A snapshot file was written.
    func published() { perform { $0.published($1, at: $2) } }

    /// The process may be frozen once this returns, or nobody publishes any more.
    func leave() { perform { $0.leave($1, at: $2) } }

    /// The process goes on. Timers of the system's may have stood still meanwhile.
    func resume() { perform { $0.next($1, at: $2) } }

    private func perform(
        _ event: (inout WidgetReloadSchedule, ForegroundPresence, Nanoseconds) -> WidgetReloadSchedule.Action
    ) {
        let (presence, now) = (surroundings.presence(), surroundings.now())
        switch schedule.withLock({ event(&$0, presence, now) }) {
        case .none: break
        case .reload: surroundings.reload(kinds)
        case .wake(let time):
            surroundings.later(time - now) { [weak self] in self?.perform { $0.timeHasCome($1, at: $2) } }
        }
    }
}

#if canImport(WidgetKit)
    extension WidgetReloads {
        fileprivate static let system: @Sendable ([String]?) -> Void = { kinds in
            guard let kinds else { return WidgetCenter.shared.reloadAllTimelines() }
            for kind in kinds { WidgetCenter.shared.reloadTimelines(ofKind: kind) }
        }
    }
#else
    extension WidgetReloads {
        fileprivate static let system: @Sendable ([String]?) -> Void = { _ in }
    }
#endif
