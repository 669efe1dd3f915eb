import Dispatch
import RoundtableCore
import RoundtableGate
import RoundtableKernel
import Synchronization

#if canImport(WidgetKit) && !os(visionOS)
    // On visionOS, WidgetKit needs version 26, and the package runs on version 2.
    // The documentation does not say whether WidgetCenter is Sendable. Chromium, for one, calls it on a queue of its own.
    @preconcurrency import WidgetKit
#endif

/// Requests that the system reloads the timelines of widgets after a snapshot file was published, within the system's budget for
/// reloads.
///
/// ```swift
/// let publisher = try db.publish(to: file, reloading: WidgetReloads(ofKinds: ["Tasks"])) { db in … }
/// ```
///
/// [The system's budget](https://developer.apple.com/documentation/widgetkit/keeping-a-widget-up-to-date) is typically 40 to 70
/// reloads a day for a widget that is seen often. The system does not count reloads while the app is in the foreground. Therefore
/// there are two intervals. The last state is always shown in the end, as long as the process lives. When the app leaves the
/// foreground, a pending reload is requested immediately.
///
/// A reload is a request, and the system decides when to reload. Give the timeline a policy that reloads it from time to time, such
/// as `.after` an hour, for the case that the process is killed before it can request a reload.
///
/// Publishers that feed the same widgets share one `WidgetReloads`. On visionOS, which has WidgetKit since version 26 only, and where
/// there is no WidgetKit, as on Linux, it does nothing.
public final class WidgetReloads: Sendable {
    /// The receiver of the requests, the clock, and the presence of the app.
    struct Surroundings: Sendable {
        /// - parameter kinds: nil for all widgets of the app.
        var reload: @Sendable (_ kinds: [String]?) -> Void
        var presence: @Sendable () -> ForegroundPresence = { PlatformLifecycle.presence }
        /// Reads a clock that continues while the device sleeps, because the budget is one for each day.
        var now: @Sendable () -> Nanoseconds = { (ContinuousClock.now - Self.epoch).nanoseconds }
        var later: @Sendable (Nanoseconds, @escaping @Sendable () -> Void) -> Void = { pause, body in
            let pause = DispatchTimeInterval.nanoseconds(Int(clamping: pause))
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + pause, execute: body)
        }

        private static let epoch = ContinuousClock.now
    }

    /// The widgets' kinds, as named in their configurations; nil for all widgets of the app.
    package let kinds: [String]?
    private let surroundings: Surroundings
    private let schedule: Mutex<WidgetReloadSchedule>

    /// - Parameters:
    ///   - kinds: the widgets' kinds, as named in their configurations (`StaticConfiguration(kind:…)`); nil for all widgets of the
    ///     app.
    ///   - interval: the shortest time between two reloads.
    ///   - backgroundInterval: the shortest time between two reloads while the app is not in the foreground, where reloads are
    ///     counted. The first one after a stay in the foreground does not wait.
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

    /// Called when a snapshot file was written.
    func published() { perform { $0.published($1, at: $2) } }

    /// Called before the process may be frozen, and when publishing ends.
    func leave() { perform { $0.leave($1, at: $2) } }

    /// Called when the process resumes. Timers of the system may have stood still meanwhile.
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

    private static let system: @Sendable ([String]?) -> Void = { kinds in
        #if canImport(WidgetKit) && !os(visionOS)
            guard let kinds else { return WidgetCenter.shared.reloadAllTimelines() }
            for kind in kinds { WidgetCenter.shared.reloadTimelines(ofKind: kind) }
        #endif
    }
}
