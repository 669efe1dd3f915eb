import Foundation

/// The error that a handler throws to refuse a command for good. The command is set aside immediately, without another try.
///
/// ```swift
/// handlers.handle(BookSeat.self) { db, command in
///     guard try Seat.isFree(command.seat, db) else { throw OutboxRefusal("seat \(command.seat) is taken") }
///     …
/// }
/// ```
///
/// The sender gets the reason with the outcome (``OutboxOutcome/setAside(_:error:)``), and ``DeadLetter/error`` keeps it.
public struct OutboxRefusal: Error, Hashable, Sendable {
    public var reason: String

    public init(_ reason: String) { self.reason = reason }
}

extension OutboxRefusal: CustomStringConvertible, LocalizedError {
    public var description: String { reason }
    public var errorDescription: String? { reason }
}
