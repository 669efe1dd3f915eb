import ArgumentParser
import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableToolSupport

struct TopCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "See a database live: who writes, who waits, and what holds the WAL back.",
        discussion: """
            Looks from outside: creates and changes no file, takes no turn and no place in the control block, and holds no read \
            transaction between two looks. Press h for the keys.

            Where the output is no terminal, or the terminal cannot move its cursor, each look is printed as lines: one fact each, \
            with the time first. With --json, each is one JSON object on a line of its own. Rates need two looks; the first one \
            has none.

            Examples:
              roundtable top app.db
              roundtable top app.db --every 0.2
              roundtable top app.db --once
              roundtable top app.db --json | jq .commits_per_s
            """
    )

    @Argument(help: "The database file.", completion: .file())
    var path: String

    @Option(parsing: .unconditional, help: ArgumentHelp("The time between two looks.", valueName: "seconds"))
    var every = 1.0

    @Flag(help: "Look once, and end.")
    var once = false

    @Flag(help: "Print one JSON object a look.")
    var json = false

    func validate() throws {
        guard every >= 0.1, every <= 86_400 else {
            throw ValidationError("--every takes a number of seconds, from 0.1 to 86400.")
        }
    }

    func run() throws {
        var source = TopSource(URL(fileURLWithPath: path))
        var model = TopModel(interval: every)
        model.add(try source.sample())
        if Terminal.movesCursor, isatty(STDIN_FILENO) == 1, !json, !once {
            try show(&model, &source)
        } else {
            try printLooks(&model, &source)
        }
    }

    // MARK: Without a screen

    private func printLooks(_ model: inout TopModel, _ source: inout TopSource) throws {
        while true {
            if json {
                Terminal.write(TopJSON(model)?.line ?? "")
            } else if once, let size = Terminal.size {
                let lines = TopScreen(model, width: size.width, height: nil).lines
                Terminal.write(lines.map { $0.text(isColoured: Terminal.showsColours) + "\n" }.joined())
            } else {
                Terminal.write(TopLines(model).text)
            }
            if once { return }
            MonotonicClock.sleep(Nanoseconds(every * 1e9))
            model.add(try source.sample())
        }
    }

    // MARK: On a screen

    private func show(_ model: inout TopModel, _ source: inout TopSource) throws {
        let terminal = try TopTerminal()
        defer { terminal.close() }
        try terminal.enter()
        let pause = Nanoseconds(every * 1e9)
        var nextLook = MonotonicClock.now + pause
        var isDrawn = false
        while true {
            if !isDrawn {
                let size = Terminal.size ?? (80, 24)
                let screen = TopScreen(model, width: size.width, height: size.height)
                try terminal.draw(screen.lines, width: size.width, isColoured: Terminal.showsColours)
                isDrawn = true
            }
            let deadline = model.isPaused ? MonotonicClock.now + 3_600_000_000_000 : nextLook
            for event in terminal.wait(until: deadline) {
                switch event {
                case .keys(let keys):
                    for key in keys {
                        switch model.handle(key) {
                        case .quit: return
                        case .redraw: isDrawn = false
                        case .none: break
                        }
                    }
                case .resized: isDrawn = false
                case .continued:
                    try terminal.enter()
                    isDrawn = false
                case .stop: try terminal.stop()
                case .end(let signal): throw ExitCode(128 + signal)
                case .hangUp: throw ExitCode(128 + SIGHUP)
                }
            }
            if !model.isPaused, MonotonicClock.now >= nextLook {
                model.add(try source.sample())
                nextLook = MonotonicClock.now + pause
                isDrawn = false
            }
        }
    }
}

/// Reads samples of a database. Between two samples, nothing of it is open.
struct TopSource {
    private let url: URL
    private var lastSequence: UInt64?
    private var system = SystemLook()
    private let content = UnattendedContent()

    private static let describedCommits = 50

    init(_ url: URL) { self.url = url }

    mutating func sample() throws -> TopSample {
        let time = MonotonicClock.now
        // The status begins with the participants.
        let status = try DatabaseStatus(ofDatabaseAt: url, outboxFolder: nil, reading: nil, knowing: content)
        let commits = RecentCommits(
            ofDatabaseAt: status.path,
            countingAfter: lastSequence,
            describing: Self.describedCommits
        )
        let now = MonotonicClock.now
        lastSequence = commits?.lastSequence
        return TopSample(
            time: time,
            commitsTime: now,
            date: Date(),
            status: status,
            commits: commits,
            warnings: try system.diagnosis(of: status).warnings
        )
    }
}
