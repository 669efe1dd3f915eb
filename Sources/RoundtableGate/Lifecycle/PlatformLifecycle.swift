import Foundation
import Synchronization

/// The platform's notifications about the life of an app, and its assertions against suspension.
package enum PlatformLifecycle {
    /// Follows the life of this process from now on. Further calls do nothing. On platforms that do not suspend processes, it
    /// does nothing at all.
    package static func followOnce() { _ = follows }

    private static let follows: Void = follow()

    /// Whether the app is in the foreground, as far as the notifications say.
    package static var presence: ForegroundPresence { present.withLock { $0 } }
    private static let present = Mutex(ForegroundPresence.unknown)

    /// Whether the system notifies this process before it freezes it, as long as it is in the foreground. An extension is never sure of that:
    /// it gets its host's notifications, if any, and may be frozen as soon as it has done its work (rule F5b).
    static var givesNotices: Bool {
        givesNotices(
            presence,
            isExtension: isExtension,
            suspendsInBackground: suspendsInBackground
        )
    }

    static func givesNotices(_ presence: ForegroundPresence, isExtension: Bool, suspendsInBackground: Bool) -> Bool {
        !suspendsInBackground || presence.isInForeground && !isExtension
    }

    private static let suspends = Atomic<Bool>(true)

    /// Whether the gates follow this app, or the app that hosts this extension, into the background.
    package static var suspendsInBackground: Bool {
        get { suspends.load(ordering: .relaxed) }
        set { suspends.store(newValue, ordering: .relaxed) }
    }

    static let isExtension = Bundle.main.bundlePath.hasSuffix(".appex")

    package static func changePresence(_ change: (inout ForegroundPresence) -> Void) {
        present.withLock { change(&$0) }
    }

    #if !canImport(Darwin) || os(macOS) || targetEnvironment(macCatalyst)
        static func follow() {}
    #endif
}
