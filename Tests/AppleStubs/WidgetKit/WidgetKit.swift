// What the library uses of WidgetKit.

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
