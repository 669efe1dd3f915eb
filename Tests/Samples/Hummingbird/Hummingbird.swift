import Logging
import ServiceLifecycle

// What a sample uses of Hummingbird (https://github.com/hummingbird-project/hummingbird), in its shapes.

public protocol ResponseGenerator {}
extension Dictionary: ResponseGenerator where Key == String, Value: Encodable {}

public enum HTTPResponse {
    public struct Status: ResponseGenerator, Sendable {
        public static let ok = Status()
        public static let notFound = Status()
        public static let serviceUnavailable = Status()
    }
}

public struct HTTPError: Error {
    public init(_ status: HTTPResponse.Status) {}
}

public struct Parameters: Sendable {
    public func require(_ name: String) throws -> String { fatalError() }
    public func require<T: LosslessStringConvertible>(_ name: String, as: T.Type) throws -> T { fatalError() }
}

public struct URI: Sendable {
    public var queryParameters: Parameters { fatalError() }
}

public struct Request: Sendable {
    public var uri: URI { fatalError() }
}

public struct BasicRequestContext: Sendable {
    public var parameters: Parameters { fatalError() }
}

public final class Router {
    public init() {}
    @discardableResult public func get(
        _ path: String,
        use handler: @escaping @Sendable (Request, BasicRequestContext) async throws -> some ResponseGenerator
    ) -> Self { self }
    @discardableResult public func post(
        _ path: String,
        use handler: @escaping @Sendable (Request, BasicRequestContext) async throws -> some ResponseGenerator
    ) -> Self { self }
}

public struct ApplicationConfiguration: Sendable {
    public enum Address: Sendable { case hostname(_ host: String, port: Int) }
    public init(address: Address) {}
}

public struct Application: Service {
    public init(router: Router, configuration: ApplicationConfiguration, logger: Logger) {}
    public func run() async throws {}
}
