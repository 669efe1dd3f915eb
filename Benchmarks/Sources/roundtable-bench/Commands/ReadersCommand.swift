import ArgumentParser
import Foundation

struct ReadersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "readers",
        abstract: "Threads and processes that read at the same time, alone and beside a writer: how does that scale?",
        discussion: """
            Each reads one row by its key, again and again. Threads share one process: ours and GRDB read with one pool, SQLite's C interface with \
            a connection for each thread. Processes have one reading thread each. --seconds is the time of each side in each setting.
            """
    )

    @OptionGroup var options: CommonOptions

    @Option(help: "The most threads of one process: 1, 2, 4 … up to this, 1 to 64.")
    var threads = 16

    @Option(help: "The most processes: 1, 2, 4 … up to this, 1 to 64.")
    var processes = 8

    @Option(help: "Into how many trials each side's time is divided, each with new processes and a new database.")
    var rounds = 5

    @Option(
        help:
            "The most reader connections of ours and of GRDB. (default: one for each thread, at least the 5 that are both libraries' default)"
    )
    var connections: Int?

    @Option(help: "How long the writer pauses after each commit, in milliseconds.")
    var writerPause = 0.0

    func validate() throws {
        guard (1...64).contains(threads) else { throw ValidationError("--threads must be 1 to 64.") }
        guard (1...64).contains(processes) else { throw ValidationError("--processes must be 1 to 64.") }
        guard (1...1000).contains(rounds) else { throw ValidationError("--rounds must be 1 to 1000.") }
        if let connections, connections < 1 { throw ValidationError("--connections must be at least 1.") }
        guard (0...1000).contains(writerPause) else { throw ValidationError("--writer-pause must be 0 to 1000.") }
    }

    func run() async throws {
        Interruption.arm()
        let load = OtherLoad()
        let seconds = options.seconds ?? 3
        let readers = Readers(
            seconds: seconds / Double(rounds),
            rounds: rounds,
            sides: options.sides,
            connections: connections ?? max(5, threads),
            writerPause: writerPause
        )
        let settings = Readers.Setting.all(threads: threads, processes: processes)
        let comparisons = try await options.withFolder { try await readers.measure(settings, in: $0) }
        try options.print(
            Report(
                name: "readers",
                title: comparisons[0].name,
                unit: "reads/s",
                main: comparisons[0].comparison,
                variants: Array(comparisons.dropFirst()),
                seconds: seconds,
                processes: processes,
                rounds: rounds,
                machine: Report.Machine(load)
            )
        )
    }
}
