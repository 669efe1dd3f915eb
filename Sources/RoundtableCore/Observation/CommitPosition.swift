/// A position among the commits to a database. Commits to attached databases do not move it.
package struct CommitPosition: Sendable {
    private let last: WalIndex.Header

    /// The last commit; nil when nothing is observed, and while the wal-index header is being written. It waits for no commit.
    package init?(_ database: SharedDatabase?) {
        guard let database, let last = database.observatory.lastCommit else { return nil }
        self.last = last
    }

    /// Whether nothing was committed since the earlier position.
    package func isSame(as earlier: CommitPosition) -> Bool {
        last.commits(since: earlier.last.commitCounter, at: earlier.last.mark) == .none
    }
}
