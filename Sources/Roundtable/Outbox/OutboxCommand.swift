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
/// The name and the version say what the bytes mean, to programs of other versions too: never change what a version means.
/// To change a command, give it a new version, and let the owner handle the old one as well, as a type of its own.
public protocol OutboxCommand: Codable, Sendable {
    /// What kind of command this is, at most 255 bytes. The same in all programs.
    static var name: String { get }

    /// The version of the payload, from 1.
    static var version: Int { get }

    /// The payload. By default, JSON.
    func encoded() throws -> Data

    /// The command of a payload. By default, of JSON.
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

/// What is known of a command besides its payload.
public struct OutboxCommandInfo: Sendable, Hashable {
    /// A command is applied once under one id.
    public var id: UUID
    /// Of the command: ``OutboxCommand/name``.
    public var name: String
    public var version: Int
    /// The name of the outbox that it was submitted by.
    public var sender: String
    /// When it was submitted, by the clock of the sender.
    public var date: Date
    /// 1 the first time, 2 when it is tried again, and so on.
    public var attempt: Int
}

extension OutboxCommandInfo {
    init(_ command: CommandFile, attempt: Int) {
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

/// A kind of command: what a payload is to be understood as.
struct OutboxCommandKind: Hashable, Sendable, CustomStringConvertible {
    let name: String
    let version: Int

    var description: String { "'\(name)' version \(version)" }
}
