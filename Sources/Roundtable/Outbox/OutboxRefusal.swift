import Foundation

/// What a handler throws to say *never*: the command is set aside at once, without another try.
///
/// ```swift
/// handlers.handle(BookSeat.self) { db, command in
///     guard try Seat.isFree(command.seat, db) else { throw OutboxRefusal("seat \(command.seat) is taken") }
///     …
/// }
/// ```
///
/// The reason is what the sender is told (``OutboxOutcome/setAside(_:error:)``), and what ``DeadLetter/error`` keeps.
public struct OutboxRefusal: Error, Hashable, Sendable {
    public var reason: String

    public init(_ reason: String) { self.reason = reason }
}

extension OutboxRefusal: CustomStringConvertible, LocalizedError {
    public var description: String { reason }
    public var errorDescription: String? { reason }
}
