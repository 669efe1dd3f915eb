/// A lock that a process holds on a file, as the system lists it.
public struct FileLock: Codable, Hashable, Sendable {
    /// The system call that took the lock, which decides what the lock belongs to.
    public enum Kind: String, Codable, Sendable {
        /// `fcntl(F_SETLK)`: the lock belongs to the process. SQLite uses this kind.
        case posix
        /// `fcntl(F_OFD_SETLK)`: the lock belongs to the open file description, which forked children share.
        case openFileDescription
        /// `flock`: the lock belongs to the open file description, too, and covers the whole file.
        case flock

        /// The name of the kind in reports, such as `fcntl`.
        public var name: String {
            switch self {
            case .posix: "fcntl"
            case .openFileDescription: "fcntl (OFD)"
            case .flock: "flock"
            }
        }
    }

    public var kind: Kind
    /// Whether the lock is exclusive (a write lock) or shared (a read lock).
    public var isExclusive: Bool
    /// The locked bytes. The upper bound `UInt64.max` stands for the end of the file, wherever that is.
    public var bytes: ClosedRange<UInt64>

    public init(_ kind: Kind, isExclusive: Bool, bytes: ClosedRange<UInt64>) {
        self.kind = kind
        self.isExclusive = isExclusive
        self.bytes = bytes
    }
}

extension FileLock {
    /// Parses a line such as `1: POSIX  ADVISORY  WRITE 2775 fe:00:16220171 120 120`, of `/proc/PID/fdinfo/FD` (after `lock:`)
    /// or of `/proc/locks` (proc_pid_fdinfo(5), proc_locks(5)).
    ///
    /// - returns: nil for a line that is not a held lock: a lease, or a lock that a process waits for.
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
