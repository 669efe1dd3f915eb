// What a sample uses of SQLite.swift (https://github.com/stephencelis/SQLite.swift), in its shapes.

public final class Connection {
    public enum TransactionMode { case deferred, immediate, exclusive }

    public init(_ filename: String = "", readonly: Bool = false) throws {}
    public var handle: OpaquePointer { fatalError() }
    public var busyTimeout: Double = 0
    public func transaction(_ mode: TransactionMode = .deferred, block: () throws -> Void) throws {}
    @discardableResult public func run(_ statement: String, _ bindings: (any Binding)?...) throws -> Statement {
        fatalError()
    }
}

public final class Statement {}
public protocol Binding {}
extension String: Binding {}
