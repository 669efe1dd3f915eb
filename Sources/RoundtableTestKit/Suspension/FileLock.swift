/// A lock that a process has on a file, as the system lists it.
public struct FileLock: Codable, Hashable, Sendable {
    public enum Kind: String, Codable, Sendable {
        /// `fcntl(F_SETLK)`: belongs to the process. SQLite's.
        case posix
        /// `fcntl(F_OFD_SETLK)`: belongs to the open file description, which forked children share.
        case openFileDescription
        /// `flock`: belongs to the open file description too, and covers the whole file.
        case flock

        public var name: String {
            switch self {
            case .posix: "fcntl"
            case .openFileDescription: "fcntl (OFD)"
            case .flock: "flock"
            }
        }
    }

    public var kind: Kind
    public var isExclusive: Bool
    /// `UInt64.max` stands for the end of the file, wherever that is.
    public var bytes: ClosedRange<UInt64>

    public init(_ kind: Kind, isExclusive: Bool, bytes: ClosedRange<UInt64>) {
        self.kind = kind
        self.isExclusive = isExclusive
        self.bytes = bytes
    }
}

extension FileLock {
    /// A line such as `1: POSIX  ADVISORY  WRITE 2775 fe:00:16220171 120 120`, of `/proc/PID/fdinfo/FD` (after `lock:`) or
    /// of `/proc/locks` (proc_pid_fdinfo(5), proc_locks(5)).
    ///
    /// - returns: nil for what is no lock: a lease, or one that is only waited for.
    package init?(systemLine line: some StringProtocol) {
        let fields = line.split(whereSeparator: \.isWhitespace)
        guard fields.count >= 8, fields[1] != "->", let start = UInt64(fields[6]) else { return nil }
        switch fields[1] {
        case "POSIX": kind = .posix
        case "OFDLCK": kind = .openFileDescription
        case "FLOCK": kind = .flock
        default: return nil
        }
        let end = fields[7] == "EOF" ? UInt64.max : UInt64(fields[7]) ?? 0
        guard start <= end else { return nil }
        isExclusive = fields[3] == "WRITE"
        bytes = start...end
    }
}
