import RoundtableKernel

/// A lock that a process held while it was frozen, although the law forbids it.
public struct Conviction: Codable, Sendable, Equatable {
    /// The pid of the process.
    public var pid: Int32
    /// The program's name, as `ps` shows it.
    public var program: String
    /// The rule that the lock breaks.
    public var rule: SuspensionRule
    /// The path of the locked file.
    public var path: String
    /// The lock that the process held.
    public var lock: FileLock
    /// The library whose file is locked, if it is recognized: `LMDB`, `MMKV`, `Realm`, or `SQLite` for an encrypted database.
    public var library: String?

    package init(
        pid: Int32,
        program: String,
        rule: SuspensionRule,
        path: String,
        lock: FileLock,
        library: String? = nil
    ) {
        self.pid = pid
        self.program = program
        self.rule = rule
        self.path = path
        self.lock = lock
        self.library = library
    }
}

extension Conviction: CustomStringConvertible {
    public var description: String {
        "'\(program)' (pid \(pid)) holds \(lockText) of \(path.withVisibleControls)\(libraryText): \(rule.reason) (\(rule.rawValue))"
    }

    private var libraryText: String {
        guard let library else { return "" }
        return library == SQLiteBytes.library ? ", an encrypted database of SQLite" : ", a file of \(library)"
    }

    /// The lock as text, such as `an exclusive fcntl lock on byte 120 (WRITE)`.
    var lockText: String {
        let place: String
        if lock.kind == .flock {
            place = "all"
        } else {
            let (start, end) = (lock.bytes.lowerBound, lock.bytes.upperBound)
            let last = end == .max ? " to the end" : "-\(end)"
            let range = start == end ? "byte \(start)" : "bytes \(start)\(last)"
            let isWalIndex = path.hasSuffix(SQLiteBytes.walIndexSuffix)
            let isSQLite = rule != .lockedFile || library == SQLiteBytes.library
            let names = isSQLite ? SQLiteBytes.names(in: lock.bytes, ofWalIndex: isWalIndex) : nil
            place = range + (names.map { " (\($0))" } ?? "")
        }
        return "\(lock.isExclusive ? "an exclusive" : "a shared") \(lock.kind.name) lock on \(place)"
    }
}

#if os(Linux)
    extension Conviction {
        init(pid: Int32, _ finding: SuspensionLaw.Finding) {
            self.init(
                pid: pid,
                program: ProcessTable.name(pid) ?? "?",
                rule: finding.rule,
                path: finding.path,
                lock: finding.lock,
                library: finding.library
            )
        }
    }
#endif
