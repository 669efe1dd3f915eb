import Foundation

/// What figures are drawn from: who held the turn when, and how long commits took.
struct ContentionTrace: Encodable {
    /// How much of a trial is traced, at its end.
    static let seconds = 1.0

    let processes: Int
    let microseconds: Int
    /// In the order of their beginning: the number of the process, counted from 1, and from when to when it committed without pause, in
    /// microseconds since the beginning of the trace.
    let turns: [[Int]]
    /// Of all trials: shares of the commits, and how long the slowest of so many took, from the call until the return, in microseconds.
    let shareOfCommits: [[Double]]
    /// The same, counted by moments: at so many of all random moments, the commit that a process is at takes no longer than this.
    let shareOfTime: [[Double]]

    enum CodingKeys: String, CodingKey {
        case processes, microseconds, turns
        case shareOfCommits = "share_of_commits"
        case shareOfTime = "share_of_time"
    }

    /// - parameter trials: of one side. The turns are those of the first one.
    init(_ trials: [Trial]) {
        let first = trials[0]
        let begin = first.end - min(Nanoseconds(seconds: Self.seconds), first.duration)
        processes = first.results.count
        microseconds = Int((first.end - begin) / 1000)
        turns = Self.turns(first.results.map(\.holds), from: begin, to: first.end)
        let times = trials.flatMap(\.results).map(\.times).merged
        shareOfCommits = Self.shares(upTo: Double(max(times.count, 1))).map { share in
            [share.rounded(digits: 7), times.percentile(share).microseconds.rounded(digits: 4)]
        }
        shareOfTime = Self.shares(upTo: 1e3).map { share in
            [share.rounded(digits: 7), times.percentile(ofTime: share).microseconds.rounded(digits: 4)]
        }
    }

    /// Transactions of one process belong to one turn if no other process's is between them, and less than this.
    private static let pause: Nanoseconds = 200_000

    /// - parameter holds: of each process: when a transaction began, when it ended, and so on.
    static func turns(_ holds: [[Nanoseconds]], from begin: Nanoseconds, to end: Nanoseconds) -> [[Int]] {
        var transactions: [(process: Int, began: Nanoseconds, ended: Nanoseconds)] = []
        for (index, times) in holds.enumerated() {
            for pair in stride(from: 0, to: times.count - 1, by: 2) where times[pair] < end && times[pair + 1] > begin {
                transactions.append((index + 1, max(times[pair], begin), min(times[pair + 1], end)))
            }
        }
        // A transaction begins inside SQLite's write lock, so beginnings are in the order of the commits.
        transactions.sort { $0.began < $1.began }
        var turns: [(process: Int, began: Nanoseconds, ended: Nanoseconds)] = []
        for next in transactions {
            if let last = turns.last {
                if last.process == next.process, next.began < last.ended + pause {
                    turns[turns.count - 1].ended = next.ended
                    continue
                }
                // A commit may return after another process's transaction has begun.
                turns[turns.count - 1].ended = min(last.ended, next.began)
            }
            turns.append(next)
        }
        return turns.map { [$0.process, Int(($0.began - begin) / 1000), Int(($0.ended - begin) / 1000)] }
    }

    /// 0, 10.9 %, … 90 %, … 99 %, …: twenty for each further nine, as far as there are so many commits.
    private static func shares(upTo count: Double) -> [Double] {
        let steps = Int((20 * Foundation.log10(count)).rounded(.down))
        return (0...max(steps, 0)).map { 1 - Foundation.pow(10, -Double($0) / 20) }
    }
}
