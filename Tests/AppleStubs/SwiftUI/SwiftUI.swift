// What the samples of the guides and Examples/App use of SwiftUI.

@_exported import Foundation

func notHere() -> Never { fatalError("a stub was run") }

@MainActor @preconcurrency public protocol App {
    associatedtype Body: Scene
    @SceneBuilder var body: Body { get }
    init()
}

extension App {
    public static func main() { notHere() }
}

@MainActor @preconcurrency public protocol Scene {}

@resultBuilder public enum SceneBuilder {
    public static func buildBlock<Content: Scene>(_ content: Content) -> Content { content }
}

public struct WindowGroup<Content: View>: Scene {
    public init(@ViewBuilder content: () -> Content) {}
}

@MainActor @preconcurrency public protocol View {
    associatedtype Body: View
    @ViewBuilder var body: Body { get }
}

@resultBuilder public enum ViewBuilder {
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<
        (repeat each Content)
    > {
        notHere()
    }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildEither<First: View, Second: View>(first: First) -> ConditionalContent<First, Second> {
        notHere()
    }
    public static func buildEither<First: View, Second: View>(second: Second) -> ConditionalContent<First, Second> {
        notHere()
    }
}

public struct ConditionalContent<First: View, Second: View>: View {
    public var body: Never { return notHere() }
}

extension Optional: View where Wrapped: View {
    public var body: Never { return notHere() }
}

extension Never: View {
    public var body: Never { return notHere() }
}

public struct TupleView<Contents>: View {
    public var body: Never { return notHere() }
}

public struct Text: View {
    public init(_ content: String) {}
    public var body: Never { return notHere() }
}

public struct Button<Label: View>: View {
    public var body: Never { return notHere() }
}

extension Button where Label == Text {
    public init(_ title: String, action: @escaping @MainActor () -> Void) { notHere() }
}
