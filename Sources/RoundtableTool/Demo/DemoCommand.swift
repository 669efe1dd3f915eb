import ArgumentParser
import Dispatch
import Foundation
import Roundtable

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "See several processes share one database.",
        discussion: """
            Starts an app, a sync daemon, a share extension, a read-only widget and an interactive one, as real processes, \
            all at once, on a database that does not exist yet. They write one-row transactions as fast as they can. The \
            interactive widget never opens the database: it leaves commands in the outbox, which the app applies, and reads \
            a snapshot file that the app publishes. Then counts: did everyone get an equal share, how long did the \
            unluckiest wait, is every committed row there, did the widget, which observes the database, come to show the \
            last one, and was each command applied once, in order.

            Exits with 1 when anything is wrong.
            """
    )

    @Option(
        name: .customLong("at"),
        help: ArgumentHelp("The database file to use, and keep. (default: a temporary one)", valueName: "path"),
        completion: .file()
    )
    var path: String?

    @Option(help: ArgumentHelp("How many processes, from 1 to \(DemoCast.maximumSize).", valueName: "n"))
    var processes = 5

    @Option(help: ArgumentHelp("For how long.", valueName: "seconds"))
    var seconds = 5.0

    @Flag(help: "Print one JSON object, and nothing else.")
    var json = false

    private static let startTime: Duration = .seconds(30)
    /// How long a process may take to finish after its time: the busy timeout, and some.
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
        let stage = try DemoStage(path: path)
        let fleet = DemoFleet(DemoCast(size: processes))
        let signals = EndingSignals(fleet.interrupt)
        defer {
            signals.ignore()
            fleet.stop()
            stage.clear()
        }
        let report = try await play(fleet, stage)
        if json {
            Terminal.write(report.json)
        } else {
            Terminal.write("\n" + report.text + "\n" + (path == nil ? Self.keepHint(report) : hints(stage.database)))
        }
        if !report.isGood {
            if json { report.problems.forEach(Terminal.complain) }
            throw ExitCode.failure
        }
    }

    private func play(_ fleet: DemoFleet, _ stage: DemoStage) async throws -> DemoReport {
        let rowsBefore = try DemoDatabase.rowsBefore(stage.database)
        say(
            "One database, \(processes) process\(processes == 1 ? "" : "es"), \(seconds.formatted()) second\(seconds == 1 ? "" : "s")"
        )
        say("\(stage.database.path)\n")
        try fleet.start(databaseAt: stage.database)
        let clock = ContinuousClock()
        // All open the database at once, which exists for none of them; all begin to write at once, so that equal shares
        // are equal.
        for (command, isDone) in [("open", \DemoFleet.Member.isReady), ("go \(seconds)", \.hasOpened)] {
            guard try await fleet.wait(until: clock.now + Self.startTime, { $0[keyPath: isDone] }) else {
                let late = fleet.members.filter { !$0[keyPath: isDone] }.map { "'\($0.player.name)' (pid \($0.pid))" }
                let time = Self.startTime.components.seconds
                throw ToolError("not ready after \(time) s: \(late.joined(separator: ", "))")
            }
            fleet.tell(command)
        }
        var screen = DemoScreen(isInteractive: Terminal.isInteractive)
        let start = clock.now
        let end = start + .seconds(seconds) + Self.grace
        func show() { if !json { screen.show(fleet.members) } }
        _ = try await fleet.wait(until: end, { $0.player.role == .readOnly || $0.hasRested }, show)
        // Now nobody writes: this is what readers must come to see.
        fleet.tell("end \(try DemoDatabase.lastEntry(stage.database))")
        _ = try await fleet.wait(until: end + Self.grace, \.hasEnded, show)
        if !json { screen.clear() }
        var members = fleet.members
        for index in members.indices where !members[index].hasEnded {
            members[index].failure = "did not finish in time"
        }
        fleet.stop()
        let run = members.compactMap(\.report?.interactive?.run).first
        return DemoReport(
            members: members,
            rowsBefore: rowsBefore,
            findings: try DemoDatabase.inspect(stage.database, run: run),
            seconds: seconds
        )
    }

    private func say(_ line: String) {
        if !json { Terminal.write("  \(line)\n") }
    }

    /// What to look at next: each line can be copied and run.
    private func hints(_ database: URL) -> String {
        let path = database.path
        var lines = [
            Terminal.commandLine("status", path),
            Terminal.commandLine("snapshot", SnapshotFile<WidgetState>.path(database).path),
            Terminal.commandLine("sql", path, "SELECT author, COUNT(*) FROM entry GROUP BY author"),
        ]
        let items = try? OutboxItems(OutboxPlace(path: path, folder: nil), as: "roundtable")
        // Not those that are decided, and whose files are still there.
        if let waiting = items?.contents.waiting.count(where: { $0.state == "waiting" }), waiting > 0 {
            let verb = waiting == 1 ? "waits" : "wait"
            lines =
                [
                    "\(waiting.of("command")) \(verb) for an app:", Terminal.commandLine("outbox", path),
                    Terminal.commandLine("demo", "--at", path) + "   # applies them first", "and also:",
                ] + lines
        }
        return lines.map { "  \($0)\n" }.joined()
    }

    /// The files are gone by then.
    private static func keepHint(_ report: DemoReport) -> String {
        report.isGood
            ? "  To look at the files afterwards, keep them: \(Terminal.commandLine("demo", "--at", "demo.sqlite"))\n"
            : "  The files are removed. To look at them, keep them: \(Terminal.commandLine("demo", "--at", "demo.sqlite"))\n"
    }
}

/// Where the demo takes place: at the path that was given, or in a temporary folder that goes away.
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
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            database = folder.appendingPathComponent("demo.sqlite")
            temporaryFolder = folder
        }
    }

    func clear() {
        // A temporary folder that cannot be removed is the system's to clean up.
        if let temporaryFolder { try? FileManager.default.removeItem(at: temporaryFolder) }
    }
}

/// Ctrl-C and its like.
final class EndingSignals: @unchecked Sendable {
    // @unchecked: the sources are only created and cancelled here, which is safe from any thread.
    private let sources: [any DispatchSourceSignal]

    init(_ handle: @escaping @Sendable (Int32) -> Void) {
        // Writing to a process that has just died must not end this one.
        signal(SIGPIPE, SIG_IGN)
        sources = [SIGINT, SIGTERM, SIGHUP].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { handle(number) }
            source.resume()
            return source
        }
    }

    func ignore() { sources.forEach { $0.cancel() } }
}
