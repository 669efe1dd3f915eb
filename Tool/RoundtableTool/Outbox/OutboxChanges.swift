import ArgumentParser
import Foundation
import Roundtable
import RoundtableDelivery
import RoundtableReplication
import RoundtableToolSupport

/// The actions `retry` and `drop`.
struct OutboxChanges {
    let place: OutboxPlace
    let author: String
    let isAsking: Bool
    let isJSON: Bool

    /// Reports what has become of an item: as a line on standard error, and for programs as an object.
    private func report(_ outcome: String, of item: OutboxItems.Item, _ line: String) {
        Terminal.complain(line)
        if isJSON { Terminal.write(OutboxJSON.outcome(outcome, of: item)) }
    }

    private func confirm(_ question: String) throws {
        guard isAsking else { return }
        guard Terminal.canAsk else {
            throw ToolError("cannot ask, because this is not a terminal: use --yes to do it without asking.")
        }
        guard Terminal.ask(question) else { throw ToolError("nothing was changed.") }
    }

    private func open() throws -> SharedDatabase {
        guard let database = place.existingDatabase else {
            throw ToolError(
                "\(place.name): there is no database to record it in. Give the path of the database, and --folder."
            )
        }
        return try SharedDatabase.open(at: database, schema: .unmanaged, as: author, options: place.options())
    }

    // MARK: Trying again

    func retry(_ item: OutboxItems.Item, waiting time: Double) throws {
        switch item {
        case .waiting(let command):
            throw ToolError(
                """
                \(place.name): \(command.id) waits to be applied: only what was set aside can be retried. Why it waits: \(place.look)
                """
            )
        case .deadLetter(let letter):
            if let missing = place.missing {
                throw ToolError("\(place.name): \(letter.id) cannot be retried. \(missing)")
            }
            guard place.files.exists else {
                throw ToolError(
                    """
                    \(place.files.path): no outbox yet: nothing was submitted or applied there. Start the program that opens the database \
                    with handlers, or check the path.
                    """
                )
            }
            try place.checkIsWritable()
            try confirm("Try \(OutboxText.name(letter)) from '\(letter.sender)' again?")
            let database = try open()
            defer { try? database.close() }
            try database.outbox.retry(letter.id)
            try tell(item, letter.id, OutboxText.name(letter), database, upTo: time)
        case .file(let file):
            guard case .whole(let command) = file.kind else {
                throw ToolError("\(file.path): \(file.state): \(file.reason). It cannot be applied: \(file.next).")
            }
            try place.checkIsWritable()
            try confirm("Take \(OutboxText.name(command)) from '\(command.sender)' back into the queue?")
            try place.files.takeBack(file)
            guard place.existingDatabase != nil else {
                return report("not_tried", of: item, "taken back: \(command.id)")
            }
            Terminal.complain("taken back: \(command.id)")
            let database = try open()
            defer { try? database.close() }
            try tell(item, command.id, OutboxText.name(command), database, upTo: time)
        }
    }

    /// Waits for the outcome of a command, and reports it.
    private func tell(
        _ item: OutboxItems.Item,
        _ id: UUID,
        _ name: String,
        _ database: SharedDatabase,
        upTo seconds: Double
    ) throws {
        let time = RunningTime("waiting for the outcome")
        defer { time.end() }
        let outbox = try place.outbox(as: author)
        let end = ContinuousClock.now + .seconds(seconds)
        repeat {
            let rest = max(.zero, end - .now)
            switch try outbox.outcome(of: id, within: min(rest, .milliseconds(200))) {
            case .applied: return report("applied", of: item, "applied")
            case .dropped: return report("dropped", of: item, "dropped by another process")
            case .setAside(let reason, let error):
                let line = "set aside again (\(reason.rawValue)): \(error.visibleLine). See: \(look(id))"
                throw ToolError(line, exitCode: 2)
            case .waiting, .noDatabase:
                let retry = try database.read { try OutboxTables.exist($0) ? OutboxTables.retry(of: id, $0) : nil }
                guard let retry else { continue }
                let times = retry.attempts == 1 ? "" : " (\(retry.attempts) tries)"
                throw ToolError(
                    """
                    failed again\(times), and is tried again at \(retry.next.formatted(.iso8601)): \(retry.error.visibleLine). See: \(look(id))
                    """,
                    exitCode: 2
                )
            }
        } while ContinuousClock.now < end
        let limit = seconds.formatted()
        let line: String
        switch place.service() {
        case .applied(let owners):
            let names = owners.map(\.name).joined(separator: ", ")
            line =
                "not tried within \(limit) s, although \(names) applies commands: perhaps it does not know \(name), or is busy"
        case .heldUp: line = "not tried yet: the process that applies commands is suspended or stopped"
        case .unowned: line = "not tried yet: no process runs that applies commands. \(Self.promise(name))"
        case .unknown, nil: line = "not tried within \(limit) s. \(Self.promise(name))"
        }
        report("not_tried", of: item, line)
    }

    private static func promise(_ name: String) -> String {
        "It will be, as soon as a program runs that has a handler for \(name)."
    }

    private func look(_ id: UUID) -> String {
        Terminal.commandLine(place.arguments + ["show", "\(id.uuidString.prefix(8))"])
    }

    // MARK: Dropping

    func drop(_ item: OutboxItems.Item) throws {
        switch item {
        case .deadLetter(let letter):
            try place.checkIsWritable()
            try confirm("Drop \(OutboxText.name(letter)) from '\(letter.sender)', which is lost then?")
            let database = try open()
            defer { try? database.close() }
            try database.outbox.drop(letter.id)
            report("dropped", of: item, "dropped \(letter.id)")
        case .waiting(let command):
            try drop(command)
            report("dropped", of: item, "dropped \(command.id)")
        case .file(let file):
            try place.checkIsWritable()
            let contents = file.isFolder ? " and all that is in it" : ""
            try confirm("Remove \(file.path)\(contents) (\(file.state): \(file.reason)), which is lost then?")
            guard try place.files.remove(file) else {
                throw ToolError("\(file.path): the file does not exist any more. Nothing was removed.")
            }
            report("removed", of: item, "removed \(file.path)")
        }
    }

    private func drop(_ command: WaitingCommand) throws {
        // A dropped command whose file could not be removed may be dropped again.
        if case .removal(let outcome) = command.waitsFor, outcome != .dropped {
            throw ToolError("\(place.name): \(command.id): too late: \(outcome). An owner removes its file.")
        }
        // Only the database says whether the command was already applied.
        guard let url = place.database else {
            throw ToolError(
                """
                \(place.name): \(command.id): it is not known here which database it is for, and only that database says whether it was \
                applied. Nothing was dropped. Give the path of the database: roundtable outbox DATABASE --folder \
                \(place.files.path.shellQuotedPath) drop \(command.id)
                """
            )
        }
        try place.checkIsWritable()
        guard place.existingDatabase != nil else { return try drop(command, forAbsentDatabaseAt: url) }
        try confirm("Drop \(OutboxText.name(command)) from '\(command.sender)', which waits, and is lost then?")
        let database = try open()
        defer { try? database.close() }
        let outcome = try database.outbox.dropWaiting(command)
        guard outcome == .dropped else {
            throw ToolError("\(place.name): \(command.id): too late: \(outcome).")
        }
    }

    private func drop(_ command: WaitingCommand, forAbsentDatabaseAt url: URL) throws {
        if let list = try ShippedList.last(inOutboxAt: place.files.path),
            list.commands.contains(where: { $0.id == command.id })
        {
            throw ToolError(
                """
                \(place.name): \(command.id): too late: 'roundtable outbox ship' has sent it on its way. Drop it on the machine with the database.
                """
            )
        }
        try confirm(
            """
            Drop \(OutboxText.name(command)) from '\(command.sender)', which waits, and is lost then? (There is no database yet to record it: a \
            process that creates it at this moment may still apply the command.)
            """
        )
        switch try place.outbox(as: author).drop(command, forAbsentDatabaseAt: url) {
        case .dropped: break
        case .gone:
            throw ToolError(
                "\(command.path): it does not exist any more: it was applied, or dropped by another process."
            )
        case .databaseExists:
            throw ToolError(
                "\(place.name): \(command.id): the database was created just now. Nothing was dropped: try again."
            )
        }
    }
}
