import Foundation

/// What happens in each trial of `wal-size`.
struct WALSizePlan {
    struct Freeze {
        /// Since the beginning.
        var start: Nanoseconds
        var duration: Nanoseconds

        var end: Nanoseconds { start + duration }
    }

    /// What checkpoints are begun at, by SQLite's default and by ours.
    static let threshold = 1000
    static let boundInFrames = 4 * threshold
    static let period: Nanoseconds = 50_000_000
    /// How long the WAL may take to be small again when a reader that held it has died.
    static let recovery: Nanoseconds = 2_000_000_000

    var seconds: Double
    var writers = 4
    var readers = 4
    var holdMilliseconds = 5.0
    var computes = false
    var workload = Workload.insert
    var freeze: Freeze?
    /// In bytes: the WAL becomes no larger.
    var limit: Int
    /// In bytes.
    let pageSize = 4096

    /// A WAL of so many frames: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.
    var boundInBytes: Int { 32 + Self.boundInFrames * (pageSize + 24) }

    func tasks(_ side: Side) -> [WALSizeTask] {
        func task(_ role: WALSizeTask.Role, _ author: Int) -> WALSizeTask {
            WALSizeTask(
                role: role,
                side: side,
                author: author,
                workload: workload,
                holdMilliseconds: holdMilliseconds,
                computes: computes
            )
        }
        return (0..<writers).map { task(.writer, $0 + 1) } + (0..<readers).map { task(.reader, $0 + 1) }
            + (freeze == nil ? [] : [task(.frozenReader, 0)])
    }
}
