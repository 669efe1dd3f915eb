#if canImport(Darwin) && !os(macOS) && !targetEnvironment(macCatalyst)
    import Foundation

    extension ExpiringActivities {
        static let ofThisProcess = ExpiringActivities { reason, block in
            ProcessInfo.processInfo.performExpiringActivity(withReason: reason, using: block)
        }
    }
#endif
