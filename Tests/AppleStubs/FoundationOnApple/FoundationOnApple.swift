// swift-format-ignore-file: AlwaysUseLowerCamelCase
// The names are Apple's.

// What Apple's Foundation has and Linux's lacks, as far as the library uses it. Imported into every file of a check.

@_exported import Darwin
@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

// MARK: App Groups

extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier group: String) -> URL? { notHere() }
}

// MARK: File coordination

open class NSFileCoordinator: NSObject {
    public struct WritingOptions: OptionSet, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let forDeleting = WritingOptions(rawValue: 1 << 0)
        public static let forMoving = WritingOptions(rawValue: 1 << 1)
        public static let forMerging = WritingOptions(rawValue: 1 << 2)
        public static let forReplacing = WritingOptions(rawValue: 1 << 3)
    }

    public struct ReadingOptions: OptionSet, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let withoutChanges = ReadingOptions(rawValue: 1 << 0)
    }

    public init(filePresenter: (any NSFilePresenter)?) {}

    open func coordinate(
        readingItemAt url: URL,
        options: ReadingOptions = [],
        error outError: AutoreleasingUnsafeMutablePointer<NSError?>?,
        byAccessor reader: (URL) -> Void
    ) { notHere() }

    open func coordinate(
        writingItemAt url: URL,
        options: WritingOptions = [],
        error outError: AutoreleasingUnsafeMutablePointer<NSError?>?,
        byAccessor writer: (URL) -> Void
    ) { notHere() }

    open func cancel() { notHere() }
}

public protocol NSFilePresenter: NSObjectProtocol {}

/// The pointer to which `&error` converts when Objective-C is there.
public typealias AutoreleasingUnsafeMutablePointer = UnsafeMutablePointer

// MARK: Objective-C

public struct Selector: Hashable, Sendable {
    public init(_ name: String) {}
}
public func NSSelectorFromString(_ name: String) -> Selector { notHere() }

extension NSObject {
    public class func responds(to selector: Selector!) -> Bool { notHere() }
    public class func perform(_ selector: Selector!) -> Unmanaged<AnyObject>! { notHere() }
}

// MARK: Expiring activities

extension ProcessInfo {
    @available(iOS 8.2, visionOS 1.0, *)
    @available(macOS, unavailable)
    public func performExpiringActivity(
        withReason reason: String,
        using block: @escaping @Sendable (Bool) -> Void
    ) { notHere() }
}

// MARK: The host of an extension

@available(iOS 8.2, visionOS 1.0, *)
@available(macOS, unavailable)
extension NSNotification.Name {
    public static let NSExtensionHostWillEnterForeground = NSNotification.Name(
        "NSExtensionHostWillEnterForegroundNotification"
    )
    public static let NSExtensionHostDidEnterBackground = NSNotification.Name(
        "NSExtensionHostDidEnterBackgroundNotification"
    )
    public static let NSExtensionHostWillResignActive = NSNotification.Name(
        "NSExtensionHostWillResignActiveNotification"
    )
    public static let NSExtensionHostDidBecomeActive = NSNotification.Name(
        "NSExtensionHostDidBecomeActiveNotification"
    )
}
