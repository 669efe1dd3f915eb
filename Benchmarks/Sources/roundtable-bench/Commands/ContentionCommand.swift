import ArgumentParser
import Foundation

struct ContentionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "contention",
        abstract: "Processes commit one row each, again and again, all at the same time."
    )

    @OptionGroup var options: CommonOptions

    @Option(help: "How many processes write, 1 to 64.")
    var processes = 8

    @Option(help: "Into how many trials each side's time is divided, each with new processes and a new database.")
    var rounds = 5

    @Option(help: "How long one of our participants may go on writing while others wait, in milliseconds.")
    var slice: Double?

    @Flag(help: "No side checkpoints. Shows what turns alone cost; the WAL grows by the size of what is written.")
    var noCheckpoints = false

    @Flag(help: "Measure 1, 2, 4, 8, 16, 32 and 64 processes.")
    var sweep = false

    @Flag(help: "One process holds each of its transactions open for 20 ms. The figures are those of the others.")
    var longWriter = false

    @Flag(help: "One process is interactive and writes every 10 ms, the others are background. Ours only.")
    var priorities = false

    @Flag(help: "Instead of waits: what a change from one process to another costs, and where that goes.")
    var handovers = false

    @Flag(help: "With --json: for each side, who held the turn when in the last second of a trial, and percentiles.")
    var traces = false

    func validate() throws {
        guard !traces || options.output.json else { throw ValidationError("--traces needs --json.") }
        guard (1...64).contains(processes) else { throw ValidationError("--processes must be 1 to 64.") }
        guard (1...1000).contains(rounds) else { throw ValidationError("--rounds must be 1 to 1000.") }
        guard [sweep, longWriter, priorities, handovers, traces].filter({ $0 }).count <= 1 else {
            throw ValidationError("--sweep, --long-writer, --priorities, --handovers and --traces exclude each other.")
        }
        guard !longWriter && !priorities && !handovers || processes >= 2 else {
            throw ValidationError("--long-writer, --priorities and --handovers need at least 2 processes.")
        }
    }

    func run() async throws {
        let load = OtherLoad()
        let seconds = options.seconds ?? 15
        let contention = Contention(
            seconds: seconds / Double(rounds),
            rounds: rounds,
            sides: options.sides,
            settings: ContestantSettings(hasAutomaticCheckpoints: !noCheckpoints, sliceMilliseconds: slice)
        )
        let report = try await options.withFolder { folder in
            var variants: [(name: String, comparison: Comparison)] = []
            var traces: [String: ContentionTrace] = [:]
            let title: String
            let main: Comparison
            if longWriter {
                title = "short transactions of \(processes - 1) processes beside one with transactions of 20 ms"
                let (short, long) = try await contention.longWriter(processes: processes, in: folder)
                main = short
                variants = [("the long writer", long)]
            } else if priorities {
                title = "an interactive process among \(processes - 1) background ones"
                let (interactive, background) = try await contention.priorities(processes: processes, in: folder)
                main = interactive
                variants = [("the background ones", background)]
            } else if handovers {
                title = "handovers between \(processes) processes"
                main = try await contention.handovers(processes: processes, in: folder)
            } else {
                let counts = sweep ? Set([1, 2, 4, 8, 16, 32, 64, processes]).sorted() : [processes]
                title = Self.title(processes)
                var comparisons: [Int: Comparison] = [:]
                for count in counts {
                    let seconds = self.traces ? ContentionTrace.seconds : 0
                    let (comparison, trials) = try await contention.equal(
                        processes: count,
                        tracedSeconds: seconds,
                        in: folder
                    )
                    comparisons[count] = comparison
                    guard self.traces else { continue }
                    for (side, trials) in trials { traces[side.rawValue] = ContentionTrace(trials) }
                }
                main = comparisons[processes]!
                variants = counts.filter { $0 != processes }.map { (Self.title($0), comparisons[$0]!) }
            }
            return Report(
                name: "contention",
                title: title,
                unit: "tx/s",
                main: main,
                variants: variants,
                seconds: seconds,
                processes: processes,
                rounds: rounds,
                machine: Report.Machine(load),
                traces: traces
            )
        }
        try options.print(report)
    }

    private static func title(_ processes: Int) -> String { processes == 1 ? "1 process" : "\(processes) processes" }
}
