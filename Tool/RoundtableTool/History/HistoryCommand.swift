import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableHistory
import RoundtableKernel
import RoundtableToolSupport

struct HistoryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "Show the recorded changes of a database, and their consumers.",
        discussion: """
            Shows the changes of tables whose history was enabled (db.history.enable(for:) in Swift, --enable here), in the order of \
            their commits. Looking reads only. --enable, --disable and --drop-consumer write.

            With --json, prints one JSON object a change: token, sequence, transaction, author, time, table, operation, key, \
            columns, old_values; the last line is {"token": …, "has_more": …}. When changes are missing after the token, the exit code is 2, \
            and the error says where to continue.

            With --follow, further changes are printed as they are committed, until Ctrl-C, or until the output is not read any more.

            Examples:
              roundtable history app.db --enable player --keep server_id
              roundtable history app.db --last 20 --follow
              roundtable history app.db --since 3f09a1b2c4d5e6f7-42 --table player --json
              roundtable history app.db --consumer indexer
              roundtable history app.db --consumers
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(help: ArgumentHelp("Only changes after this one.", valueName: "token"))
    var since: String?

    @Option(help: ArgumentHelp("Only changes that this consumer has not acknowledged yet.", valueName: "name"))
    var consumer: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Only the last changes.", valueName: "n"))
    var last: Int?

    @Flag(help: "Go on with changes as they are committed.")
    var follow = false

    @Option(
        name: .customLong("table"),
        help: ArgumentHelp("Only changes of this table; repeat it for more.", valueName: "name")
    )
    var tables: [String] = []

    @Option(parsing: .unconditional, help: "The most changes to show.")
    var limit = 1000

    @Flag(help: "Print one JSON object a line.")
    var json = false

    @Flag(help: "Show the consumers instead.")
    var consumers = false

    @Option(help: ArgumentHelp("Keep nothing for this consumer any more.", valueName: "name"))
    var dropConsumer: String?

    @Option(help: ArgumentHelp("Record this table's changes from now on.", valueName: "table"))
    var enable: String?

    @Flag(help: "With --enable: record the changed columns, too.")
    var columns = false

    @Option(
        name: .customLong("keep"),
        help: ArgumentHelp(
            "With --enable: keep this column's old value with each deletion; repeat it for more.",
            valueName: "column"
        )
    )
    var keptColumns: [String] = []

    @Flag(help: "With --keep: keep the old values with each update, too.")
    var keepUpdates = false

    @Option(help: ArgumentHelp("Record this table's changes no longer.", valueName: "table"))
    var disable: String?

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("The name of this participant, as other processes see it.", valueName: "name")
    )
    var author = "roundtable"

    func validate() throws {
        let actions = [enable, disable, dropConsumer].compactMap(\.self).count + (consumers ? 1 : 0)
        guard actions <= 1 else {
            throw ValidationError("--enable, --disable, --consumers and --drop-consumer go one at a time.")
        }
        guard [since, consumer, last.map(String.init)].compactMap(\.self).count <= 1 else {
            throw ValidationError("--since, --consumer and --last exclude each other.")
        }
        if let last, last < 1 { throw ValidationError("--last takes a number of changes, at least 1.") }
        if follow || last != nil, actions > 0 {
            throw ValidationError("--last and --follow go with showing changes only.")
        }
        guard limit >= 1 else { throw ValidationError("--limit takes a number of changes, at least 1.") }
        if let since, HistoryToken(since) == nil {
            throw ValidationError("'\(since)' is no token; one looks like 3f09a1b2c4d5e6f7-42.")
        }
        if !tables.isEmpty, actions > 0 { throw ValidationError("--table goes with showing changes only.") }
        if columns, enable == nil { throw ValidationError("--columns goes with --enable.") }
        if !keptColumns.isEmpty, enable == nil { throw ValidationError("--keep goes with --enable.") }
        if keepUpdates, keptColumns.isEmpty { throw ValidationError("--keep-updates goes with --keep.") }
    }

    func run() throws {
        do {
            try perform()
        } catch let error as HistoryError {
            let line = ToolError.line(for: error)
            switch error {
            case .startOver: throw ToolError("\(fullPath): \(line)", exitCode: 2)
            case .notEnabled: throw ToolError(advice(line, for: tables.first))
            case .notTracked(_, let table): throw ToolError(advice(line, for: table))
            default: throw ToolError(line)
            }
        }
    }

    /// - Parameters:
    ///   - line: says that the changes are not recorded.
    ///   - table: nil when none is named.
    /// - returns: `line` with the command that records them. No command helps with a table that does not exist.
    private func advice(_ line: String, for table: String?) -> String {
        if let table, let exists = try? read({ try $0.tableExists(table) }), !exists {
            return "\(fullPath): there is no table '\(table)'. Check the name."
        }
        return "\(line) Here: \(Terminal.commandLine("history", path, "--enable", table ?? "TABLE"))"
    }

    private func perform() throws {
        if let enable {
            try open().history.enable(
                for: enable,
                recording: columns ? .changedColumns : .rows,
                keeping: OldValuePolicy(columns: Set(keptColumns), includesUpdates: keepUpdates)
            )
            Terminal.complain("recording the changes of '\(enable)' from now on")
            printDone(["enabled": enable])
        } else if let disable {
            try open().history.disable(for: disable)
            printDone(["disabled": disable])
        } else if let dropConsumer {
            guard try open().history.dropConsumer(dropConsumer) else {
                throw ToolError("\(fullPath): there is no consumer '\(dropConsumer)'. --consumers lists them.")
            }
            printDone(["dropped_consumer": dropConsumer])
        } else if consumers {
            let list = try read { try DatabaseHistory.consumers(in: $0) }
            Terminal.write(
                json ? HistoryText.lines(list) : Terminal.dressed(HistoryText.table(list, in: Terminal.width))
            )
        } else if follow {
            let following = HistoryFollowing(path: fullPath, tables: tables.isEmpty ? nil : tables, isJSON: json)
            // Before it is opened: a file that replaces it meanwhile is noticed.
            let identity = try? System.identity(ofFileAt: fullPath)
            try following.run(try openForReading(), identity) { try token($0) }
        } else {
            let page = try read { db in
                try DatabaseHistory.changes(
                    since: try token(db),
                    in: tables.isEmpty ? nil : tables,
                    limit: last ?? limit,
                    from: db
                )
            }
            Terminal.write(
                json ? HistoryText.lines(page) : Terminal.dressed(HistoryText.table(page, in: Terminal.width))
            )
        }
    }

    private func printDone(_ what: [String: String]) {
        if json { Terminal.write(PrintedJSON.object(what)) }
    }

    private func token(_ db: Database) throws -> HistoryToken? {
        if let last { return try DatabaseHistory.token(beforeLast: last, in: tables.isEmpty ? nil : tables, from: db) }
        guard let consumer else { return since.flatMap(HistoryToken.init) }
        guard let found = try DatabaseHistory.consumers(in: db).first(where: { $0.name == consumer }) else {
            throw ToolError("\(fullPath): there is no consumer '\(consumer)'. --consumers lists them.")
        }
        return found.token
    }

    // MARK: Opening

    private var options: SharedDatabase.Options {
        var options = SharedDatabase.Options()
        // The tool reports what goes wrong itself, on one line.
        options.eventLog = .off
        options.waitWhileStopped()
        return options
    }
    private var url: URL { URL(fileURLWithPath: path) }
    private var fullPath: String { url.path }

    private func open() throws -> SharedDatabase {
        guard FileManager.default.fileExists(atPath: path) else {
            throw ToolError("\(fullPath): there is no such file. Check the path.")
        }
        return try SharedDatabase.open(at: url, schema: .unmanaged, as: author, options: options)
    }

    private func read<T>(_ value: (Database) throws -> T) throws -> T {
        let time = RunningTime("reading the history")
        defer { time.end() }
        let database = try openForReading()
        defer { try? database.close() }
        return try database.read(value)
    }

    private func openForReading() throws -> SharedDatabase {
        switch try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: author, options: options) {
        case .available(let database): return database
        case .unavailable where FileManager.default.fileExists(atPath: path):
            throw ToolError("\(fullPath): is empty: no database was created in it yet.")
        case .unavailable:
            throw ToolError("\(fullPath): there is no such file. Check the path.")
        }
    }
}
