// What the library uses of Apple's log.

func notHere() -> Never { fatalError("a stub was run") }

public struct Logger: Sendable {
    public init(subsystem: String, category: String) { notHere() }
    public func info(_ message: OSLogMessage) { notHere() }
    public func notice(_ message: OSLogMessage) { notHere() }
    public func warning(_ message: OSLogMessage) { notHere() }
    public func error(_ message: OSLogMessage) { notHere() }
}

public struct OSLogPrivacy {
    public static var auto: OSLogPrivacy { notHere() }
    public static var `public`: OSLogPrivacy { notHere() }
}

public struct OSLogMessage: ExpressibleByStringInterpolation {
    public init(stringLiteral value: String) { notHere() }
    public init(stringInterpolation: OSLogInterpolation) { notHere() }
}

public struct OSLogInterpolation: StringInterpolationProtocol {
    public init(literalCapacity: Int, interpolationCount: Int) { notHere() }
    public mutating func appendLiteral(_ literal: String) { notHere() }
    public mutating func appendInterpolation(
        _ argument: @autoclosure @escaping () -> String,
        privacy: OSLogPrivacy = .auto
    ) { notHere() }
}
