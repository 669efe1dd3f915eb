// What the samples of the guides and Examples/App use of BackgroundTasks.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

open class BGTaskScheduler: NSObject {
    open class var shared: BGTaskScheduler { notHere() }

    @discardableResult
    open func register(
        forTaskWithIdentifier identifier: String,
        using queue: DispatchQueue?,
        launchHandler: @escaping (BGTask) -> Void
    ) -> Bool { notHere() }

    open func submit(_ taskRequest: BGTaskRequest) throws { notHere() }
}

open class BGTaskRequest: NSObject {
    open var earliestBeginDate: Date?
}

open class BGAppRefreshTaskRequest: BGTaskRequest {
    public init(identifier: String) {}
}

open class BGTask: NSObject {
    open var expirationHandler: (() -> Void)?
    open func setTaskCompleted(success: Bool) { notHere() }
}
