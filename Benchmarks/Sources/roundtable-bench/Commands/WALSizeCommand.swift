import ArgumentParser
import Foundation

struct WALSizeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wal-size",
        abstract: "Processes write without pause while others always read: how large does the WAL become?",
        discussion: """
            A side whose WAL comes to --limit-gb ends there. If that is ours, the command fails.
            """
    )

    @OptionGroup var output: OutputOptions

    @Option(help: "How long each side is watched.")
    var minutes = 10.0

    @Option(help: "How many processes write, 1 to 64.")
    var writers = 4

    @Option(help: "How many processes read, 0 to 64.")
    var readers = 4

    @Option(help: "How long each read transaction lasts, in milliseconds.")
    var hold = 5.0

    @Flag(help: "Readers compute in their transactions, instead of sleeping.")
    var computing = false

    @Option(help: "What is written: insert, a row at the end of a table; update, a random row of 100,000.")
    var workload = Workload.insert

    @Option(help: "One more reader is stopped in its read transaction for so many seconds, and then killed.")
    var frozenReader: Double?

    @Option(help: "The WAL becomes no larger than so many gigabytes.")
    var limitGb = 10.0

    @Option(help: "Write a picture of the WAL's size over time to this file, as SVG.")
    var plot: String?

    @Option(name: .customLong("side"), help: "Measure this side; repeat it for more. (default: ours, grdb)")
    var chosenSides: [Side] = []

    func validate() throws {
        guard minutes > 0, minutes <= 24 * 60 else {
            throw ValidationError("--minutes must be more than 0, at most a day.")
        }
        guard (1...64).contains(writers) else { throw ValidationError("--writers must be 1 to 64.") }
        guard (0...64).contains(readers) else { throw ValidationError("--readers must be 0 to 64.") }
        guard hold >= 0, hold <= 1000 else { throw ValidationError("--hold must be 0 to 1000.") }
        guard limitGb > 0 else { throw ValidationError("--limit-gb must be more than 0.") }
        if let frozenReader {
            guard frozenReader > 0, frozenReader + 4 <= minutes * 60 else {
                throw ValidationError("--frozen-reader must be more than 0, and leave 4 of all seconds at least.")
            }
        }
    }

    func run() async throws {
        Interruption.arm()
        let load = OtherLoad()
        let plan = plan
        let sides = chosenSides.isEmpty ? [Side.ours, .grdb] : Side.allCases.filter(chosenSides.contains)
        let findings = try await output.withFolder { folder in
            try checkSpace(in: folder)
            return try sides.map { try WALSizeTrial(side: $0, plan: plan, folder: folder).run() }
        }
        let report = WALSizeReport(plan: plan, findings: findings, machine: Report.Machine(load))
        if let plot {
            try Data(WALPlot(plan: plan, findings: findings).svg().utf8).write(to: URL(fileURLWithPath: plot))
        }
        print(output.json ? try report.json() : report.table())
        if let ours = findings.first(where: { $0.side == .ours }), ours.wasTooLarge {
            throw LimitReached(gigabytes: limitGb)
        }
    }

    struct LimitReached: Error, CustomStringConvertible {
        let gigabytes: Double
        var description: String { "ours: the WAL came to \(format(gigabytes)) GB, where it was ended (--limit-gb)." }
    }

    private var plan: WALSizePlan {
        var plan = WALSizePlan(seconds: minutes * 60, limit: Int(limitGb * 1e9))
        plan.writers = writers
        plan.readers = readers
        plan.holdMilliseconds = hold
        plan.computes = computing
        plan.workload = workload
        if let frozenReader {
            // Something of before is to be seen, and of afterwards as much as there is.
            let start = min(60, (minutes * 60 - frozenReader) / 3)
            plan.freeze = WALSizePlan.Freeze(
                start: Nanoseconds(seconds: start),
                duration: Nanoseconds(seconds: frozenReader)
            )
        }
        return plan
    }

    private func checkSpace(in folder: URL) throws {
        let attributes = try FileManager.default.attributesOfFileSystem(forPath: folder.path)
        guard let free = attributes[.systemFreeSize] as? NSNumber else { return }
        // The database grows, too.
        guard free.doubleValue > limitGb * 1.5e9 else {
            throw ValidationError(
                "\(folder.path) has \(format(free.doubleValue / 1e9)) GB left, too little for a WAL of \(limitGb) GB: "
                    + "free some, choose another --directory, or lower --limit-gb."
            )
        }
    }
}
