import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableReplication
import RoundtableToolSupport

struct QuarantineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Move a database aside that is damaged, while programs have it open.",
        discussion: """
            All files of the database are moved into a folder beside it, NAME-quarantined-TIME, in which it can be opened. Programs that share it \
            get the error that it was moved; when they open it again, they create a new one. Writes that run end first, and none is lost. \
            Nothing is read, so the database may be damaged, and needs no key. Commands that wait in the outbox stay.

            A database that is open in programs that do not use Roundtable is refused, with their names.

            With --json, prints one JSON object: "path", "quarantined".

            Exit code: 0 when the database is moved; 1 when not, and nothing has changed; 130 after Ctrl-C.

            Examples:
              roundtable quarantine app.db
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("The name of this participant, as other processes see it.", valueName: "name")
    )
    var author = "roundtable"

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("How long to wait while other processes write.", valueName: "seconds")
    )
    var timeout = 5.0

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var others: OthersFolderOption

    func validate() throws {
        guard timeout >= 0, timeout <= 1e6 else {
            throw ValidationError("--timeout takes a number of seconds that is not negative.")
        }
    }

    func run() async throws {
        let url = try others.checkedDatabase(path)
        var options = SharedDatabase.Options()
        options.eventLog = .off
        options.setupTimeout = .seconds(timeout)
        options.waitWhileStopped()
        let moving = Task { [author, options] in
            try await SharedDatabase.quarantine(at: url, as: author, options: options)
        }
        let signals = EndingSignals { _ in moving.cancel() }
        defer { signals.ignore() }
        do {
            let report = QuarantineReport(path: url.path, quarantined: try await moving.value.path)
            Terminal.write(json ? PrintedJSON.object(report, isPretty: true) : Terminal.dressed(report.text))
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            let text = ToolError.line(for: error).prefix { $0 != "\n" }
            let what = text.firstRange(of: ". Raise").map { text[..<$0.lowerBound] } ?? text
            throw ToolError("\(what). Nothing was changed. Try again after that, or give a longer --timeout.")
        } catch is CancellationError {
            throw ToolError("\(url.path): ended: nothing has changed. Run it again.", exitCode: 128 + SIGINT)
        }
    }
}

/// What `roundtable quarantine` reports.
struct QuarantineReport: Encodable {
    let path: String
    /// The database in its new folder.
    let quarantined: String

    var text: String { "\(path): is now \(quarantined). The next program that opens it creates a new one.\n" }
}
