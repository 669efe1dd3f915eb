#if canImport(UIKit) && !targetEnvironment(macCatalyst)
    import Foundation
    import RoundtableKernel
    import Synchronization
    import UIKit

    extension PlatformLifecycle {
        /// An app uses UIKit's notifications and background tasks. An extension uses the notifications of its host, and expiring
        /// activities.
        static func follow() {
            let process = ProcessSuspension.shared
            if process.assertions.provider == nil { process.assertions.provider = SystemAssertions() }
            let follower = LifecycleFollower(
                .init(
                    close: { time in
                        process.suspend(until: MonotonicClock.now.addingSaturating(time.nanoseconds))
                    },
                    open: { process.resume() },
                    assertions: { process.assertions.provider },
                    later: { time, body in
                        DispatchQueue.main.asyncAfter(deadline: .now() + time.dispatched, execute: body)
                    },
                    isFollowing: { suspendsInBackground }
                )
            )
            let events: [(NSNotification.Name, LifecycleFollower.Event)] = [
                (UIApplication.didEnterBackgroundNotification, .didEnterBackground),
                (UIApplication.willEnterForegroundNotification, .willEnterForeground),
                (UIApplication.didBecomeActiveNotification, .didBecomeActive),
                (.NSExtensionHostDidEnterBackground, .didEnterBackground),
                (.NSExtensionHostWillEnterForeground, .willEnterForeground),
                (.NSExtensionHostDidBecomeActive, .didBecomeActive),
            ]
            for (name, event) in events {
                // Without a queue, the block runs on the posting thread, before the system continues.
                _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
                    changePresence { $0.note(event) }
                    follower.handle(event)
                }
            }
            changePresence { $0.enterBackground() }
            DispatchQueue.main.async {
                if let application = HostApplication.find(), application.applicationState != .background {
                    changePresence { $0.enterForeground() }
                }
                DispatchQueue.main.asyncAfter(deadline: .now() + launch.dispatched) {
                    if HostApplication.find()?.applicationState == .background { follower.handle(.isInBackground) }
                }
            }
        }

        /// The time after which an app that is still in the background counts as launched there. An app with scenes begins each
        /// of its lives in the background, until the first scene is connected.
        private static let launch = Duration.seconds(5)
    }

    /// The application object. Extensions have none, and must not use `UIApplication.shared`.
    enum HostApplication {
        private static let found = Mutex<UIApplication?>(nil)

        /// Nil in extensions, and before `UIApplicationMain`.
        @MainActor @discardableResult
        static func find() -> UIApplication? {
            if let application = current { return application }
            guard !PlatformLifecycle.isExtension else { return nil }
            let shared = NSSelectorFromString("sharedApplication")
            guard UIApplication.responds(to: shared) else { return nil }
            let application = UIApplication.perform(shared)?.takeUnretainedValue() as? UIApplication
            found.withLock { $0 = application }
            return application
        }

        /// The application object that was found. Safe from any thread.
        static var current: UIApplication? { found.withLock { $0 } }
    }

    /// Uses background tasks in an app, because they answer immediately and block no thread. Uses expiring activities in extensions,
    /// which have nothing else, and while the application object is not known yet.
    private struct SystemAssertions: SuspensionAssertions {
        func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
            guard let application = HostApplication.current else {
                let activities = ExpiringActivities { reason, block in
                    ProcessInfo.processInfo.performExpiringActivity(withReason: reason, using: block)
                }
                return activities.begin(name, onExpiry: onExpiry)
            }
            let tasks = BackgroundTasks(
                beginTask: { name, handler in
                    let task = application.beginBackgroundTask(withName: name, expirationHandler: handler)
                    return task == .invalid ? nil : task.rawValue
                },
                endTask: { application.endBackgroundTask(UIBackgroundTaskIdentifier(rawValue: $0)) }
            )
            return tasks.begin(name, onExpiry: onExpiry)
        }
    }
#endif
