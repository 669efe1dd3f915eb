import RoundtableKernel
import Synchronization

/// A commit of this participant that is being written. Observers prepare for it meanwhile, because waking their thread takes about as long
/// as the commit.
final class UpcomingCommit: Sendable {
    /// The tables that the commit may change.
    let tables: DatabaseChange.Tables
    private let hasEnded = Atomic(false)
    private let end = MonotonicSemaphore()

    /// How long `waitForEnd` reads the flag before it sleeps, because most commits end within this time. In nanoseconds.
    private static let spin: Nanoseconds = 50_000
    /// How long `waitForEnd` waits at most. A commit on a slow disk takes longer, and is then reported as if it had not been announced.
    private static let longest: Nanoseconds = 2_000_000

    init(tables: DatabaseChange.Tables) { self.tables = tables }

    deinit { assert(hasEnded.load(ordering: .relaxed), "the observers have waited for a commit in vain") }

    /// Called when the commit has been made, and was reported, or when there will be none.
    func didEnd() {
        hasEnded.store(true, ordering: .releasing)
        end.signal()
    }

    /// Waits for the end of the commit, but not for long.
    func waitForEnd() {
        let began = MonotonicClock.now
        while !hasEnded.load(ordering: .acquiring) {
            if MonotonicClock.now &- began < Self.spin { continue }
            _ = end.wait(until: began + Self.longest)
            return
        }
    }
}

/// Follows the commits of the writer connection. All calls come on the writer's queue.
protocol CommitFollower: AnyObject {
    /// Called when a commit is about to be written. It calls its argument if it needs the tables.
    ///
    /// - returns: what is to be notified of the end of this commit.
    func willCommit(_ tables: () -> DatabaseChange.Tables) -> UpcomingCommit?

    /// Called when a commit can be read. The writer still holds the turn, so it must be quick. It calls its argument if it needs the
    /// commit.
    func didCommit(_ commit: () -> CommitRecorder.Commit)
}
