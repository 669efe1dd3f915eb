/// What a peer does that shares without the database: it submits commands, and asks for the outcome of some; it reads one snapshot file and
/// follows it, and writes another one.
package struct SharingLoad: Codable, Sendable {
    /// Of the database, which is not opened.
    package var path: String
    package var sender: Int
    /// A `ProgressFile` with the number of the last command that was acknowledged.
    package var progress: String
    /// Somebody else's snapshot file, of `PeerSnapshotValue`s.
    package var snapshot: String
    /// The peer's own, of the same.
    package var own: String

    package init(path: String, sender: Int, progress: String, snapshot: String, own: String) {
        self.path = path
        self.sender = sender
        self.progress = progress
        self.snapshot = snapshot
        self.own = own
    }
}

/// How often it did what, and what was wrong.
package struct SharingReport: Codable, Sendable {
    package var submitted = 0
    /// Outcomes that came: all of them have to be that a command was applied.
    package var outcomes = 0
    package var reads = 0
    package var writes = 0
    /// Values that came to who follows the file.
    package var values = 0
    package var problems: [String] = []

    package init() {}
}
