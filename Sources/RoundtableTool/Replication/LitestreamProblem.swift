import Foundation

/// What is wrong with a replication, and what to do about it, as one line each. Made from Litestream's own messages.
struct LitestreamProblem: Error, Equatable {
    let what: String
    let advice: String

    /// - Parameters:
    ///   - message: an error of Litestream, perhaps with the text of the store's library.
    ///   - replica: the URL whose credentials must not be shown.
    init(message: String, of replica: ReplicaURL) {
        let line = replica.redacting(message).split(whereSeparator: \.isNewline).joined(separator: " ")
        let known = Self.known.first { known in known.signs.contains { message.localizedCaseInsensitiveContains($0) } }
        let cause = line.count <= 240 ? line : line.prefix(239) + "…"
        what = known.map { "\($0.what) (\(cause))" } ?? cause
        advice =
            known?.advice
            ?? "Litestream tries again by itself. If it does not recover, look at its errors in the output of 'roundtable replicate' or 'roundtable follow'"
    }

    init(what: String, advice: String) {
        self.what = what
        self.advice = advice
    }

    private struct Known {
        let signs: [String]
        let what: String
        let advice: String
    }

    /// The first entry that matches counts, so causes come before their consequences.
    private static let known = [
        Known(
            signs: ["no space left on device", "disk quota exceeded", "database or disk is full"],
            what: "the disk is full",
            advice: "Make room: Litestream keeps a copy of recent changes beside the database"
        ),
        Known(
            signs: [
                "get credentials", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidToken",
                "authorization violation", "unable to authenticate", "status code: 401", "StatusCode: 401",
                "StatusCode: 403",
            ],
            what: "the replica refuses the credentials",
            advice: """
                Set those that the replica needs, for S3 LITESTREAM_ACCESS_KEY_ID and LITESTREAM_SECRET_ACCESS_KEY, and start \
                'roundtable replicate' again
                """
        ),
        Known(
            signs: ["NoSuchBucket", "bucket does not exist", "bucket not found"],
            what: "the replica's bucket does not exist",
            advice: "Create it, or correct the URL"
        ),
        Known(
            signs: [
                "connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host",
                "no servers available",
            ],
            what: "the replica cannot be reached",
            advice: "Check the address and the network. Litestream tries again by itself"
        ),
        Known(
            signs: ["permission denied", "read-only file system"],
            what: "a file cannot be written",
            advice: "Give the user that runs Litestream access to the database's folder and to the replica"
        ),
        Known(
            signs: ["file is not a database", "file is encrypted"],
            what: "Litestream cannot read the database",
            advice: "It reads no encrypted databases"
        ),
        Known(
            signs: ["behind replica", "ltx files are not contiguous", "ltx validation"],
            what: "the database and the replica do not belong together",
            advice: "Replicate to an empty place, or restore the database from this replica first"
        ),
    ]
}
