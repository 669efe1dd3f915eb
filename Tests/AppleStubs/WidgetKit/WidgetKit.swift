// What the library, the samples of the guides and Examples/App use of WidgetKit.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

/// Its interface does not say what it is to Swift's concurrency: so it is not `Sendable` here, nor bound to an actor.
public class WidgetCenter {
    // Constant, and without state: no stub is ever run.
    public nonisolated(unsafe) static let shared = WidgetCenter()
    private init() {}

    public func reloadTimelines(ofKind kind: String) { notHere() }
    public func reloadAllTimelines() { notHere() }
}

public protocol TimelineProvider {
    associatedtype Entry: TimelineEntry
    typealias Context = TimelineProviderContext
    func placeholder(in context: Context) -> Entry
    func getSnapshot(in context: Context, completion: @escaping (Entry) -> Void)
    func getTimeline(in context: Context, completion: @escaping (Timeline<Entry>) -> Void)
}

public protocol TimelineEntry {
    var date: Date { get }
}

public struct TimelineProviderContext {}

public struct Timeline<EntryType: TimelineEntry> {
    public init(entries: [EntryType], policy: TimelineReloadPolicy) {}
}

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
