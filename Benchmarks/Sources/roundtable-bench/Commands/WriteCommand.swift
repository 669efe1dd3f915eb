import ArgumentParser

struct WriteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "write",
        abstract: "One thread commits one row, again and again; then one task, and 64."
    )

    @OptionGroup var options: CommonOptions

    @Flag(help: "No side checkpoints. The WAL grows by the size of what is written.")
    var noCheckpoints = false

    @Flag(help: "Sync each commit (PRAGMA synchronous = FULL).")
    var durable = false

    func run() async throws {
        let load = OtherLoad()
        let benchmark = LoopBenchmark(seconds: options.seconds ?? 5)
        let report = try await options.withFolder { folder in
            let paths = try options.sides.reduce(into: [:]) { paths, side in
                paths[side] = try Fixture.create(in: folder, name: side.rawValue)
            }
            let settings = ContestantSettings(hasAutomaticCheckpoints: !noCheckpoints, isDurable: durable)
            let contestants = try paths.reduce(into: [:]) { $0[$1.key] = try $1.key.open($1.value, settings) }
            defer { for contestant in contestants.values { try? contestant.close() } }
            var written: [Side: Int] = [:]
            let sync = try await benchmark.compare(options.sides) { side, duration in
                let contestant = contestants[side]!
                let slice = try LoopSlice.measuring(for: duration) { try contestant.insert(author: 1) {} }
                written[side, default: 0] += slice.times.count
                return slice
            }
            let asyncContestants = contestants.compactMapValues { $0 as? any AsyncContestant }
            let asyncSides = options.sides.filter { asyncContestants[$0] != nil }
            let variants = try await [("async, 1 task", 1), ("async, 64 tasks", 64)].asyncMap { name, tasks in
                let comparison = try await benchmark.compare(asyncSides) { side, duration in
                    let contestant = asyncContestants[side]!
                    let slice = try await LoopSlice.measuring(for: duration, tasks: tasks) {
                        try await contestant.insertAsync(author: 1)
                    }
                    written[side, default: 0] += slice.times.count
                    return slice
                }
                return (name, comparison)
            }
            for (side, path) in paths where try Fixture.rowCounts(path)[1] != written[side] {
                throw WrongResult(side: side, what: "the database does not have the rows that were committed")
            }
            return benchmark.report(
                "write",
                title: durable ? "cached one-row INSERT, synchronous = FULL" : "cached one-row INSERT, sync",
                main: sync,
                variants: variants,
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }
}

extension Sequence {
    fileprivate func asyncMap<T>(_ transform: (Element) async throws -> T) async rethrows -> [T] {
        var values: [T] = []
        for element in self { values.append(try await transform(element)) }
        return values
    }
}
