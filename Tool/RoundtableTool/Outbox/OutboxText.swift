import Foundation
import Roundtable
import RoundtableToolSupport

/// Commands as text for people.
struct OutboxText {
    private let items: OutboxItems

    init(_ items: OutboxItems) { self.items = items }

    static func name(_ command: WaitingCommand) -> String { "'\(command.name.visibleLine)' version \(command.version)" }
    static func name(_ letter: DeadLetter) -> String { "'\(letter.name.visibleLine)' version \(letter.version)" }

    // MARK: All

    /// Writes all items while it reads them. A terminal gets short ids, each reason once in a row, and the numbers below.
    ///
    /// - returns: whether there are any.
    func write() throws -> Bool {
        var table = OutboxRows(isBrief: Terminal.isInteractive)
        var lines = LineBuffer()
        var hasFiles = false
        try items.forEach { item in
            switch item {
            case .waiting(let command): table.append(OutboxRows.Row(command, why: why(command)))
            case .deadLetter(let letter): table.append(OutboxRows.Row(letter, why: why(letter)))
            case .file(let file):
                // Files come after all commands.
                table.end()
                hasFiles = true
                let what = "! \(file.state): \(file.path): \(file.reason): \(file.next)"
                lines.append(StyledText(what, .warning))
            }
        }
        let isEmpty = table.isEmpty && !hasFiles
        let missing = items.place.missing
        if isEmpty, missing != nil { return false }
        table.end()
        if let summary = table.summary { for line in ["", StyledText(summary)] { lines.append(line) } }
        if let missing { for line in ["", StyledText(missing)] { lines.append(line) } }
        if items.place.existingDatabase == nil, items.place.folder != nil {
            let folder = items.place.files.path.shellQuotedPath
            let what = "What was set aside, and what has failed, is in the database: name it, with --folder \(folder)."
            for line in ["", StyledText(what)] { lines.append(line) }
        }
        lines.flush()
        return !isEmpty
    }

    /// The reason why a command waits.
    private func why(_ command: WaitingCommand) -> String {
        switch command.waitsFor {
        case .owner: owner(command)
        case .nextTry:
            "tried again at \(command.nextTry?.formatted(.iso8601) ?? "a time that is not known"): \((command.lastError ?? "").visibleLine)"
        case .earlierCommand(let id): "behind \(id.briefText) of its sender, which is tried again"
        case .earlierFile(let path): "behind \((path as NSString).lastPathComponent) of its sender"
        case .removal: "decided: an owner removes the file"
        }
    }

    private func owner(_ command: WaitingCommand) -> String {
        switch items.service {
        case .applied(let owners) where command.submitted.timeIntervalSinceNow < -1:
            owners.count == 1
                ? "\(Self.names(owners)) applies commands, and has not reached it, does not know it, or is older than the database"
                : "\(Self.names(owners)) apply commands, and have not reached it, do not know it, or are older than the database"
        case .applied(let owners): "waits for \(Self.names(owners, " or "))"
        case .heldUp(let owners): "waits for \(Self.names(owners, " or ")), suspended or stopped"
        case .unowned: "no process runs that applies commands"
        case nil where items.place.isWithoutDatabase: "not applied yet: there is no database"
        case .unknown, nil: "not applied yet"
        }
    }

    private func why(_ letter: DeadLetter) -> String {
        if let next = letter.nextTry {
            return "tried again at \(next.formatted(.iso8601)): \((letter.newError ?? "").visibleLine)"
        }
        return
            "\(letter.isToBeRetried ? "tried again when an owner knows it; " : "")\(letter.reason.rawValue): \(letter.error.visibleLine)"
    }

    private static func names(_ participants: [ParticipantStatus], _ separator: String = " and ") -> String {
        participants.map(\.name).joined(separator: separator)
    }

    // MARK: One

    func details(_ item: OutboxItems.Item) -> String {
        switch item {
        case .waiting(let command):
            var fields = [
                ("id", command.id.uuidString), ("state", command.state), ("why", why(command)),
                ("sender", command.sender.visibleLine), ("command", command.name.visibleLine),
                ("version", "\(command.version)"), ("submitted", command.submitted.formatted(.iso8601)),
            ]
            if let attempts = command.attempts { fields.append(("tries", "\(attempts)")) }
            if let next = command.nextTry { fields.append(("next try", next.formatted(.iso8601))) }
            if let error = command.lastError { fields.append(("error", error.visibleLine)) }
            return Self.lines(fields + [("file", command.path), ("payload", Self.text(command.payload))])
        case .deadLetter(let letter):
            var fields = [
                ("id", letter.id.uuidString), ("state", letter.state), ("sender", letter.sender.visibleLine),
                ("command", letter.name.visibleLine), ("version", "\(letter.version)"),
                ("submitted", letter.submitted.formatted(.iso8601)),
                ("set aside", letter.setAside.formatted(.iso8601)), ("reason", letter.reason.rawValue),
                ("tries", "\(letter.attempts)"), ("error", letter.error.visibleLine),
            ]
            if letter.newAttempts > 0 { fields.append(("new tries", "\(letter.newAttempts)")) }
            if let next = letter.nextTry { fields.append(("next try", next.formatted(.iso8601))) }
            if let error = letter.newError { fields.append(("new error", error.visibleLine)) }
            return Self.lines(fields + [("payload", Self.text(letter.payload))])
        case .file(let file):
            var fields = [("file", file.path), ("state", file.state), ("why", file.reason.visibleLine)]
            if let size = file.size { fields.append(("bytes", "\(size)")) }
            if let changed = file.changed { fields.append(("changed", changed.formatted(.iso8601))) }
            if case .whole(let command) = file.kind {
                fields += [
                    ("id", command.id.uuidString), ("sender", command.sender.visibleLine),
                    ("command", command.name.visibleLine), ("version", "\(command.version)"),
                    ("submitted", command.submitted.formatted(.iso8601)), ("payload", Self.text(command.payload)),
                ]
            }
            return Self.lines(fields + [("next", file.next)])
        }
    }

    private static func lines(_ fields: [(String, String)]) -> String {
        let width = fields.map(\.0.count).max() ?? 0
        return fields.map { "\($0.0.padded(to: width))  \($0.1.visibleLine)\n" }.joined()
    }

    private static func text(_ payload: Data) -> String {
        String(validating: payload, as: UTF8.self)?.visibleLine ?? payload.base64EncodedString()
    }
}

extension WaitingCommand {
    var state: String {
        switch waitsFor {
        case .owner, .nextTry, .earlierCommand, .earlierFile: "waiting"
        case .removal(.applied), .removal(.waiting), .removal(.noDatabase): "applied"
        case .removal(.dropped): "dropped"
        case .removal(.setAside): "set aside"
        }
    }
}

extension DeadLetter {
    var state: String { isToBeRetried ? "to be retried" : "set aside" }
}
