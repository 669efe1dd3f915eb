import ArgumentParser

struct OpenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open",
        abstract: "Opens a migrated database, and closes it; while another process has it open, and while none has."
    )

    @OptionGroup var options: CommonOptions

    func run() async throws {
        let load = OtherLoad()
        let benchmark = LoopBenchmark(seconds: options.seconds ?? 5)
        let report = try await options.withFolder { folder in
            let paths = try options.sides.reduce(into: [:]) { paths, side in
                paths[side] = try Fixture.create(in: folder, name: side.rawValue, rows: 1000)
            }
            func compare() async throws -> Comparison {
                try await benchmark.compare(options.sides) { side, duration in
                    try LoopSlice.measuring(for: duration) { try side.open(paths[side]!).close() }
                }
            }
            let alone = try await compare()
            // What a widget meets while its app runs.
            let others = try paths.map { side, path in
                try ParticipantProcess(ParticipantTask(side: side, path: path, author: 1), in: folder)
            }
            defer { for other in others { other.end() } }
            for other in others { try other.waitUntilReady() }
            let shared = try await compare()
            return benchmark.report(
                "open",
                title: "open and close, nobody else has it open",
                main: alone,
                variants: [("another process has it open", shared)],
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }
}
