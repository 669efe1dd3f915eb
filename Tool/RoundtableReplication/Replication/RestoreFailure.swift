import Roundtable
import RoundtableToolSupport

/// A failure of `litestream restore` in one line: what happened, and what to do.
enum RestoreFailure {
    /// What Litestream reports when no file of the replica matches. The caller finds out why.
    static func isNothingFound(_ failure: String) -> Bool {
        ["no matching backup files available", "transaction not available", "no backups found"].contains {
            failure.contains($0)
        }
    }

    /// Whether a file of the replica is not whole.
    static func isDamage(_ failure: String) -> Bool {
        let text = failure.lowercased()
        return [
            "non-contiguous", "checksum mismatch", "invalid ltx file", "decode", "truncated", "unexpected eof",
            "invalid magic",
        ].contains { text.contains($0) }
    }

    static func nothing(at url: ReplicaURL) -> ToolError {
        ToolError(
            "\(url.shown): there is no backup. Check the URL: what 'roundtable replicate --to' was given, which must have synced once; of Litestream, 0.5 or later."
        )
    }

    static func tooEarly(_ time: RestoreTime, at url: ReplicaURL, first: RestoreTime?) -> ToolError {
        let oldest = first.map { "the first is of \($0.text)" } ?? "the first is later"
        return ToolError(
            "\(url.shown): there is no state of \(time.text) or earlier: \(oldest). Give a later time, or leave --at out."
        )
    }

    /// - parameter failure: ``ProgramOutput/litestreamFailure``.
    static func error(_ failure: String, from url: ReplicaURL, into folder: String) -> ToolError {
        let reason = short(url.redacting(failure))
        let text = failure.lowercased()
        let what: String
        let next: String
        func has(_ words: String...) -> Bool { words.contains { text.contains($0) } }
        switch true {
        case has("no space left on device", "disk quota exceeded", "file too large"):
            return ToolError(
                "\(folder): the disk has not enough space for the database (\(reason)). Free space there, or restore elsewhere."
            )
        case has("unknown replica type", "unsupported replica url scheme"):
            return ToolError(
                "\(url.shown): Litestream knows no replicas of the kind '\(url.scheme)'. Use file, s3, gs, abs, oss, sftp, webdav or nats."
            )
        case has("custom rootcas"):
            what = "cannot use the certificates of AWS_CA_BUNDLE"
            next = "Unset that variable, or set SSL_CERT_FILE instead"
        case has(
            "unable to authenticate",
            "authorization violation",
            ": 401",
            ": 403",
            "accessdenied",
            "access denied",
            "invalidaccesskeyid",
            "signaturedoesnotmatch",
            "forbidden",
            "credentials",
            "unauthorized",
            "acquire a token",
            "authorize "
        ):
            what = "the credentials are missing or refused"
            next =
                "Set them in the environment as Litestream takes them (LITESTREAM_ACCESS_KEY_ID and LITESTREAM_SECRET_ACCESS_KEY, or AWS_…, for s3), or check those of the URL"
        case has("permission denied"):
            what = "permission denied"
            next = "Run it as a user who may read the replica and write \(folder)"
        case has("required for"):
            what = "the URL is not complete"
            next = "Add what is missing"
        case has(
            "no such host",
            "connection refused",
            "no servers available",
            "timeout",
            "timed out",
            "unreachable",
            "cannot connect",
            "connection reset"
        ):
            what = "the server cannot be reached"
            next = "Check the URL's host and port, and the network"
        case has("nosuchbucket", "bucket does not exist", "stream not found", "no such file or directory"):
            what = "there is nothing of that name"
            next = "Check the URL"
        case isDamage(failure):
            what = "the backup is damaged"
            next = "Restore an earlier state with --at, or another replica; 'litestream ltx -level all' lists the files"
        default:
            what = "litestream failed"
            next = "Try 'litestream restore' by itself, and see https://litestream.io/reference/restore"
        }
        return ToolError("\(url.shown): \(what) (\(reason)). \(next).")
    }

    /// The first line, and of it as much as a person reads.
    private static func short(_ text: String) -> String {
        let line = text.split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
        return line.count <= 300 ? line : line.prefix(299) + "…"
    }
}
