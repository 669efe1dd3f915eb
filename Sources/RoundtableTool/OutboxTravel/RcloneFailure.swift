import Foundation

/// What `rclone` says when it fails, as a problem with advice.
enum RcloneFailure {
    static func problem(_ output: ProgramOutput, of url: StoreURL) -> TravelProblem {
        let lines = output.standardError.split(whereSeparator: \.isNewline).map(Self.message)
        let text = lines.joined(separator: " ")
        let line = lines.last { $0.hasPrefix("Failed to") } ?? lines.last ?? "rclone ended with \(output.exit.sentence)"
        return problem(line, text, of: url)
    }

    /// A line of the log without its time and level.
    private static func message(_ line: Substring) -> String {
        String(line.trimmingPrefix(/[0-9\/]+ [0-9:]+ (?:[A-Z]+ +: +)?/))
    }

    /// - Parameters:
    ///   - line: the line to show.
    ///   - text: everything that rclone has written.
    static func problem(_ line: String, _ text: String, of url: StoreURL) -> TravelProblem {
        let known = known.first { known in known.signs.contains { text.localizedCaseInsensitiveContains($0) } }
        let cause = url.redacting(line)
        let shown = cause.count <= 240 ? cause : cause.prefix(239) + "…"
        return TravelProblem(
            what: known.map { "\($0.what) (rclone: \(shown))" } ?? "rclone: \(shown)",
            advice: known?.advice ?? "It is tried again. If it does not recover, try 'rclone lsf' with that place"
        )
    }

    private struct Known {
        let signs: [String]
        let what: String
        let advice: String
    }

    /// The first entry that matches counts, so causes come before their consequences.
    private static let known = [
        Known(
            signs: ["setpriv: failed to execute"],
            what: "rclone cannot be started",
            advice: "Install it again. It is tried again"
        ),
        Known(
            signs: ["no space left on device", "disk quota exceeded", "quotaExceeded", "XMinioStorageFull"],
            what: "the disk or the store is full",
            advice: "Make room. It is tried again"
        ),
        Known(
            signs: [
                "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidToken", "ExpiredToken",
                "NoCredentialProviders", "unable to authenticate", "status code: 401", "status code: 403",
                "401 Unauthorized",
                "403 Forbidden", "couldn't find credentials", "invalid_grant",
            ],
            what: "the store refuses the credentials",
            advice: "Correct them in rclone's configuration or in the environment, and start this again"
        ),
        Known(
            signs: ["didn't find section in config file", "didn't find backend called"],
            what: "rclone does not know the store",
            advice: "Define it with 'rclone config', or correct the URL, and start this again"
        ),
        Known(
            signs: ["unable to load custom CA bundle", "x509:", "certificate"],
            what: "the certificates are not usable",
            advice: "Check AWS_CA_BUNDLE and the store's certificate"
        ),
        Known(
            signs: ["NoSuchBucket", "bucket does not exist"],
            what: "the store's bucket does not exist",
            advice: "Create it, or correct the URL"
        ),
        Known(
            signs: [
                "connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host",
                "connection reset", "context deadline exceeded",
            ],
            what: "the store cannot be reached",
            advice: "Check the address and the network. It is tried again"
        ),
        Known(
            signs: ["permission denied", "read-only file system", "not a directory"],
            what: "a file cannot be written or read",
            advice: "Give the user that runs this access to the store and to the outbox"
        ),
    ]
}
