import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Rule W12: A participant knows which files its connections have open: the database, from before the first connection is opened, and `-wal`
// and `-shm`, from the first connection that has read in WAL mode, each by device and inode. Each further connection, and a raw handle,
// must have the same. A file is *lost* when its name has another file, a symbolic link or none. Without an open connection nothing can be
// lost; the next connection must have the database file that is known, now also by its birth time.

/// The files of a database as a participant has opened them, and whether they are still in their places (rule W12).
///
/// SQLite goes on with a file that was replaced, removed or moved away while it was open, and acknowledges what goes nowhere. This type
/// compares the files at the three names with those that were there when connections were opened. It opens none of them (rule G5). Safe
/// from any thread.
package final class DatabaseFiles: Sendable {
    package enum Part: Int, CaseIterable, Sendable {
        case database, wal, walIndex

        package var suffix: String {
            switch self {
            case .database: ""
            case .wal: "-wal"
            case .walIndex: "-shm"
            }
        }
    }

    /// What is found where a file was.
    package enum Finding: Sendable, Equatable {
        /// There is no file: it was removed, or moved away.
        case missing
        /// There is another file.
        case replaced
    }

    /// A file that is not in its place any more. A loss is final.
    package struct Loss: Error, Equatable, Sendable {
        package let part: Part
        package let finding: Finding
        /// When it was found, in seconds since 1970.
        package let time: Int64
    }

    private struct State {
        /// The files that connections have open; nil while a file is not known to be open.
        var known: [NamedFile?] = Part.allCases.map { _ in nil }
        /// The connections that are open, and are not being closed. While there are none, nothing can be lost.
        var connections: Set<UInt> = []
        /// Whether a connection has had the database file open.
        var hasOpened = false
        var loss: Loss?
        var onLoss: [@Sendable (Loss) -> Void] = []
        var onChange: (@Sendable (FileStamps) -> Void)?

        mutating func forgetCompanions() -> [NamedFile?] {
            let forgotten = known
            for part in Part.allCases where part != .database { known[part.rawValue] = nil }
            return forgotten
        }
    }

    package let databasePath: String
    private let paths: [String]
    private let state = Mutex(State())
    private let isLost = Atomic(false)
    /// When the last look began that has found all files in their places.
    private let lastLook = Atomic<Nanoseconds>(0)

    // Rule W12b: A *look* compares the three names, with one `statx` or `lstat` each. It is valid for 10 ms from its begin; one that the
    // system refuses says nothing, and is not valid. SQLite's commit hook requires a valid look, and vetoes a commit if a file is lost; so
    // does the end of a write transaction after its commit. So none is acknowledged more than 10 ms after the loss. Reads, uses of
    // snapshots, deliveries, steps of checkpoints and turns of raw handles require a valid look when they begin.

    /// How long a look is valid (rule W12b).
    package static let validity: Nanoseconds = 10_000_000

    /// Records the database file, if there is one: connections that are opened from now on have it open if it is still there afterwards.
    package init(databasePath: String) {
        self.databasePath = databasePath
        paths = Part.allCases.map { databasePath + $0.suffix }
        state.withLock { [paths] in $0.known[0] = try? System.namedFile(at: paths[0]) }
    }

    // MARK: Connections

    /// Records the files that a connection has open. Call it when the connection has read, and again when it has opened further files.
    ///
    /// - Parameters:
    ///   - connection: what identifies the connection until it is closed.
    ///   - parts: the files that the connection has open.
    /// - returns: false when another database file is there than before the first connection was opened, so that it is not known which of
    ///   them this connection has open. The next connection has the file that is there now. A file system that copies a file when it is
    ///   first opened for writing does this.
    @discardableResult
    package func opened(_ connection: UInt, _ parts: [Part]) -> Bool {
        let (isFirst, before) = state.withLock { state in
            let isFirst = state.connections.isEmpty
            state.connections.insert(connection)
            return (isFirst, state.known)
        }
        let missing = parts.reversed().filter { before[$0.rawValue] == nil || (isFirst && $0 == .database) }
        if missing.isEmpty { return true }
        let began = MonotonicClock.now
        let found = missing.map { try? System.namedFile(at: paths[$0.rawValue]) }
        // Companions that are found when the database has been moved away are those of the next one. It is looked at last.
        let present = missing.last == .database ? found.last! : try? System.namedFile(at: paths[0])
        var lost: NamedFile?
        let (isSame, change) = state.withLock { state in
            var isSame = true
            // The database comes first again, because the others are compared with it.
            for (part, file) in zip(missing, found).reversed() {
                guard part == .database, let known = state.known[0] else {
                    let isInPlace = part == .database || present?.identity == state.known[0]?.identity
                    if isInPlace, state.known[part.rawValue] == nil { state.known[part.rawValue] = file }
                    continue
                }
                guard isFirst, let file else { continue }
                // An inode number is not used again while a connection has the file open. Before, only the birth time tells.
                if !state.hasOpened {
                    isSame = file.identity == known.identity
                    state.known[0] = file
                } else if file.isRecreated(known) {
                    lost = known
                } else {
                    state.known[0] = file
                }
            }
            if isSame {
                state.hasOpened = true
            } else {
                state.connections.remove(connection)
                if state.connections.isEmpty { _ = state.forgetCompanions() }
            }
            return (isSame, state.onChange.map { ($0, FileStamps(state.known)) })
        }
        if let (onChange, stamps) = change { onChange(stamps) }
        if let lost {
            _ = lose(.database, .replaced, lost)
        } else if isFirst, isSame, found.allSatisfy({ $0 != nil }) {
            // The files in their places are those that have just been recorded.
            lastLook.store(began, ordering: .relaxed)
        }
        return isSame
    }

    /// Forgets `-wal` and `-shm` if no other connection is open, because others may remove these files once this one is closed. The
    /// database is compared when the next connection is opened. Call it before the connection is closed, or after.
    ///
    /// - returns: what `keeps` needs if the connection stays open.
    @discardableResult
    package func closes(_ connection: UInt) -> [NamedFile?] {
        let (known, change) = state.withLock { state in
            let isLast = state.connections.remove(connection) != nil && state.connections.isEmpty
            if !isLast { return (state.known, nil as ((@Sendable (FileStamps) -> Void), FileStamps)?) }
            let known = state.forgetCompanions()
            return (known, state.onChange.map { ($0, FileStamps(state.known)) })
        }
        if let (onChange, stamps) = change { onChange(stamps) }
        return known
    }

    /// Takes `closes` back, because the connection could not be closed.
    package func keeps(_ connection: UInt, _ known: [NamedFile?]) {
        let change = state.withLock { state in
            state.connections.insert(connection)
            for part in Part.allCases where state.known[part.rawValue] == nil {
                state.known[part.rawValue] = known[part.rawValue]
            }
            return state.onChange.map { ($0, FileStamps(state.known)) }
        }
        if let (onChange, stamps) = change { onChange(stamps) }
    }

    /// Forgets `-wal` and `-shm`, because the only connection has closed them, and goes on without.
    package func forgetCompanions() { state.withLock { _ = $0.forgetCompanions() } }

    /// The identity of the database file that was opened.
    package var databaseIdentity: FileIdentity? { state.withLock { $0.known[Part.database.rawValue]?.identity } }

    // MARK: Looking

    /// The loss that was found; nil when there is none so far.
    package var loss: Loss? { isLost.load(ordering: .acquiring) ? state.withLock { $0.loss } : nil }

    /// Looks whether the files are in their places, unless that was seen less than 10 ms ago.
    ///
    /// - parameter now: the time; it may come from a coarse clock.
    package func lookIfDue(at now: Nanoseconds) -> Loss? {
        if !isLost.load(ordering: .acquiring),
            now.subtractingSaturating(lastLook.load(ordering: .relaxed)) < Self.validity
        {
            return nil
        }
        return look()
    }

    /// Looks whether the files are in their places, unless a look has begun at this time or later.
    package func look(since time: Nanoseconds) -> Loss? {
        if !isLost.load(ordering: .acquiring), lastLook.load(ordering: .relaxed) >= time { return nil }
        return look()
    }

    /// Looks whether the files are in their places: one call of the system for each.
    @discardableResult
    package func look() -> Loss? {
        if let loss { return loss }
        let began = MonotonicClock.now
        let (known, isOpen) = state.withLock { ($0.known, !$0.connections.isEmpty) }
        guard isOpen else { return nil }
        for part in Part.allCases {
            guard let expected = known[part.rawValue] else { continue }
            do {
                let seen = try System.namedFile(at: paths[part.rawValue])
                if seen?.identity == expected.identity { continue }
                if let loss = lose(part, seen == nil ? .missing : .replaced, expected) { return loss }
            } catch {
                // The system does not tell, for example because the folder may not be searched any more (rule W12b). The next access looks
                // again.
                return nil
            }
        }
        lastLook.store(began, ordering: .relaxed)
        return nil
    }

    /// - parameter expected: the file that was compared.
    /// - returns: nil when that file was forgotten meanwhile, and there is no loss.
    private func lose(_ part: Part, _ finding: Finding, _ expected: NamedFile) -> Loss? {
        let loss = Loss(part: part, finding: finding, time: Int64(time(nil)))
        let (first, known) = state.withLock { state -> ([@Sendable (Loss) -> Void], Loss?) in
            if let known = state.loss { return ([], known) }
            if state.known[part.rawValue] != expected || state.connections.isEmpty { return ([], nil) }
            state.loss = loss
            isLost.store(true, ordering: .releasing)
            defer { state.onLoss = [] }
            return (state.onLoss, loss)
        }
        for body in first { body(loss) }
        return known
    }

    // MARK: Following

    /// Calls a closure once, when a loss is found, on the thread that finds it; at once if one was found already. It must not wait.
    package func onLoss(_ body: @escaping @Sendable (Loss) -> Void) {
        let loss = state.withLock { state in
            if state.loss == nil { state.onLoss.append(body) }
            return state.loss
        }
        if let loss { body(loss) }
    }

    /// Calls a closure now and whenever other files are recorded.
    package func follow(_ body: @escaping @Sendable (FileStamps) -> Void) {
        let stamps = state.withLock { state in
            state.onChange = body
            return FileStamps(state.known)
        }
        body(stamps)
    }
}

/// A file at a name. A file that gets the inode number of a removed one has another birth time.
package struct NamedFile: Hashable, Sendable {
    let identity: FileIdentity
    /// In ns since 1970; 0 where the system does not know it, or changes it.
    let birth: Int64

    /// Whether this is another file at the name of `other`, which nobody has open.
    func isRecreated(_ other: NamedFile) -> Bool {
        identity != other.identity || (birth != 0 && other.birth != 0 && birth != other.birth)
    }
}

// Rule P15: Once it has the WAL open, and by `stat` (G5), a participant shows which files it has open, in the stamps at 368 and 376 of its
// slot. Both count only if the incarnation at 376 is that of the owner word. One whose stamps differ from those of the files in place has
// lost its files. An opener may refuse to open because of that; nothing else is decided by it.

/// What a participant's slot shows of the files that it has open (rule P15). Equal stamps: the same files.
package struct FileStamps: Equatable, Sendable {
    /// Of the database; 0: not known.
    package let database: UInt64
    /// Of `-wal` and `-shm` together; 0: not known.
    package let companions: UInt32

    package init(database: UInt64, companions: UInt32) { (self.database, self.companions) = (database, companions) }

    /// The stamps of the files that are in place now. Without `-wal` or `-shm`, they differ from those of a participant that has these open.
    package init(ofDatabaseAt path: String) {
        let present = FileStamps(DatabaseFiles.Part.allCases.map { try? System.namedFile(at: path + $0.suffix) })
        database = present.database
        companions = present.companions == 0 ? .max : present.companions
    }

    fileprivate init(_ files: [NamedFile?]) {
        database = files[0].map { Self.hash([$0]) } ?? 0
        if let wal = files[1], let walIndex = files[2] {
            companions = UInt32(truncatingIfNeeded: Self.hash([wal, walIndex]))
        } else {
            companions = 0
        }
    }

    /// The birth time is left out, because not every process may be able to read it, and no two files that are open have the same inode.
    private static func hash(_ files: [NamedFile]) -> UInt64 {
        var bytes: [UInt8] = []
        for file in files {
            for word in [file.identity.device, file.identity.inode] {
                withUnsafeBytes(of: word.littleEndian) { bytes.append(contentsOf: $0) }
            }
        }
        return Checksum.fnv1a(bytes)
    }

    /// Whether the database has this identity.
    func isOf(_ file: FileIdentity) -> Bool {
        database != 0 && database == Self.hash([NamedFile(identity: file, birth: 0)])
    }

    /// Whether all three files are known.
    package var areComplete: Bool { database != 0 && companions != 0 }

    /// Whether both are known, and are of different files.
    package func differs(from other: FileStamps) -> Bool {
        if database != 0, other.database != 0, database != other.database { return true }
        return companions != 0 && other.companions != 0 && companions != other.companions
    }
}
