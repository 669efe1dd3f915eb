import ArgumentParser
import Foundation

struct CommitTailCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "commit-tail",
        abstract: "One process, and then several, commit again and again: how long do the slowest commits take?"
    )

    @OptionGroup var options: CommonOptions

    @Option(help: "How many processes write at the same time, beside the measurements with one, 2 to 64.")
    var processes = 4

    @Option(help: "Into how many trials each side's time is divided, each with new processes and a new database.")
    var rounds = 5

    @Option(help: "Measure only this: insert, a row at the end of a table; update, random rows of 100,000.")
    var workload: Workload?

    @Option(help: "How many random rows each update changes, 1 to 1000.")
    var rows = 1

    @Option(help: "How long one of our participants may go on writing while others wait, in milliseconds.")
    var slice: Double?

    @Flag(help: "No side checkpoints. Shows what is left without; the WAL grows by the size of what is written.")
    var noCheckpoints = false

    func validate() throws {
        guard (1...1000).contains(rows) else { throw ValidationError("--rows must be 1 to 1000.") }
        guard (2...64).contains(processes) else { throw ValidationError("--processes must be 2 to 64.") }
        guard (1...1000).contains(rounds) else { throw ValidationError("--rounds must be 1 to 1000.") }
    }

    func run() async throws {
        Interruption.arm()
        let load = OtherLoad()
        let seconds = options.seconds ?? 15
        let tail = CommitTail(
            seconds: seconds / Double(rounds),
            rounds: rounds,
            sides: options.sides,
            rows: rows,
            settings: ContestantSettings(hasAutomaticCheckpoints: !noCheckpoints, sliceMilliseconds: slice)
        )
        let report = try await options.withFolder { folder in
            var comparisons: [(name: String, comparison: Comparison)] = []
            for workload in workload.map({ [$0] }) ?? [.update, .insert] {
                for count in [processes, 1] {
                    let name = "\(workload.title(rows: rows)), \(count) \(count == 1 ? "process" : "processes")"
                    comparisons.append((name, try await tail.measure(workload, processes: count, in: folder)))
                }
            }
            return Report(
                name: "commit-tail",
                title: comparisons[0].name,
                unit: "us",
                main: comparisons[0].comparison,
                variants: Array(comparisons.dropFirst()),
                seconds: seconds,
                processes: processes,
                rounds: rounds,
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }
}

extension Workload {
    func title(rows: Int) -> String {
        switch self {
        case .insert: "INSERT of one row"
        case .update: "UPDATE of \(rows == 1 ? "a random row" : "\(rows) random rows") of \(Self.recordCount)"
        }
    }
}
