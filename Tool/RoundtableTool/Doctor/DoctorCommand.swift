import ArgumentParser
import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableReplication
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

struct DoctorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Say what is wrong with a database, and what to do about it.",
        discussion: """
            Looks from outside, as 'status' does: creates and changes no file, and takes no turn. Works on any SQLite database.

            With --json, prints one JSON object: "findings", each with "id", "severity" (notice, warning, error), "message", "where", \
            "processes", "advice"; what could not be found out is in "unknowns".

            Exit code: 0 when there is nothing, or notices only; 1 with warnings; 2 with errors, or when it cannot be inspected.
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

    @Flag(help: "Check the content, too (PRAGMA quick_check): reads the whole file.")
    var check = false

    @Flag(help: "With --check: compare indexes with tables (PRAGMA integrity_check).")
    var full = false

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        if full, !check { throw ValidationError("--full goes with --check.") }
    }

    func run() throws {
        let time = RunningTime(check ? "checking the content" : "examining the database")
        let diagnosis: DatabaseDiagnosis
        do {
            defer { time.end() }
            try OutboxPlace.check(folder: outboxFolder)
            if let outbox = LonelyOutbox(at: path, folder: outboxFolder) {
                diagnosis = DatabaseDiagnosis(ofOutboxAt: outbox.path, outbox.travels)
            } else {
                let jobs = JobsReading()
                var found = try DatabaseDiagnosis(
                    ofDatabaseAt: URL(fileURLWithPath: path),
                    outboxFolder: outboxFolder.map { URL(fileURLWithPath: $0) },
                    reading: jobs.further,
                    checking: check ? full ? .full : .quick : .none
                )
                found.unknowns += jobs.unknowns
                found.findOtherDatabases()
                if let jobs = jobs.status { JobsFindings(jobs: jobs).add(to: &found) }
                diagnosis = found
            }
        } catch {
            let explained = OutboxPlace.explaining(error, path: path, folder: outboxFolder)
            throw ToolError(ToolError.line(for: explained ?? error), exitCode: 2)
        }
        Terminal.write(report(diagnosis))
        switch diagnosis.severity {
        case .error: throw ExitCode(2)
        case .warning: throw ExitCode(1)
        case .info, .notice, nil: break
        }
    }

    private func report(_ diagnosis: DatabaseDiagnosis) -> String {
        guard json else {
            let isOutbox = LonelyOutbox(at: path, folder: outboxFolder) != nil
            let content: DoctorText.Content = isOutbox ? .none : check ? .checked : .notChecked
            return Terminal.dressed(DoctorText(diagnosis, content: content).lines)
        }
        return PrintedJSON.object(diagnosis, isPretty: true)
    }
}
