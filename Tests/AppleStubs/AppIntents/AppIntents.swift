// What the samples of the guides and Examples/App use of AppIntents.

@_exported import Foundation
import SwiftUI

func notHere() -> Never { fatalError("a stub was run") }

public protocol AppIntent: Sendable {
    associatedtype PerformResult: IntentResult
    typealias Parameter = IntentParameter
    static var title: LocalizedStringResource { get }
    init()
    func perform() async throws -> PerformResult
}

public protocol IntentResult: Sendable {}

extension IntentResult where Self == EmptyResult {
    public static func result() -> EmptyResult { EmptyResult() }
}

public struct EmptyResult: IntentResult {}

/// `@Parameter` of an intent. The system sets its value.
@propertyWrapper public final class IntentParameter<Value: Sendable>: Sendable {
    public init(title: LocalizedStringResource) {}
    public var wrappedValue: Value {
        get { notHere() }
        set { notHere() }
    }
}

/// Of Apple's Foundation.
public struct LocalizedStringResource: ExpressibleByStringLiteral, Sendable {
    public init(stringLiteral value: String) {}
}

extension Button where Label == Text {
    /// Of the modules that are imported wherever SwiftUI and AppIntents both are.
    @MainActor public init(_ title: String, intent: some AppIntent) { notHere() }
}
