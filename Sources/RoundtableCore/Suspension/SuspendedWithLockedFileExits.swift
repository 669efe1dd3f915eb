#if canImport(MetricKit) && (os(iOS) || os(visionOS))
    // On macOS, MetricKit has no reports before the SDK of macOS 26, and the system ends no process there for a locked file.
    import Foundation
    import MetricKit

    /// How often the system has killed this app because it was suspended with a locked file (0xDEAD10CC). The system counts this
    /// itself, and the users' devices report it to the app.
    ///
    /// ```swift
    /// for await exits in SuspendedWithLockedFileExits.reports() where exits.count > 0 { log(exits) }
    /// ```
    public struct SuspendedWithLockedFileExits: Sendable, Equatable, Codable {
        /// The period of the report, about a day.
        package let period: DateInterval
        /// The version of the app at the end of the period.
        public let appVersion: String
        /// MetricKit's
        /// [`cumulativeSuspendedWithLockedFileExitCount`](https://developer.apple.com/documentation/metrickit/mxbackgroundexitdata/cumulativesuspendedwithlockedfileexitcount).
        /// The locked file may be another file than a database of Roundtable's.
        public let count: Int

        /// The reports from now on, at most one a day. Listen from the launch on. Only real devices report.
        public static func reports() -> AsyncStream<SuspendedWithLockedFileExits> {
            AsyncStream { continuation in
                let subscriber = Subscriber(continuation)
                MXMetricManager.shared.add(subscriber)
                continuation.onTermination = { _ in MXMetricManager.shared.remove(subscriber) }
            }
        }

        /// nil when the report has no exit metrics.
        init?(_ payload: MXMetricPayload) {
            guard let exits = payload.applicationExitMetrics else { return nil }
            count = exits.backgroundExitData.cumulativeSuspendedWithLockedFileExitCount
            appVersion = payload.latestApplicationVersion
            period = DateInterval(start: payload.timeStampBegin, end: max(payload.timeStampBegin, payload.timeStampEnd))
        }

        private final class Subscriber: NSObject, MXMetricManagerSubscriber, Sendable {
            private let continuation: AsyncStream<SuspendedWithLockedFileExits>.Continuation

            init(_ continuation: AsyncStream<SuspendedWithLockedFileExits>.Continuation) {
                self.continuation = continuation
            }

            func didReceive(_ payloads: [MXMetricPayload]) {
                for exits in payloads.compactMap(SuspendedWithLockedFileExits.init) { continuation.yield(exits) }
            }
        }
    }
#endif
