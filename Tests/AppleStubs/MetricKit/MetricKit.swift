// What the library uses of MetricKit.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

open class MXMetricManager: NSObject {
    open class var shared: MXMetricManager { notHere() }
    open func add(_ subscriber: any MXMetricManagerSubscriber) { notHere() }
    open func remove(_ subscriber: any MXMetricManagerSubscriber) { notHere() }
}

public protocol MXMetricManagerSubscriber: NSObjectProtocol {
    func didReceive(_ payloads: [MXMetricPayload])
}

/// Optional, in Objective-C.
extension MXMetricManagerSubscriber {
    public func didReceive(_ payloads: [MXMetricPayload]) {}
}

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
