import Foundation

/// What one process of a trial does.
struct ParticipantTask: Codable {
    var side: String
    var path: String
    /// Marks the rows of this process.
    var author: Int
    var workload = Workload.insert
    /// How many rows each update changes.
    var rows = 1
    /// How long each transaction stays open before it writes.
    var holdMilliseconds = 0.0
    /// How long it pauses between two transactions.
    var pauseMilliseconds = 0.0
    var settings = ContestantSettings()
    /// Writes nothing, and keeps a value observation instead. Ours only.
    var isObserver = false
    /// Writes nothing, and reads with so many threads at the same time. 0: it writes.
    var readingThreads = 0
    /// At the end of the trial, it notes for so long when each of its transactions began and ended.
    var tracedSeconds = 0.0

    init(side: Side, path: String, author: Int) {
        self.side = side.rawValue
        self.path = path
        self.author = author
    }

    var contestant: Side {
        guard let side = Side(rawValue: side) else { preconditionFailure("no side is called '\(side)'") }
        return side
    }

    /// - returns: one; or, where a connection serves one thread only, one for each reading thread.
    func openContestants() throws -> [any Contestant] {
        if isObserver { return [try ObservingContestant(path, settings)] }
        let count = contestant == .sqliteC ? max(1, readingThreads) : 1
        return try (0..<count).map { _ in try contestant.open(path, settings) }
    }
}

/// When all processes of a trial begin and end, on the clock that they share.
struct Schedule: Codable {
    var start: Nanoseconds
    var end: Nanoseconds

    /// Until then, a process that has ended does nothing. To report and to close takes milliseconds of processor time each, which would
    /// count as waits of the processes that still wait for their last transaction.
    var report: Nanoseconds { end + 500_000_000 }
}

/// What one process of a trial saw.
struct ParticipantResult: Codable {
    /// Until the end of the trial.
    var commits = 0
    /// Until the end of the trial.
    var reads = 0
    /// The transaction that the end met, if it was committed.
    var lateCommits = 0
    var errors = 0
    var firstError: String?
    /// From asking for a transaction until being inside it, or until the error.
    var longestWait: Nanoseconds = 0
    /// From asking for a transaction until it was committed, each. The waits of failures are in `longestWait` alone. Of a reader, each read.
    var times = Latencies()
    /// From being inside the transaction until it was committed.
    var timesOnceBegun = Latencies()
    /// While it is traced: when a transaction began, when its commit returned, and so on.
    var holds: [Nanoseconds] = []

    mutating func fail(_ error: any Error) {
        errors += 1
        firstError = firstError ?? "\(error)"
    }
}

extension ParticipantTask {
    func run(_ contestants: [any Contestant], _ schedule: Schedule) -> ParticipantResult {
        if readingThreads > 0 { return read(contestants, schedule) }
        let contestant = contestants[0]
        let hold = Nanoseconds(seconds: holdMilliseconds / 1e3)
        let pause = Nanoseconds(seconds: pauseMilliseconds / 1e3)
        var result = ParticipantResult()
        if isObserver {
            Clock.sleep(until: schedule.end)
            return result
        }
        let traceBegins = schedule.end - min(Nanoseconds(seconds: tracedSeconds), schedule.end - schedule.start)
        // Growing would be a pause of some milliseconds.
        result.holds.reserveCapacity(Int(tracedSeconds * 400_000))
        var writer = WorkloadWriter(workload, author: author, rows: rows)
        Clock.sleep(until: schedule.start)
        while true {
            let requested = Clock.now
            guard requested < schedule.end else {
                Clock.sleep(until: schedule.report)
                return result
            }
            var began = Nanoseconds(0)
            do {
                try writer.commit(contestant) {
                    began = Clock.now
                    if hold > 0 { Clock.sleep(until: began + hold) }
                }
                let done = Clock.now
                result.times.record(done - requested)
                result.timesOnceBegun.record(done - began)
                if tracedSeconds > 0, done > traceBegins { result.holds += [began, done] }
                if done <= schedule.end { result.commits += 1 } else { result.lateCommits += 1 }
            } catch {
                result.fail(error)
            }
            let waited = (began == 0 ? Clock.now : began) - requested
            result.longestWait = max(result.longestWait, waited)
            if pause > 0 { Clock.sleep(until: Clock.now + pause) }
        }
    }
}
