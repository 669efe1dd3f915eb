import Foundation

/// Some processes writing one new database at the same time, once.
struct Trial {
    let results: [ParticipantResult]
    /// Of all participants.
    let commitsInARow: Double
    let duration: Nanoseconds

    /// - parameter tasks: what each process does; the path is filled in.
    static func run(_ side: Side, _ tasks: [ParticipantTask], seconds: Double, in parent: URL) throws -> Trial {
        let folder = parent.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = try Fixture.create(in: folder, name: side.rawValue)

        var processes: [ParticipantProcess] = []
        defer { for process in processes { process.end() } }
        for var task in tasks {
            task.path = path
            processes.append(try ParticipantProcess(task, in: folder))
        }
        for process in processes { try process.waitUntilReady() }
        // Far enough ahead for all to have read it.
        let start = Clock.now + 50_000_000
        let schedule = Schedule(start: start, end: start + Nanoseconds(seconds: seconds))
        for process in processes { try process.start(schedule) }
        // Not looking before: this process shall not disturb.
        Clock.sleep(until: schedule.end)
        let results = try processes.map { try $0.result(within: 60) }

        let found = try Fixture.rowCounts(path)
        for (task, result) in zip(tasks, results) {
            let committed = result.commits + result.lateCommits
            let rows = found[task.author, default: 0]
            guard rows == committed else {
                throw WrongResult(
                    side: side,
                    what: "participant \(task.author) committed \(committed) rows, and \(rows) are there"
                )
            }
        }
        return Trial(
            results: results,
            commitsInARow: Double(found.values.reduce(0, +)) / Double(try Fixture.handovers(path) + 1),
            duration: schedule.end - schedule.start
        )
    }
}

extension [Trial] {
    /// The figures of the participants at `indices`, over all trials.
    func figures(of indices: Range<Int>) -> Figures {
        let results = map { $0.results[indices] }
        let times = results.joined().flatMap(\.times).sorted()
        return [
            "tx_per_s": commitsPerSecond(of: indices).median,
            "jain": results.map { $0.map(\.commits).jain }.median,
            "longest_wait_ms": (results.joined().map(\.longestWait).max() ?? 0).milliseconds,
            "longest_ms": (times.last ?? 0).milliseconds,
            "p50_us": (times.percentile(0.5) ?? 0).microseconds,
            "p99_us": (times.percentile(0.99) ?? 0).microseconds,
            "commits_in_a_row": map(\.commitsInARow).median,
            "errors": Double(results.joined().reduce(0) { $0 + $1.errors }),
        ]
    }

    func commitsPerSecond(of indices: Range<Int>) -> [Double] {
        map { trial in Double(trial.results[indices].reduce(0) { $0 + $1.commits }) / trial.duration.seconds }
    }
}
