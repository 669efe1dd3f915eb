import ArgumentParser
import Foundation
import Roundtable
import RoundtableReplication
import RoundtableToolSupport

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract:
            "Show who shares a database, who writes, who waits, and what waits in the outbox and in tables of jobs.",
        discussion: """
            Looks from outside: creates and changes no file, and takes no turn. Works on any SQLite database. On a machine that has only \
            the outbox, whose commands 'roundtable outbox ship' moves to another one, it shows that. First comes the worst of what \
            'roundtable doctor' warns of, if there is anything.

            With --json, prints one JSON object (with --watch: one a line). Durations are seconds, dates ISO 8601, sizes \
            bytes; "warnings" are findings as those of 'doctor', and what could not be found out is in "unknowns".
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(
        name: .customLong("folder"),
        help: ArgumentHelp("The folder of the outbox, where it is not beside the database.", valueName: "folder"),
        completion: .directory
    )
    var outboxFolder: String?

    @Flag(help: "Print JSON.")
    var json = false

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Look again every so many seconds, until Ctrl-C.", valueName: "seconds")
    )
    var watch: Double?

    func validate() throws {
        if let watch, !(watch >= 0.01 && watch <= 1e6) {
            throw ValidationError("--watch takes a number of seconds, at least 0.01.")
        }
    }

    func run() async throws {
        var system = SystemLook()
        guard let watch else {
            Terminal.write(try reportOfLook(&system))
            return
        }
        while true {
            // The report is made before the screen is cleared, so that the screen does not flicker.
            let report = try reportOfLook(&system)
            if Terminal.isInteractive, !json { Terminal.clear() }
            Terminal.write(Terminal.isInteractive || json ? report : report + "\n")
            try await Task.sleep(for: .seconds(watch))
        }
    }

    private func reportOfLook(_ system: inout SystemLook) throws -> String {
        try RunningTime.show("looking at the database") { try report(look(&system)) }
    }

    private func look(_ system: inout SystemLook) throws -> StatusReport? {
        if LonelyOutbox(at: path, folder: outboxFolder) != nil { return nil }
        try OutboxPlace.check(folder: outboxFolder)
        do {
            let outbox = outboxFolder.map { URL(fileURLWithPath: $0) }
            return try StatusReport(ofDatabaseAt: URL(fileURLWithPath: path), outboxFolder: outbox, &system)
        } catch {
            throw OutboxPlace.explaining(error, path: path, folder: outboxFolder) ?? error
        }
    }

    /// - parameter report: nil when there is only an outbox, whose commands go to another machine.
    private func report(_ report: StatusReport?) -> String {
        guard let report else { return LonelyOutbox(at: path, folder: outboxFolder).map(self.report) ?? "" }
        return json ? encoded(report) : Terminal.dressed(StatusText(report).lines)
    }

    private func report(_ outbox: LonelyOutbox) -> String {
        json ? encoded(outbox) : Terminal.dressed(outbox.lines(at: Date()))
    }

    private func encoded(_ value: some Encodable) -> String { PrintedJSON.object(value, isPretty: watch == nil) }
}
