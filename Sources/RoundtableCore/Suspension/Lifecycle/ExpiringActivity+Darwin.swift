#if canImport(Darwin) && !os(macOS) && !targetEnvironment(macCatalyst)
    import Foundation

    extension ExpiringActivities {
        static let ofThisProcess = ExpiringActivities { reason, block in
            ProcessInfo.processInfo.performExpiringActivity(withReason: reason, using: block)
        }
    }

    #if os(watchOS)
        extension PlatformLifecycle {
            /// Follows no notification of WatchKit, because writes take the system's time by themselves.
            static func follow() {
                if SharedDatabase.suspensionAssertions == nil {
                    SharedDatabase.suspensionAssertions = ExpiringActivities.ofThisProcess
                }
            }
        }
    #endif
#endif
