// What the library, the samples of the guides and Examples/App use of WidgetKit.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

/// Its interface does not say what it is to Swift's concurrency: so it is not `Sendable` here, nor bound to an actor.
@available(iOS 14.0, macOS 11.0, visionOS 26.0, *)
public class WidgetCenter {
    // Constant, and without state: no stub is ever run.
    public nonisolated(unsafe) static let shared = WidgetCenter()
    private init() {}

    public func reloadTimelines(ofKind kind: String) { notHere() }
    public func reloadAllTimelines() { notHere() }
}

@available(iOS 14.0, macOS 11.0, visionOS 26.0, *)
public protocol TimelineProvider {
    associatedtype Entry: TimelineEntry
    typealias Context = TimelineProviderContext
    func placeholder(in context: Context) -> Entry
    @preconcurrency
    func getSnapshot(in context: Context, completion: @escaping @Sendable (Entry) -> Void)
    @preconcurrency
    func getTimeline(in context: Context, completion: @escaping @Sendable (Timeline<Entry>) -> Void)
}

@available(iOS 14.0, macOS 11.0, visionOS 26.0, *)
public protocol TimelineEntry {
    var date: Date { get }
}

@available(iOS 14.0, macOS 11.0, visionOS 26.0, *)
public struct TimelineProviderContext {}

@available(iOS 14.0, macOS 11.0, visionOS 26.0, *)
public struct Timeline<EntryType: TimelineEntry> {
    public init(entries: [EntryType], policy: TimelineReloadPolicy) {}
}

@available(iOS 14.0, macOS 11.0, visionOS 26.0, *)
public struct TimelineReloadPolicy {
    public static func after(_ date: Date) -> TimelineReloadPolicy { notHere() }
}

#if canImport(SwiftUI)
    import SwiftUI

    /// Where the stub of SwiftUI was compiled before: not for the library.
    public struct StaticConfiguration<Content: View>: WidgetConfiguration {
        public init<Provider: TimelineProvider>(
            kind: String,
            provider: Provider,
            @ViewBuilder content: @escaping (Provider.Entry) -> Content
        ) {}
    }
#endif
