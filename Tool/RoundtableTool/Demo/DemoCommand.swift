import ArgumentParser
import Foundation
import Roundtable
import RoundtableToolSupport

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "See several processes share one database.",
        discussion: """
            Starts an app, a sync daemon, a share extension, a read-only widget and an interactive one, as real processes, \
            all at the same time, on a database that does not exist yet. They write one-row transactions as fast as they can. The \
            interactive widget never opens the database: it leaves commands in the outbox, which the app applies, and reads \
            a snapshot file that the app publishes. Then counts: did everyone get an equal share, how long did the \
            unluckiest wait, is every committed row there, does the widget, which observes the database, show the \
            last one, and was each command applied once, in order.

            Exit code: 0 when all is well; 1 when anything is wrong.
            """
    )

    @Option(
        name: .customLong("at"),
        help: ArgumentHelp("The database file to use, and keep. (default: a temporary one)", valueName: "path"),
        completion: .file()
    )
    var path: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("How many processes, from 1 to \(DemoCast.maximumSize).", valueName: "n")
    )
    var processes = 5

    @Option(parsing: .unconditional, help: ArgumentHelp("For how long.", valueName: "seconds"))
    var seconds = 5.0

    @Flag(help: "Print one JSON object, and nothing else.")
    var json = false

    private static let startTime: Duration = .seconds(30)
    /// How long a process may take to finish after its time. It is longer than the busy timeout.
    private static let grace: Duration = .seconds(10)

    func validate() throws {
        guard (1...DemoCast.maximumSize).contains(processes) else {
            throw ValidationError("--processes takes a number from 1 to \(DemoCast.maximumSize).")
        }
        guard seconds >= 0.1, seconds <= 86_400 else {
            throw ValidationError("--seconds takes a number from 0.1 to 86400.")
        }
    }

    func run() async throws {
        let fleet = DemoFleet(DemoCast(size: processes))
        // The handlers are installed before there is anything to clean up.
        let signals = EndingSignals(fleet.interrupt)
        defer { signals.ignore() }
        let stage = try DemoStage(path: path)
        let report = try await perform(fleet, stage)
        if json {
            try Terminal.print(report.json)
        } else {
            try Terminal.print(
                "\n" + Terminal.dressed(report.lines) + "\n"
                    + (path == nil ? Self.keepHint(report) : hints(stage.database))
            )
        }
        if !report.isGood {
            if json { report.problems.forEach(Terminal.complain) }
            throw ExitCode.failure
        }
    }

    /// Runs the demo. It leaves neither a process nor a temporary folder behind, however it ends.
    private func perform(_ fleet: DemoFleet, _ stage: DemoStage) async throws -> DemoReport {
        defer {
            fleet.stop()
            stage.clear()
        }
        do {
            let report = try await play(fleet, stage)
            try fleet.checkInterruption()
            return report
        } catch {
            // After an interruption, its exit code is thrown, because the interruption caused the other error.
            try fleet.checkInterruption()
            throw error
        }
    }

    private func play(_ fleet: DemoFleet, _ stage: DemoStage) async throws -> DemoReport {
        let rowsBefore = try fleet.interruptible { try DemoDatabase.rowsBefore(stage.database, $0) }
        let count = "\(processes) process\(processes == 1 ? "" : "es")"
        let time = "\(seconds.formatted()) second\(seconds == 1 ? "" : "s")"
        try say("\(count) share\(processes == 1 ? "s" : "") one database for \(time):")
        try say("\(stage.database.path)\n")
        try say("Starting \(count) …")
        try fleet.start(databaseAt: stage.database)
        // All processes open the database at the same time, before it exists. They also begin to write at the same time, so
        // that their shares can be compared.
        let steps: [(command: String, doing: String, isDone: KeyPath<DemoFleet.Member, Bool>)] = [
            (
                "open",
                rowsBefore == 0
                    ? "All open it at the same time; the first one creates it …" : "All open it at the same time …",
                \.isReady
            ),
            ("go \(seconds)", "\(Self.work(fleet.members)), for \(time) …\n", \.hasOpened),
        ]
        for step in steps {
            guard try await fleet.wait(for: Self.startTime, { $0[keyPath: step.isDone] }) else {
                let late = fleet.members.filter { !$0[keyPath: step.isDone] }
                let names = late.map { "'\($0.player.name)' (pid \($0.pid))" }.joined(separator: ", ")
                throw ToolError("not ready after \(Self.startTime.components.seconds) s: \(names)")
            }
            try say(step.doing)
            fleet.tell(step.command)
        }
        var screen = DemoScreen(isInteractive: Terminal.isInteractive)
        func show() throws { if !json { try screen.show(fleet.members) } }
        let working = Duration.seconds(seconds) + Self.grace
        _ = try await fleet.wait(for: working, { $0.player.role == .readOnly || $0.hasRested }, show)
        // No process writes any more, so this is the entry that all readers must show in the end.
        fleet.tell("end \(try fleet.interruptible { try DemoDatabase.lastEntry(stage.database, $0) })")
        _ = try await fleet.wait(for: Self.grace * 2, \.hasEnded, show)
        if !json { try screen.clear() }
        var members = fleet.members
        for index in members.indices where !members[index].hasEnded {
            members[index].failure = "did not finish in time"
        }
        fleet.stop()
        try say("Counting what is there, and checking the database …")
        let run = members.compactMap(\.report?.interactive?.run).first
        return DemoReport(
            members: members,
            rowsBefore: rowsBefore,
            findings: try fleet.interruptible { try DemoDatabase.inspect(stage.database, run: run, $0) },
            seconds: seconds
        )
    }

    /// The numbers of processes with their work, such as `3 write as fast as they can, 1 reads, 1 sends commands`.
    private static func work(_ members: [DemoFleet.Member]) -> String {
        let verbs: [(DemoCast.Player.Role, one: String, many: String)] = [
            (.readWrite, "writes as fast as it can", "write as fast as they can"), (.readOnly, "reads", "read"),
            (.outboxOnly, "sends commands", "send commands"),
        ]
        return verbs.compactMap { role, one, many in
            let count = members.count { $0.player.role == role }
            return count == 0 ? nil : "\(count) \(count == 1 ? one : many)"
        }.joined(separator: ", ")
    }

    private func say(_ line: String) throws {
        if !json { try Terminal.print("  \(line)\n") }
    }

    /// Commands to try next. Each line can be copied and run.
    private func hints(_ database: URL) -> String {
        let path = database.path
        var lines = [
            Terminal.commandLine("status", path), Terminal.commandLine("top", path),
            Terminal.commandLine("snapshot", SnapshotFile<WidgetState>.path(database).path),
            Terminal.commandLine("sql", path, "SELECT author, COUNT(*) FROM entry GROUP BY author"),
        ]
        let items = try? OutboxItems(OutboxPlace(path: path, folder: nil), as: "roundtable")
        var waiting = 0
        try? items?.forEach { item in
            // Commands that are decided, but whose files still exist, do not count.
            if case .waiting(let command) = item, command.state == "waiting" { waiting += 1 }
        }
        if waiting > 0 {
            let verb = waiting == 1 ? "waits" : "wait"
            lines =
                [
                    "\(waiting.of("command")) \(verb) for an app:", Terminal.commandLine("outbox", path),
                    Terminal.commandLine("demo", "--at", path) + "   # applies them first", "and also:",
                ] + lines
        }
        return lines.map { "  \($0)\n" }.joined()
    }

    /// The hint after a demo whose files are removed.
    private static func keepHint(_ report: DemoReport) -> String {
        let database = "demo.sqlite"
        let lines =
            report.isGood
            ? [
                "To keep the files, and to see in another terminal who writes and who waits:",
                Terminal.commandLine("demo", "--at", database, "--seconds", "60"),
                Terminal.commandLine("top", database),
            ]
            : [
                "The files are removed. To look at them, keep them:",
                Terminal.commandLine("demo", "--at", database),
            ]
        return lines.map { "  \($0)\n" }.joined()
    }
}

/// The place of the database: the given path, or a temporary folder that is removed.
struct DemoStage: Sendable {
    let database: URL
    private let temporaryFolder: URL?

    init(path: String?) throws {
        if let path {
            database = URL(fileURLWithPath: path)
            temporaryFolder = nil
            let folder = database.deletingLastPathComponent().path
            guard FileManager.default.fileExists(atPath: folder) else {
                throw ToolError("\(path): the folder \(folder) does not exist: create it first")
            }
        } else {
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("roundtable-demo-\(ProcessInfo.processInfo.processIdentifier)")
            // Its name must be unused, because other users may write into the system's folder for temporary files.
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700]
            )
            database = folder.appendingPathComponent("demo.sqlite")
            temporaryFolder = folder
        }
    }

    func clear() {
        // If the temporary folder cannot be removed, the system removes it later.
        if let temporaryFolder { try? FileManager.default.removeItem(at: temporaryFolder) }
    }
}
