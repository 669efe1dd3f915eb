import Foundation

/// A snapshot that holds checkpoints back. While it stays at its moment, SQLite cannot copy later commits from the WAL into the database
/// file, and the WAL grows (<https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files>).
public struct LongRead: Sendable {
    /// The snapshot, which should be advanced or closed; nil when it was released meanwhile. This value does not keep it alive.
    public private(set) weak var snapshot: SharedDatabaseSnapshot?
    /// The path of the database file.
    public let path: String
    /// Where the snapshot was made, as `File.swift:12`.
    public let callSite: String
    /// How long the snapshot has been at its moment.
    public let age: Duration
    /// The number of WAL frames that the snapshot holds back. A frame is a page that a transaction wrote.
    public let heldFrames: Int

    init(_ snapshot: SharedDatabaseSnapshot, age: Duration, heldFrames: Int) {
        self.snapshot = snapshot
        path = snapshot.database.path
        callSite = snapshot.callSite
        self.age = age
        self.heldFrames = heldFrames
    }

    /// The limits beyond which a long-lived read is reported.
    public struct Limit: Sendable, Hashable {
        /// The age beyond which a read is reported if it holds any frame back. A read that holds nothing back may last longer.
        public var age: Duration
        /// The number of frames beyond which a read is reported at any age.
        public var frames: Int

        /// Creates limits. The defaults are 10 seconds, and four times the number of frames after which a writer checkpoints (rule K5).
        public init(age: Duration = .seconds(10), frames: Int = 4000) {
            self.age = age
            self.frames = frames
        }

        /// Whether a snapshot exceeds a limit: it holds back more than `frames` frames, or it holds any frame back and is older than `age`.
        ///
        /// - Parameters:
        ///   - age: how long the snapshot has been at its moment.
        ///   - heldFrames: the number of WAL frames that it holds back.
        package func isPassed(age: Duration, heldFrames: Int) -> Bool {
            heldFrames > frames || (heldFrames > 0 && age > self.age)
        }
    }
}

extension LongRead: CustomStringConvertible {
    public var description: String { "\(path): \(text)" }
}

extension LongRead: ReportedEvent {
    package var severity: SharedDatabase.Severity { .warning }

    package var text: String {
        """
        the snapshot made at \(callSite) has been at its moment for \(age.seconds) and holds \(heldFrames.of("WAL frame")) back: \
        advance or close it
        """
    }
}
