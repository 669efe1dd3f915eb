import RoundtableKernel

/// A read lock on a byte on which the programs that share a database take write locks alone, apart from moments. Whoever may read
/// the file may hold such a lock, and keeps the others out meanwhile.
public struct ObstructingLock: Codable, Sendable, Equatable {
    /// What the lock keeps from being done.
    public enum Kind: String, Codable, Sendable, CaseIterable {
        /// Byte 120 of `-shm`: no process can write, or recover the wal-index, without which none can read either.
        case write
        /// Byte 121 of `-shm`: no process can checkpoint.
        case checkpoint
        /// Byte 122 of `-shm`: no process can recover the wal-index after a crash.
        case recovery
        /// Slots of the control block: no participant can claim them.
        case slots
    }

    /// What the lock keeps from being done.
    public var kind: Kind
    /// The process that holds it; nil when the system does not tell this process.
    public var holder: SharingProcess?
    /// The number of the user that the process belongs to; nil when it is not known.
    public var user: UInt32?

    package init(_ kind: Kind, pid: Int32?) {
        self.kind = kind
        holder = pid.map { SharingProcess(pid: $0, among: []) }
        user = pid.flatMap { ProcessTable.credentials($0)?.user }
    }

    /// The holder, as `'cat' (pid 12) of user 1000`.
    package var party: String {
        guard let holder else { return "a process that this one may not inspect" }
        return "\(holder)\(user.map { " of user \($0)" } ?? "")"
    }

    /// The name of the lock, with its place.
    package var name: String {
        switch kind {
        case .write: "SQLite's write lock (byte 120 of -shm)"
        case .checkpoint: "SQLite's lock for checkpoints (byte 121 of -shm)"
        case .recovery: "SQLite's lock for recovery (byte 122 of -shm)"
        case .slots: "slots of the control block"
        }
    }
}

extension ObstructingLock {
    /// The locks that are held at two looks, because SQLite takes some of them for a moment. Empty when the system does not list
    /// locks.
    package static func all(databasePath path: String) -> [ObstructingLock] {
        #if os(Linux)
            let first = look(path)
            if first.isEmpty { return [] }
            MonotonicClock.sleep(50_000_000)
            let second = look(path)
            return first.filter(second.contains)
        #else
            return []
        #endif
    }

    #if os(Linux)
        private static let bytes: [(kind: Kind, ending: String, range: ClosedRange<UInt64>)] = [
            (.write, "-shm", 120...120), (.checkpoint, "-shm", 121...121), (.recovery, "-shm", 122...122),
            (
                .slots, ControlBlock.ending,
                UInt64(Layout.headerSize)...UInt64(Layout.headerSize + Layout.slotSize * Layout.slotCount - 1)
            ),
        ]

        private static func look(_ path: String) -> [ObstructingLock] {
            let locks = (SystemLocks.list() ?? []).filter { !$0.isWrite }
            return bytes.flatMap { kind, ending, range -> [ObstructingLock] in
                guard let file = SystemLocks.LockedFile(path + ending) else { return [] }
                let pids = Set(locks.filter { file.has($0) && $0.range.overlaps(range) }.map(\.pid))
                // The list does not say which process holds the lock of an open file description.
                let unnamed = pids.contains(SystemLocks.Lock.unnamed) ? describing(path + ending) : []
                let named = pids.subtracting([SystemLocks.Lock.unnamed]).union(unnamed)
                if named.isEmpty, !pids.isEmpty { return [ObstructingLock(kind, pid: nil)] }
                return named.sorted().map { ObstructingLock(kind, pid: $0) }
            }
        }

        private static func describing(_ path: String) -> [Int32] {
            guard let file = try? System.identity(ofFileAt: path) else { return [] }
            return ProcessTable.readLockers(of: file)
        }
    #endif
}
