import ArgumentParser
import Foundation
import GRDB
import Roundtable

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

            With --json, each row is one JSON object on a line of its own, ready for jq. A BLOB is {"base64": "…"}.

            Examples:
              roundtable sql app.db "SELECT * FROM player"
              roundtable sql app.db "INSERT INTO player VALUES (?, ?)" --param Arthur --param 7
              roundtable sql app.db "SELECT * FROM player" --json | jq -r .name
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Argument(help: ArgumentHelp("SQL statements; each argument may hold several.", valueName: "sql"))
    var statements: [String]

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

    @Flag(help: "Print one JSON object a row.")
    var json = false

    @Option(help: ArgumentHelp("How long to wait while other processes write.", valueName: "seconds"))
    var timeout = 5.0

    func validate() throws {
        guard timeout >= 0, timeout <= 1e6 else {
            throw ValidationError("--timeout takes a number of seconds that is not negative.")
        }
        guard !SQLScript(statements).statements.isEmpty else { throw ValidationError("There is no SQL statement.") }
    }

    func run() throws {
        do {
            try execute()
        } catch let error as DatabaseError {
            let line = ToolError.line(for: error)
            let fullPath = URL(fileURLWithPath: path).path
            throw line.contains(fullPath) ? error : ToolError("\(fullPath): \(line)")
        }
    }

    private func execute() throws {
        let run = ScriptRun(script: SQLScript(statements), parameters: Parameters(parameters))
        var options = SharedDatabase.Options()
        // The tool reports what goes wrong itself, on one line.
        options.eventLog = .off
        options.busyTimeout = .seconds(timeout)
        options.setupTimeout = .seconds(timeout)
        options.waitWhileStopped()
        let access = DatabaseAccess(url: URL(fileURLWithPath: path), author: author, options: options)

        let outcome: ScriptRun.Outcome
        do {
            outcome = try readOnly ? access.read(run, .readOnly) : access.readOrRehearse(run)
        } catch is ScriptRun.NeedsWriting {
            outcome = try access.write(run, notice: Terminal.complain)
        }
        do {
            try Terminal.print(text(outcome, run.script))
        } catch let error as OutputError where outcome.hasWritten {
            throw ToolError(
                """
                \(error.problem). The statements have run to the end, and what they wrote is committed: do not run them again, but \
                look with a SELECT.
                """
            )
        }
    }

    private func text(_ outcome: ScriptRun.Outcome, _ script: SQLScript) -> String {
        if json { return outcome.results.map(\.jsonLines).joined() }
        var parts = outcome.results.map(\.text)
        if script.changesRows, outcome.hasWritten {
            parts.append("\(outcome.changeCount.grouped) row\(outcome.changeCount == 1 ? "" : "s") changed\n")
        }
        return parts.joined(separator: "\n")
    }
}
