import ArgumentParser
import Foundation
import Roundtable
import RoundtableReplication
import RoundtableToolSupport

struct OutboxVerb: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "outbox",
        abstract:
            "Show the commands that wait for a database and those that were set aside; move them between machines.",
        discussion: """
            'roundtable outbox app.db' lists, as 'roundtable outbox list app.db' does; for show, retry and drop, see \
            'roundtable outbox items --help'.

            Examples:
              roundtable outbox app.db
              roundtable outbox app.db retry 5AC1 --wait 10
              roundtable outbox ship app.db --to remote:bucket/app
              roundtable outbox collect app.db --from remote:bucket/app
            """,
        subcommands: [OutboxItemsVerb.self, ShipCommand.self, CollectCommand.self],
        defaultSubcommand: OutboxItemsVerb.self
    )
}

struct OutboxItemsVerb: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "items",
        abstract:
            "Show the commands that wait for a database, and those that were set aside (what happens without a subcommand).",
        discussion: """
            Commands are submitted by processes that do not open the database (Outbox in Swift), and applied by those that do. 'list', \
            which is also what happens without an action, and 'show' only read, and need no database for what waits. 'retry' has a command \
            that was set aside (a dead letter) retried, by a running owner immediately, and waits for the outcome; it puts a file that an \
            owner has moved away as damaged, but that is whole, back into the queue. 'drop' decides that a command is not applied, or \
            removes a file that is not a command. Both ask first, unless there is --yes.

            The action may also come first: 'roundtable outbox show app.db 5AC1'.

            With --json, prints one JSON object a command or file; 'retry' and 'drop' print its "outcome": "applied", "dropped", "removed", \
            "not_tried".

            Exit code: 0 when all is well; 1 when something is wrong: no such command, no outbox, too late to drop it, a database that cannot be \
            opened; 2 when 'show' finds a file that is damaged, unreadable or newer than this program, and when a command fails again after \
            'retry'. A 'retry' without an outcome in time is 0: the command is tried as soon as a program runs that has a handler for it.

            Examples:
              roundtable outbox app.db
              roundtable outbox app.db show 5AC1
              roundtable outbox app.db retry 5AC1 --wait 10
              roundtable outbox app.db drop widget.0000000001.5f0c2a91 --yes
              roundtable outbox app.db --folder ~/Group/outbox
              roundtable outbox ~/Group/outbox
            """
    )

    enum Action: String, CaseIterable { case list, show, retry, drop }
    private var action: Action { actionName.flatMap(Action.init) ?? .list }

    @Argument(help: "The database file; or the folder of an outbox that does not lie beside one.", completion: .file())
    var path: String

    @Argument(
        help: ArgumentHelp("list, show, retry or drop. (default: list)", valueName: "action"),
        completion: .list(Action.allCases.map(\.rawValue))
    )
    var actionName: String?

    @Argument(help: "The id of a command, the name of a file, or as much of its beginning as identifies it.")
    var id: String?

    @Option(
        help: ArgumentHelp("The folder of the outbox, where it is not beside the database.", valueName: "folder"),
        completion: .directory
    )
    var folder: String?

    @Flag(help: "Print one JSON object a line.")
    var json = false

    @Flag(help: "Do not ask.")
    var yes = false

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "With retry: how long to wait for the outcome (default: \(defaultWait.formatted())).",
            valueName: "seconds"
        )
    )
    var wait: Double?

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("The name of this participant, as other processes see it.", valueName: "name")
    )
    var author = "roundtable"

    static let defaultWait = 5.0

    mutating func validate() throws {
        // Both orders are natural: 'outbox app.db show 5AC1', 'outbox show app.db 5AC1'.
        if let name = actionName, Action(rawValue: name) == nil {
            guard Action(rawValue: path) != nil else {
                throw ValidationError("'\(name)' is no action: give list, show, retry or drop.")
            }
            (path, actionName) = (name, path)
        }
        guard (action == .list) == (id == nil) else {
            throw ValidationError(
                action == .list
                    ? "'list' takes no id." : "'\(action.rawValue)' takes the id of a command, or the name of a file."
            )
        }
        if let id, id.isEmpty {
            throw ValidationError("'' is no id; one looks like 5AC1F0C7-96F4-4F6E-A2D5-6B1D7B0C9A10.")
        }
        if let wait, action != .retry || !(wait >= 0 && wait <= 1e6) {
            throw ValidationError("--wait goes with retry, and takes a number of seconds.")
        }
    }

    func run() throws {
        do {
            try perform()
        } catch let error as OutboxError {
            throw ToolError(error.description)
        }
    }

    private func perform() throws {
        let reading = "reading the outbox"
        let items = try RunningTime.show(reading) {
            try OutboxItems(OutboxPlace(path: path, folder: folder), as: author)
        }
        guard let id else {
            let isAny = try RunningTime.show(reading) {
                try json ? OutboxJSON.write(items) : OutboxText(items).write()
            }
            if let problem = items.problem {
                throw ToolError(
                    "\(problem) Only the files are shown: what was set aside, and what failed, is in the database."
                )
            }
            guard let missing = items.place.missing else { return }
            if !isAny { throw ToolError("\(items.place.name): \(missing)") }
            if json { Terminal.complain("\(items.place.name): \(missing)") }
            return
        }
        let item = try RunningTime.show(reading) { try items.find(id) }
        switch action {
        case .list: break
        case .show:
            Terminal.write(json ? OutboxJSON.line(item) : Terminal.dressed(OutboxText(items).details(item)))
            if case .file(let file) = item, file.isProblem { throw ExitCode(2) }
        case .retry, .drop:
            let changes = OutboxChanges(place: items.place, author: author, isAsking: !yes, isJSON: json)
            if action == .drop { return try changes.drop(item) }
            try changes.retry(item, waiting: wait ?? Self.defaultWait)
        }
    }
}

extension OutboxFile {
    fileprivate var isProblem: Bool {
        if case .whole = kind { false } else { true }
    }
}
