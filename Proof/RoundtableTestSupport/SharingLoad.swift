/// The work of a peer that shares data without opening the database. It submits commands and waits for the outcomes of some of them.
/// It reads and follows one snapshot file, and writes another one.
package struct SharingLoad: Codable, Sendable {
    /// The path of the database, which is not opened.
    package var path: String
    package var sender: Int
    /// The path of a `ProgressFile` with the number of the last acknowledged command.
    package var progress: String
    /// The path of the snapshot file that another process writes, with `PeerSnapshotValue`s.
    package var snapshot: String
    /// The path of the snapshot file that the peer writes, with `PeerSnapshotValue`s.
    package var own: String

    package init(path: String, sender: Int, progress: String, snapshot: String, own: String) {
        self.path = path
        self.sender = sender
        self.progress = progress
        self.snapshot = snapshot
        self.own = own
    }
}

/// The counts of a peer's operations, and the problems that it found.
package struct SharingReport: Codable, Sendable {
    package var submitted = 0
    /// The number of outcomes that say that a command was applied. Any other outcome is a problem.
    package var outcomes = 0
    package var reads = 0
    package var writes = 0
    /// The number of values that following the file delivered.
    package var values = 0
    package var problems: [String] = []

    package init() {}
}
