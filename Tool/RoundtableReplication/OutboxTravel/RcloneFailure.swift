import Foundation
import RoundtableDiagnostics

/// What `rclone` says when it fails, as a problem.
enum RcloneFailure {
    static func problem(_ output: ProgramOutput, of url: StoreURL) -> TravelProblem {
        let text = output.standardError
        let known = known.first { known in known.signs.contains { text.localizedCaseInsensitiveContains($0) } }
        let lines = url.redacting(text).split(whereSeparator: \.isNewline).map(message)
        let cause =
            lines.last { $0.hasPrefix("Failed to") } ?? lines.last ?? "rclone ended with \(output.exit.sentence)"
        let shown = cause.count <= 240 ? cause : cause.prefix(239) + "…"
        return TravelProblem(cause: known?.cause ?? .program, detail: "rclone: \(shown)")
    }

    /// A line of the log without its time and level.
    private static func message(_ line: Substring) -> String {
        String(line.trimmingPrefix(/[0-9\/]+ [0-9:]+ (?:[A-Z]+ +: +)?/))
    }

    private struct Known {
        let signs: [String]
        let cause: OutboxTravelCause
    }

    /// The first entry that matches counts, so causes come before their consequences.
    private static let known = [
        Known(signs: ["setpriv: failed to execute"], cause: .notStarted),
        Known(
            signs: ["no space left on device", "disk quota exceeded", "quotaExceeded", "XMinioStorageFull"],
            cause: .full
        ),
        Known(
            signs: [
                "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidToken", "ExpiredToken",
                "NoCredentialProviders", "unable to authenticate", "status code: 401", "status code: 403",
                "401 Unauthorized",
                "403 Forbidden", "couldn't find credentials", "invalid_grant",
            ],
            cause: .credentials
        ),
        Known(signs: ["didn't find section in config file", "didn't find backend called"], cause: .unknownStore),
        Known(signs: ["unable to load custom CA bundle", "x509:", "certificate"], cause: .certificates),
        Known(signs: ["NoSuchBucket", "bucket does not exist"], cause: .noBucket),
        Known(
            signs: [
                "connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host",
                "connection reset", "context deadline exceeded",
            ],
            cause: .unreachable
        ),
        Known(signs: ["permission denied", "read-only file system", "not a directory"], cause: .fileAccess),
    ]
}
