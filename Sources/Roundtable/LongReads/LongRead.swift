import Foundation

/// A snapshot that holds checkpoints up: while it stays at its moment, SQLite cannot copy what was committed since from the
/// WAL into the database file, and the WAL grows (<https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files>).
public struct LongRead: Sendable {
    /// Advance it, or close it.
    public let snapshot: SharedDatabaseSnapshot
    /// How long it has been at its moment, in seconds.
    public let age: TimeInterval
    /// How many frames of the WAL it holds back. A frame is a page that a transaction wrote.
    public let heldFrames: Int

    /// When a long-lived read is worth a warning.
    public struct Limit: Sendable, Hashable {
        /// A read that holds anything back for longer than this. One that holds nothing back may last.
        public var age: Duration
        /// A read that holds back more frames than this, however young.
        public var frames: Int

        /// By default 10 seconds, and four times as many frames as a writer checkpoints after (rule K5).
        public init(age: Duration = .seconds(10), frames: Int = 4000) {
            self.age = age
            self.frames = frames
        }

        /// - parameter age: in seconds.
        package func isPassed(age: TimeInterval, heldFrames: Int) -> Bool {
            heldFrames > frames || (heldFrames > 0 && age > self.age / .seconds(1))
        }
    }
}

extension LongRead: CustomStringConvertible {
    public var description: String {
        """
        \(snapshot.path): the snapshot made at \(snapshot.callSite) has been at its moment for \
        \(age.seconds) and holds \(heldFrames.of("WAL frame")) back: advance or close it
        """
    }
}
