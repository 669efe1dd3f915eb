import Foundation
import RoundtableDiagnostics
import RoundtableProcesses

/// What is wrong with a replication. Made from Litestream's own messages.
struct LitestreamProblem: Error, Equatable {
    let cause: ReplicationCause
    /// What is known beside the cause, as one line.
    let detail: String?

    /// What is wrong, as one line.
    var what: String { cause.text(detail) }

    init(_ cause: ReplicationCause, _ detail: String? = nil) {
        self.cause = cause
        self.detail = detail
    }

    /// - Parameters:
    ///   - message: an error of Litestream, perhaps with the text of the store's library.
    ///   - replica: the URL whose credentials must not be shown.
    init(message: String, of replica: ReplicaURL) {
        let line = replica.redacting(message).split(whereSeparator: \.isNewline).joined(separator: " ")
        let known = Self.known.first { known in known.signs.contains { message.localizedCaseInsensitiveContains($0) } }
        self.init(known?.cause ?? .message, line.count <= 240 ? line : line.prefix(239) + "…")
    }

    /// The end of Litestream.
    ///
    /// - parameter last: the last error before; nil when there was none.
    init(ended exit: ProgramExit, after last: LitestreamProblem?) {
        guard let last else {
            self.init(.ended, exit.sentence)
            return
        }
        let what = last.detail.map { ": \($0)" } ?? ""
        self.init(last.cause, "Litestream has ended with \(exit.sentence)\(what)")
    }

    /// The first entry that matches counts, so causes come before their consequences.
    private static let known: [(signs: [String], cause: ReplicationCause)] = [
        (["no space left on device", "disk quota exceeded", "database or disk is full"], .full),
        (
            [
                "get credentials", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidToken",
                "authorization violation", "unable to authenticate", "status code: 401", "StatusCode: 401",
                "StatusCode: 403",
            ], .credentials
        ),
        (["NoSuchBucket", "bucket does not exist", "bucket not found"], .noBucket),
        (
            [
                "connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host",
                "no servers available",
            ], .unreachable
        ),
        (["permission denied", "read-only file system"], .fileAccess),
        (["file is not a database", "file is encrypted"], .unreadableDatabase),
        (["behind replica", "ltx files are not contiguous", "ltx validation"], .otherDatabase),
    ]
}
