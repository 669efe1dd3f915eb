import Foundation
import Roundtable
import RoundtableToolSupport

/// Commands as JSON for programs, one object on each line.
enum OutboxJSON {
    /// Writes all items while it reads them.
    ///
    /// - returns: whether there are any.
    static func write(_ items: OutboxItems) throws -> Bool {
        var lines = LineBuffer()
        var isEmpty = true
        try items.forEach {
            lines.append(raw: line($0))
            isEmpty = false
        }
        lines.flush()
        return !isEmpty
    }

    /// What has become of a command or a file after `retry` or `drop`.
    static func outcome(_ outcome: String, of item: OutboxItems.Item) -> String {
        json(Outcome(id: item.id, path: item.id == nil ? item.path : nil, outcome: outcome))
    }

    private struct Outcome: Encodable {
        let id: UUID?
        let path: String?
        let outcome: String
    }

    static func line(_ item: OutboxItems.Item) -> String {
        switch item {
        case .waiting(let command): json(Command(command))
        case .deadLetter(let letter): json(Command(letter))
        case .file(let file): json(File(file))
        }
    }

    private static func json(_ value: some Encodable) -> String { PrintedJSON.object(value, inSnakeCase: true) }

    private struct File: Encodable {
        let state: String
        let path: String
        let error: String
        let bytes: Int?
        let changed: String?
        let next: String
        /// The id of the command, if the file is whole.
        var id: UUID?

        init(_ file: OutboxFile) {
            state = file.state
            path = file.path
            error = file.reason
            bytes = file.size
            changed = file.changed.map(PrintedJSON.moment)
            next = file.next
            if case .whole(let command) = file.kind { id = command.id }
        }
    }

    private struct Command: Encodable {
        let id: UUID
        let state: String
        let sender: String
        let command: String
        let version: Int
        let submitted: String
        let payload: String?
        let payloadBase64: String?
        var file: String?
        var waitsFor: String?
        var behind: String?
        var nextTry: String?
        var setAside: String?
        var reason: String?
        var attempts: Int?
        var newAttempts: Int?
        var error: String?

        init(_ waiting: WaitingCommand) {
            id = waiting.id
            state = waiting.state
            sender = waiting.sender
            command = waiting.name
            version = waiting.version
            submitted = PrintedJSON.moment(waiting.submitted)
            (payload, payloadBase64) = Self.texts(waiting.payload)
            file = waiting.path
            attempts = waiting.attempts
            error = waiting.lastError
            nextTry = waiting.nextTry.map(PrintedJSON.moment)
            switch waiting.waitsFor {
            case .owner: waitsFor = "owner"
            case .nextTry: waitsFor = "next_try"
            case .earlierCommand(let id): (waitsFor, behind) = ("earlier_command", id.uuidString)
            case .earlierFile(let path): (waitsFor, behind) = ("earlier_file", path)
            case .removal: waitsFor = "removal"
            }
        }

        init(_ letter: DeadLetter) {
            id = letter.id
            state = letter.state
            sender = letter.sender
            command = letter.name
            version = letter.version
            submitted = PrintedJSON.moment(letter.submitted)
            (payload, payloadBase64) = Self.texts(letter.payload)
            setAside = PrintedJSON.moment(letter.setAside)
            reason = letter.reason.rawValue
            attempts = letter.attempts
            error = letter.newError ?? letter.error
            if letter.newAttempts > 0 { newAttempts = letter.newAttempts }
            nextTry = letter.nextTry.map(PrintedJSON.moment)
        }

        private static func texts(_ payload: Data) -> (String?, String?) {
            if let text = String(validating: payload, as: UTF8.self) { return (text, nil) }
            return (nil, payload.base64EncodedString())
        }
    }
}
