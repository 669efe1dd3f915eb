// What the library, the samples of the guides and Examples/App use of UIKit.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

@MainActor
open class UIResponder: NSObject {}

public struct UIBackgroundTaskIdentifier: RawRepresentable, Hashable, Sendable {
    public var rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let invalid = UIBackgroundTaskIdentifier(rawValue: 0)
}

@MainActor
open class UIApplication: UIResponder {
    public enum State: Int, Sendable { case active, inactive, background }

    /// As for a target that is restricted to what extensions may call, as a library must be.
    @available(*, unavailable, message: "not in extensions")
    open class var shared: UIApplication { notHere() }

    open var applicationState: State { notHere() }

    public nonisolated func beginBackgroundTask(
        withName name: String?,
        expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier { notHere() }

    public nonisolated func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) { notHere() }

    public nonisolated class var didEnterBackgroundNotification: NSNotification.Name { notHere() }
    public nonisolated class var willEnterForegroundNotification: NSNotification.Name { notHere() }
    public nonisolated class var didBecomeActiveNotification: NSNotification.Name { notHere() }
}

public enum UIBackgroundFetchResult: UInt, Sendable { case newData, noData, failed }

@MainActor
open class UIViewController: UIResponder {
    open func viewDidAppear(_ animated: Bool) { notHere() }
    open var extensionContext: NSExtensionContext? { notHere() }
}

// MARK: Of Foundation

open class NSExtensionContext: NSObject {
    open var inputItems: [Any] { notHere() }
    open func completeRequest(returningItems items: [Any]?, completionHandler: ((Bool) -> Void)? = nil) { notHere() }
    open func cancelRequest(withError error: any Error) { notHere() }
}

open class NSExtensionItem: NSObject {
    open var attachments: [NSItemProvider]?
}

/// In Apple's Foundation, for types that it bridges to classes that an item provider reads.
public protocol ItemProviderReadable: Sendable {}
extension URL: ItemProviderReadable {}

open class NSItemProvider: NSObject {
    public func canLoadObject<Value: ItemProviderReadable>(ofClass type: Value.Type) -> Bool { notHere() }
    public func loadObject<Value: ItemProviderReadable>(
        ofClass type: Value.Type,
        completionHandler: @escaping @Sendable (Value?, (any Error)?) -> Void
    ) -> Progress { notHere() }
}
