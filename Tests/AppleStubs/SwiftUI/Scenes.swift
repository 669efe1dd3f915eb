import Foundation

// MARK: State

@propertyWrapper public struct State<Value> {
    public init(wrappedValue: Value) {}
    public var wrappedValue: Value {
        get { notHere() }
        nonmutating set { notHere() }
    }
}

public enum ScenePhase: Sendable { case background, inactive, active }

public struct EnvironmentValues {
    public var scenePhase: ScenePhase { notHere() }
}

@propertyWrapper public struct Environment<Value> {
    public init(_ keyPath: KeyPath<EnvironmentValues, Value>) {}
    public var wrappedValue: Value { notHere() }
}

// MARK: Scenes

public struct BackgroundTask<Request: Sendable, Response: Sendable>: Sendable {}

extension BackgroundTask where Request == Void, Response == Void {
    public static func appRefresh(_ identifier: String) -> BackgroundTask<Void, Void> { notHere() }
}

extension Scene {
    public func onChange<Value: Equatable>(
        of value: Value,
        initial: Bool = false,
        _ action: @escaping (_ oldValue: Value, _ newValue: Value) -> Void
    ) -> some Scene { self }

    public func backgroundTask<Request, Response>(
        _ task: BackgroundTask<Request, Response>,
        action: @escaping @Sendable (Request) async -> Response
    ) -> some Scene { self }
}

// MARK: Widgets

@MainActor @preconcurrency public protocol Widget {
    associatedtype Body: WidgetConfiguration
    var body: Body { get }
    init()
}

extension Widget {
    public static func main() { notHere() }
}

@MainActor @preconcurrency public protocol WidgetConfiguration {}

extension WidgetConfiguration {
    public func configurationDisplayName(_ name: String) -> some WidgetConfiguration { self }
    public func description(_ text: String) -> some WidgetConfiguration { self }
}
