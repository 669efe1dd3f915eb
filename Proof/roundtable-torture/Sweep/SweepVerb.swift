#if os(Linux)
    import ArgumentParser
    import Foundation
    import RoundtableTestSupport

    struct SweepVerb: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sweep",
            abstract: "Kills a process, and makes its system calls fail, at every call of every operation.",
            discussion: """
                Without --minutes and --sample, all points are taken, in a random order. After each, another process must find all acknowledged \
                transactions, an intact database, and go on within its deadlines. The report has, for each operation: the calls that it makes; \
                the points taken, of how many there are; how often the operation succeeded in spite of an error (absorbed), how often it reported \
                one (failed), and how often the call did not happen in three tries (missed).
                """
        )

        @Option(help: "An operation; may be repeated. All by default.")
        var operation: [SweepOperation] = []
        @Option(help: "The order of the points, decimal or with 0x; a new one by default.")
        var seed: Seed?
        @Option(help: "Takes points until this time is over, which begins when the calls of the operations are known.")
        var minutes: Double?
        @Option(help: "Takes this number of kills and this number of errors, which are chosen at random.")
        var sample: Int?
        @Option(help: "Takes one point, by the name that a failure prints.")
        var only: String?
        @Option(
            help:
                "A kind of fault: kill-before, kill-after, kill-half, short, once, forever; may be repeated. All by default."
        )
        var action: [SweepPoint.Kind] = []
        @Option(help: "A system call, as failures name it (open, pread, fcntl); may be repeated. All by default.")
        var call: [String] = []
        @Flag(help: "Leaves out the rounds with another participant.")
        var alone = false
        @Option(help: "Gives the peer a defect, which must be found.")
        var defect: SweepDefect?
        @Option(help: "The number of points that are taken at the same time.")
        var workers = 2
        // However the machine is loaded: SQLite itself tries for 10 s to begin a read whose locks it cannot have, and an opening reads several
        // times.
        @Option(help: "A step that takes longer than this number of seconds is stuck.")
        var patience = 60.0
        @Flag(help: "Prints the report as JSON.")
        var json = false

        func validate() throws {
            guard sample ?? 1 > 0 else { throw ValidationError("--sample is at least 1") }
        }

        func run() throws {
            let point = try only.map { name in
                guard let point = SweepPoint(name) else {
                    throw ValidationError("'\(name)' is no point, such as write.alone.calls.5.pwrite.once-EIO")
                }
                return point
            }
            let summary = try SweepCampaign(
                .init(
                    operations: operation.isEmpty ? SweepOperation.allCases : operation,
                    companies: alone ? [.alone] : SweepPoint.Company.allCases,
                    seed: seed?.value ?? .random(in: 0...UInt64.max),
                    minutes: minutes,
                    sample: sample,
                    kinds: action.isEmpty ? SweepPoint.Kind.allCases : action,
                    calls: call,
                    only: point,
                    defect: defect,
                    workers: point == nil ? workers : 1,
                    patience: .seconds(patience)
                )
            ).run()
            if json {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
                print(String(decoding: try encoder.encode(summary), as: UTF8.self))
            } else {
                print(summary.table)
            }
            if !summary.failures.isEmpty { throw ExitCode.failure }
        }
    }

    extension SweepOperation: ExpressibleByArgument {}
    extension SweepPoint.Kind: ExpressibleByArgument {}
    extension SweepDefect: ExpressibleByArgument {}

    extension SweepSummary {
        var table: String {
            func cell(_ value: Any, _ width: Int) -> String {
                let text = "\(value)"
                return String(repeating: " ", count: max(0, width - text.count)) + text
            }
            var lines = [
                "operation        calls    kills (of)      errors (of)     absorbed  failed  missed  wrong  longest wait"
            ]
            for one in operations {
                lines.append(
                    one.operation.padding(toLength: 14, withPad: " ", startingAt: 0)
                        + cell(one.calls.values.reduce(0, +), 8)
                        + cell(one.killsTaken, 8) + cell("(\(one.killPoints))", 8)
                        + cell(one.errorsTaken, 9) + cell("(\(one.errorPoints))", 9)
                        + cell(one.absorbed, 10) + cell(one.failed, 8) + cell(one.missed, 8) + cell(one.wrong, 7)
                        + cell("\(Int(one.longestMilliseconds)) ms", 14)
                )
            }
            let kills = operations.reduce(0) { $0 + $1.killsTaken }
            let errors = operations.reduce(0) { $0 + $1.errorsTaken }
            lines.append(
                "seed \(seed): \(kills) kills, \(errors) errors, \(missed.count) not reached, \(failures.count) wrong, \(Int(seconds)) s"
            )
            return lines.joined(separator: "\n")
        }
    }
#endif
