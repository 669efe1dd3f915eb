import Foundation

/// Some processes using one new database at the same time, once. All that write have the same workload.
struct Trial {
    let results: [ParticipantResult]
    /// Of all participants; means nothing but for insertions.
    let commitsInARow: Double
    let duration: Nanoseconds
    let end: Nanoseconds

    /// - Parameters:
    ///   - tasks: what each process does; the path is filled in.
    ///   - rows: how many the database has from the beginning.
    static func run(
        _ side: Side,
        _ tasks: [ParticipantTask],
        seconds: Double,
        rows: Int = 0,
        in parent: URL
    ) throws -> Trial {
        let folder = parent.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let workload = tasks.first?.workload ?? .insert
        let path = try workload.createDatabase(in: folder, name: side.rawValue, rows: rows)

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
        try Interruption.sleep(until: schedule.end)
        let results = try processes.map { try $0.result(ParticipantResult.self, within: 60) }

        let commits = zip(tasks, results).map { ($0.author, $1.commits + $1.lateCommits) }
        try workload.audit(path, side, commits: Dictionary(commits, uniquingKeysWith: +), rows: tasks.first?.rows ?? 1)
        return Trial(
            results: results,
            commitsInARow: Double(commits.reduce(0) { $0 + $1.1 }) / Double(try Fixture.handovers(path) + 1),
            duration: schedule.end - schedule.start,
            end: schedule.end
        )
    }
}

extension [Trial] {
    /// The figures of the participants at `indices`, over all trials.
    func figures(of indices: Range<Int>) -> Figures {
        let results = map { $0.results[indices] }
        let times = results.joined().map(\.times).merged
        var figures = Figures()
        figures.set("tx_per_s", medianOf: commitsPerSecond(of: indices))
        return figures.merging([
            "jain": results.map { $0.map(\.commits).jain }.median,
            "longest_wait_ms": (results.joined().map(\.longestWait).max() ?? 0).milliseconds,
            "longest_ms": times.longest.milliseconds,
            "p50_us": times.percentile(0.5).microseconds,
            "p99_us": times.percentile(0.99).microseconds,
            "commits_in_a_row": map(\.commitsInARow).median,
            "errors": Double(results.joined().reduce(0) { $0 + $1.errors }),
        ])
    }

    func commitsPerSecond(of indices: Range<Int>) -> [Double] {
        map { trial in Double(trial.results[indices].reduce(0) { $0 + $1.commits }) / trial.duration.seconds }
    }
}
