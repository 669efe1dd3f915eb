import Foundation

/// What a process asks the owner of a database to do.
///
/// ```swift
/// struct AddEntry: OutboxCommand {
///     static let name = "add-entry"
///     static let version = 1
///     var text: String
/// }
/// ```
///
/// The name and the version define what the bytes mean, for programs of other versions too. Never change what a version means: give the
/// changed command a new version, and let the owner handle the old version as well, as a type of its own.
public protocol OutboxCommand: Codable, Sendable {
    /// The kind of the command, 1 to 255 bytes. It is the same in all programs.
    static var name: String { get }

    /// The version of the payload, not negative.
    static var version: Int { get }

    /// Encodes the payload, by default as JSON.
    func encoded() throws -> Data

    /// Decodes the command from a payload, by default from JSON.
    static func decoded(from payload: Data) throws -> Self
}

extension OutboxCommand {
    public func encoded() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    public static func decoded(from payload: Data) throws -> Self {
        try JSONDecoder().decode(Self.self, from: payload)
    }
}

/// The information on a command besides its payload.
public struct OutboxCommandInfo: Sendable, Hashable {
    /// The id of the command. A command is applied once under one id.
    public var id: UUID
    /// The name of the command: ``OutboxCommand/name``.
    public var name: String
    package var version: Int
    /// The name of the sender that submitted the command.
    public var sender: String
    /// When it was submitted, by the clock of the sender.
    public var date: Date
    /// The number of the attempt: 1 for the first, 2 for the first retry, and so on.
    public var attempt: Int
}

extension OutboxCommandInfo {
    package init(_ command: CommandFile, attempt: Int) {
        self.init(
            id: command.id,
            name: command.kind.name,
            version: command.kind.version,
            sender: command.sender,
            date: command.date,
            attempt: attempt
        )
    }
}

extension OutboxCommandInfo: CustomStringConvertible {
    public var description: String {
        OutboxCommandKind(name: name, version: version).label(from: sender, id)
    }
}

/// The kind of a command, which says how its payload is decoded.
package struct OutboxCommandKind: Hashable, Sendable, CustomStringConvertible {
    package let name: String
    package let version: Int

    package init(name: String, version: Int) { (self.name, self.version) = (name, version) }

    package var description: String { "'\(name)' version \(version)" }

    /// The description of a command of this kind, for messages.
    package func label(from sender: String, _ id: UUID) -> String { "\(self) from '\(sender)' (\(id))" }
}
