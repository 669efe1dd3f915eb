import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableToolSupport

/// How results are printed; as a table without one.
enum SQLFormat: String, EnumerableFlag {
    case json, csv, line

    static func help(for format: SQLFormat) -> ArgumentHelp? {
        switch format {
        case .json: "Print one JSON object a row."
        case .csv: "Print comma-separated values, with a header."
        case .line: "Print one column a line."
        }
    }
}

struct SQLCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sql",
        abstract: "Read or write a database.",
        discussion: """
            Statements that only read leave the database as it is: it is opened for writing at the first statement that \
            writes. Writing takes a fair turn among all processes that share the database; it creates the file if there \
            is none, and switches a rollback-journal database to WAL, and says so.

            All statements of one call run in one transaction, unless they contain BEGIN, COMMIT, ROLLBACK, VACUUM, ATTACH, \
            DETACH, or a pragma that has no effect in a transaction.

            A VALUE is a number (42, -1.5), NULL, x'68656C6C6F', or text; '42' in SQL quotes is text. Values without a name \
            go to the parameters '?' of the statements, in order.

            In place of statements, .tables lists the names of tables and views, and .schema the statements that created them, or those \
            of one table.

            Without statements, they are read from standard input; on a terminal, they are typed one after the other, with a history \
            and completion of the names of tables and columns.

            With --json, each row is one JSON object on a line of its own, ready for jq. A BLOB is {"base64": "…"}. --csv is RFC 4180 \
            with a header; NULL is an empty field, and an empty text is "". --line prints one column a line, and all of it. A table in a \
            terminal has cells that are too wide cut, and one column a line where there are too many.

            Nothing is printed before the transaction has ended, so that a pager that waits holds no read open. A result of more than \
            4 MiB waits in a temporary file meanwhile, in SQLITE_TMPDIR, TMPDIR, /var/tmp or /tmp.

            Examples:
              roundtable sql app.db "SELECT * FROM player"
              roundtable sql app.db "INSERT INTO player VALUES (?, ?)" --param Arthur --param 7
              roundtable sql app.db "SELECT * FROM player" --json | jq -r .name
              roundtable sql app.db --csv "SELECT * FROM player" > players.csv
              roundtable sql app.db .tables
              roundtable sql app.db ".schema player"
              roundtable sql app.db < script.sql
              roundtable sql app.db
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Argument(help: ArgumentHelp("SQL statements; each argument may hold several.", valueName: "sql"))
    var statements: [String] = []

    @Flag(help: "Fail rather than write.")
    var readOnly = false

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("The name of this participant, as other processes see it.", valueName: "name")
    )
    var author = "roundtable"

    @Option(
        name: .customLong("param"),
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("The value of a parameter: VALUE, or :name=VALUE.", valueName: "value")
    )
    var parameters: [String] = []

    @Flag(exclusivity: .exclusive)
    var format: SQLFormat?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("How long to wait while other processes write.", valueName: "seconds")
    )
    var timeout = 5.0

    func validate() throws {
        guard timeout >= 0, timeout <= 1e6 else {
            throw ValidationError("--timeout takes a number of seconds that is not negative.")
        }
        if !statements.isEmpty { try Self.check(SQLScript(statements)) }
    }

    private static func check(_ script: SQLScript) throws {
        guard !script.statements.isEmpty else { throw ValidationError("There is no SQL statement.") }
    }

    /// The text of a script. Bytes that are no text are not replaced, because the script may store them.
    static func text(_ data: Data) throws -> String {
        guard let text = String(validating: data, as: UTF8.self) else {
            throw ToolError(
                """
                the statements on standard input are not UTF-8: none of them was run. Convert them, for example with \
                'iconv -f LATIN1 -t UTF-8', and write a BLOB as x'…'.
                """
            )
        }
        if data.contains(0) {
            throw ToolError(
                """
                the statements on standard input contain a zero byte, at which SQLite would end them: none of them was run. \
                Write it as char(0).
                """
            )
        }
        return text
    }

    func run() throws {
        let session = SQLSession(path: path, execute: { try execute($0, $1) }, names: { try names($0) })
        if statements.first?.hasPrefix(".") == true {
            return try explained { try session.list(statements.joined(separator: " ")) }
        }
        if !statements.isEmpty { return try execute(SQLScript(statements), format) }
        if isatty(STDIN_FILENO) == 1 {
            guard parameters.isEmpty else { throw ValidationError("--param goes with statements on the command line.") }
            return try session.run(format)
        }
        let script = SQLScript([try Self.text(FileHandle.standardInput.readDataToEndOfFile())])
        try Self.check(script)
        try execute(script, format)
    }

    /// The first column of a query; empty when there is no database yet.
    private func names(_ sql: String) throws -> [String] {
        let run = ScriptRun(script: SQLScript([sql]), parameters: Parameters([]))
        guard FileManager.default.fileExists(atPath: path) else {
            if statements.isEmpty { return [] }
            throw ToolError("\(URL(fileURLWithPath: path).path): there is no such file. Check the path.")
        }
        var names: [String] = []
        for result in try access.read(run, .readOnly).results {
            try result.rows.forEach { row in String.fromDatabaseValue(row[0]).map { names.append($0) } }
        }
        return names
    }

    private func execute(_ script: SQLScript, _ format: SQLFormat?) throws {
        try explained { try executeUnexplained(script, format) }
    }

    /// Adds the path of the database to an error of SQLite.
    private func explained(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError {
            let line = ToolError.line(for: error)
            let fullPath = URL(fileURLWithPath: path).path
            throw line.contains(fullPath) ? error : ToolError("\(fullPath): \(line)")
        }
    }

    private var access: DatabaseAccess {
        var options = SharedDatabase.Options()
        // The tool reports what goes wrong itself, on one line.
        options.eventLog = .off
        options.busyTimeout = .seconds(timeout)
        options.setupTimeout = .seconds(timeout)
        options.waitWhileStopped()
        return DatabaseAccess(url: URL(fileURLWithPath: path), author: author, options: options)
    }

    private func executeUnexplained(_ script: SQLScript, _ format: SQLFormat?) throws {
        let run = ScriptRun(script: script, parameters: Parameters(parameters))
        let outcome = try perform(run, access)
        do {
            try write(outcome, script, format)
        } catch let error as OutputError where outcome.hasWritten {
            throw ToolError(
                """
                \(error.problem). The statements have run to the end, and what they wrote is committed: do not run them again, but \
                look with a SELECT.
                """
            )
        }
    }

    private func perform(_ run: ScriptRun, _ access: DatabaseAccess) throws -> ScriptRun.Outcome {
        let time = RunningTime("running")
        defer { time.end() }
        do {
            return try readOnly ? access.read(run, .readOnly) : access.readOrRehearse(run)
        } catch is ScriptRun.NeedsWriting {
            return try access.write(run, notice: Terminal.complain)
        }
    }

    /// Writes the results in parts, because their text may be much larger than they are.
    private func write(_ outcome: ScriptRun.Outcome, _ script: SQLScript, _ format: SQLFormat?) throws {
        var output = OutputBuffer()
        let put = { (text: String) in try output.append(text) }
        let width = Terminal.width
        for (index, result) in outcome.results.enumerated() {
            if index > 0, format != .json { try put("\n") }
            switch format {
            case .json: try result.writeJSONLines(put)
            case .csv: try result.writeCSV(isForPeople: Terminal.isInteractive, put)
            case .line: try result.writeColumnLines(put)
            case nil: try result.writeText(width: width, isColoured: Terminal.showsColours, put)
            }
        }
        if format == nil || format == .line, script.changesRows, outcome.hasWritten {
            let count = "\(outcome.changeCount.grouped) row\(outcome.changeCount == 1 ? "" : "s") changed\n"
            try put((outcome.results.isEmpty ? "" : "\n") + count)
        }
        try output.flush()
    }
}

/// Collects text, and writes it to standard output when there is enough of it.
private struct OutputBuffer {
    private static let size = 64 << 10
    private var text = ""

    mutating func append(_ more: String) throws {
        text += more
        if text.utf8.count >= Self.size { try flush() }
    }

    mutating func flush() throws {
        defer { text = "" }
        if !text.isEmpty { try Terminal.print(text) }
    }
}
