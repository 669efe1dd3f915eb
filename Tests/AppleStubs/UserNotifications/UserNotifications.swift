// What the samples of the guides use of UserNotifications.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

open class UNNotificationServiceExtension: NSObject {
    open func didReceive(
        _ request: UNNotificationRequest,
        withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) { notHere() }

    open func serviceExtensionTimeWillExpire() { notHere() }
}

open class UNNotificationRequest: NSObject {
    open var content: UNNotificationContent { notHere() }
}

open class UNNotificationContent: NSObject {
    open var userInfo: [AnyHashable: Any] { notHere() }
}
