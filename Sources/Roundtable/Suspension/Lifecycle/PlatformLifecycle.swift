import Synchronization

/// What the platform tells of the life of an app, and gives against its suspension.
enum PlatformLifecycle {
    /// Follows the life of this process from now on. The second time, it does nothing; nor on platforms that do not suspend.
    static func followOnce() { _ = follows }

    private static let follows: Void = follow()

    /// Whether the app is in the foreground, as far as it is told.
    static var presence: ForegroundPresence { present.withLock { $0 } }
    private static let present = Mutex(ForegroundPresence.unknown)

    static func changePresence(_ change: (inout ForegroundPresence) -> Void) { present.withLock { change(&$0) } }

    #if !canImport(Darwin) || os(macOS) || targetEnvironment(macCatalyst)
        static func follow() {}
    #endif
}

extension SharedDatabase {
    private static let suspends = Atomic<Bool>(true)

    /// Whether databases are suspended when this app, or the app that hosts this extension, enters the background, on iOS, tvOS and
    /// visionOS. True at first.
    ///
    /// Set it to false, before the first database is opened, in an app that the system keeps running in the background (location,
    /// audio), or that suspends its databases by itself.
    public static var suspendsInBackground: Bool {
        get { suspends.load(ordering: .relaxed) }
        set { suspends.store(newValue, ordering: .relaxed) }
    }
}
