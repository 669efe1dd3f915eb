// What the library uses of MetricKit. Its reports came to macOS with the SDK of macOS 26. Before that SDK, macOS has the framework and the
// manager, and not the reports.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

@available(iOS 13.0, macOS 12.0, visionOS 1.0, *)
open class MXMetricManager: NSObject {
    open class var shared: MXMetricManager { notHere() }
    open func add(_ subscriber: any MXMetricManagerSubscriber) { notHere() }
    open func remove(_ subscriber: any MXMetricManagerSubscriber) { notHere() }
}

/// Its method, `didReceive`, is optional in Objective-C.
@available(iOS 13.0, macOS 12.0, visionOS 1.0, *)
public protocol MXMetricManagerSubscriber: NSObjectProtocol {}

#if TYPECHECK_SDK_26
    public typealias MXMetricPayload = Reports.MXMetricPayload
#else
    @available(macOS, unavailable)
    public typealias MXMetricPayload = Reports.MXMetricPayload
#endif

/// The types of reports, whose names are available where the SDK has them.
public enum Reports {
    open class MXMetricPayload: NSObject {
        open var latestApplicationVersion: String { notHere() }
        open var timeStampBegin: Date { notHere() }
        open var timeStampEnd: Date { notHere() }
        open var applicationExitMetrics: MXAppExitMetric? { notHere() }
    }

    open class MXAppExitMetric: NSObject {
        open var backgroundExitData: MXBackgroundExitData { notHere() }
    }

    open class MXBackgroundExitData: NSObject {
        open var cumulativeSuspendedWithLockedFileExitCount: Int { notHere() }
    }
}
