import Foundation

// MARK: Containers

public struct NavigationStack<Content: View>: View {
    public init(@ViewBuilder root: () -> Content) {}
    public var body: Never { return notHere() }
}

public struct List<Content: View>: View {
    public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { return notHere() }
}

public struct HStack<Content: View>: View {
    public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { return notHere() }
}

public struct HorizontalAlignment: Sendable {
    public static let leading = HorizontalAlignment()
    public static let center = HorizontalAlignment()
}

public struct VStack<Content: View>: View {
    public init(alignment: HorizontalAlignment = .center, @ViewBuilder content: () -> Content) {}
    public var body: Never { return notHere() }
}

public struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content: View>: View {
    public var body: Never { return notHere() }
}

extension ForEach where Data.Element: Identifiable, ID == Data.Element.ID {
    public init(_ data: Data, @ViewBuilder content: @escaping (Data.Element) -> Content) {}
}

// MARK: Content

public struct Spacer: View {
    public init() {}
    public var body: Never { return notHere() }
}

public struct Color: View, Sendable {
    public static let clear = Color()
    public var body: Never { return notHere() }
}

public struct Link<Label: View>: View {
    public var body: Never { return notHere() }
}

extension Link where Label == Text {
    public init(_ title: String, destination: URL) {}
}

// MARK: Modifiers

public struct ContainerBackgroundPlacement: Sendable {
    /// Of WidgetKit.
    public static let widget = ContainerBackgroundPlacement()
}

extension View {
    public func navigationTitle(_ title: String) -> some View { self }
    public func task(_ action: @escaping @Sendable @MainActor () async -> Void) -> some View { self }
    public func containerBackground<Content: View>(
        for placement: ContainerBackgroundPlacement,
        @ViewBuilder content: () -> Content
    ) -> some View { self }
}
