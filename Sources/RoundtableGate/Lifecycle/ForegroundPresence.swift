/// Whether the app is in the foreground, and how often it has entered it.
package struct ForegroundPresence: Equatable, Sendable {
    package var isInForeground: Bool
    package var stays = 0

    /// The presence on systems that do not suspend processes: they count no reloads, and do not report the foreground.
    static let unknown = ForegroundPresence(isInForeground: true)

    mutating func enterForeground() {
        if !isInForeground { stays += 1 }
        isInForeground = true
    }

    package mutating func enterBackground() { isInForeground = false }

    mutating func note(_ event: LifecycleFollower.Event) {
        switch event {
        case .didEnterBackground, .isInBackground: enterBackground()
        case .willEnterForeground, .didBecomeActive: enterForeground()
        }
    }
}
