import ArgumentParser

struct ReadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read",
        abstract: "One thread reads one row, again and again; and nothing at all."
    )

    @OptionGroup var options: CommonOptions

    func run() async throws {
        let load = OtherLoad()
        let benchmark = LoopBenchmark(seconds: options.seconds ?? 5)
        let report = try await options.withFolder { folder in
            let rows = 1000
            let contestants = try options.sides.reduce(into: [:]) { contestants, side in
                contestants[side] = try side.open(Fixture.create(in: folder, name: side.rawValue, rows: rows))
            }
            defer { for contestant in contestants.values { try? contestant.close() } }
            var id: Int64 = 0
            let select = try await benchmark.compare(options.sides) { side, duration in
                let contestant = contestants[side]!
                return try LoopSlice.measuring(for: duration) {
                    id = id % Int64(rows) + 1
                    guard try contestant.select(id: id) == id else { throw WrongResult(side: side) }
                }
            }
            let empty = try await benchmark.compare(options.sides) { side, duration in
                let contestant = contestants[side]!
                return try LoopSlice.measuring(for: duration) { try contestant.readNothing() }
            }
            return benchmark.report(
                "read",
                title: "cached one-row SELECT",
                main: select,
                variants: [("empty", empty)],
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }
}

/// A side did not do what it is measured for.
struct WrongResult: Error, CustomStringConvertible {
    let side: Side
    var what = "a row that was asked for by its key was not found"
    var description: String { "\(side.rawValue): \(what). Its figures would mean nothing." }
}
