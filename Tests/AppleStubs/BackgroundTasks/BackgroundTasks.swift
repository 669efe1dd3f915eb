// What the samples of the guides use of BackgroundTasks.

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
}

open class BGTask: NSObject {
    open var expirationHandler: (() -> Void)?
    open func setTaskCompleted(success: Bool) { notHere() }
}
