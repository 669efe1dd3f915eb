import GRDB
import GRDBSQLite
import RoundtableKernel
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The wal-index (`-shm`), accessed through SQLite's own file object, because opening the file ourselves would drop SQLite's
/// locks (rule G5). Its layout and locks: <https://www.sqlite.org/walformat.html#the_wal_index_file_format>.
///
/// Use it for a connection in WAL mode that has read, on the connection's queue.
struct WalIndex {
    private let file: UnsafeMutablePointer<sqlite3_file>

    private static let writeLock: Int32 = 0
    /// The lock of read mark 0, which readers of the database file alone hold.
    private static let databaseFileLock: Int32 = 3
    /// The locks of the read marks 1 to 4.
    private static let readMarkLocks: ClosedRange<Int32> = 4...7
    private static let headerPage: Int32 = 32768

    init?(_ db: Database, schema: String = "main") {
        // nil once the connection is closed.
        guard let connection = db.sqliteConnection else { return nil }
        self.init(connection: connection, schema: schema)
    }

    init?(connection: OpaquePointer, schema: String = "main") {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(connection, schema, SQLITE_FCNTL_FILE_POINTER, &file)
        guard code == SQLITE_OK, let file, let methods = file.pointee.pMethods, methods.pointee.iVersion >= 2 else {
            return nil
        }
        self.file = file
    }

    /// Whether the write lock is free at this moment (rule T12). `false` when that cannot be determined.
    var isWriteLockFree: Bool {
        guard take(Self.writeLock) else { return false }
        release(Self.writeLock)
        return true
    }

    /// Runs `body` while no writer can restart the WAL. A writer needs the locks of all read marks but mark 0 for that, and this
    /// holds one of them. Readers and writers continue, and so does a checkpoint by this connection.
    ///
    /// It holds the highest mark, because a checkpoint goes no further than the lowest mark that is held. An unused mark is
    /// higher than any frame.
    ///
    /// - returns: false when `body` was not run, because other connections hold the locks: they are about to begin reads or to
    ///   restart the WAL.
    func whileWALCannotRestart(_ body: () -> Void) -> Bool {
        guard let page else { return false }
        func mark(_ lock: Int32) -> UInt32 {
            page.loadUnaligned(fromByteOffset: 100 + 4 * (Int(lock) - 3), as: UInt32.self)
        }
        let shared = SQLITE_SHM_SHARED
        let locks = Self.readMarkLocks.map { ($0, mark: mark($0)) }.sorted { $0.mark > $1.mark }.map(\.0)
        guard let held = locks.first(where: { take($0, shared) }) else { return false }
        defer { release(held, shared) }
        body()
        return true
    }

    /// Runs `body` while no connection writes.
    ///
    /// - returns: nil when the write lock could not be acquired.
    func whileNobodyWrites<T>(_ body: () -> T) -> T? {
        guard take(Self.writeLock) else { return nil }
        defer { release(Self.writeLock) }
        return body()
    }

    /// Whether a reader uses frames of the WAL, and not the database file alone.
    ///
    /// - parameter end: only readers whose mark is before this frame count.
    func isRead(before end: Int = .max) -> Bool {
        guard let page else { return true }
        return Self.readMarkLocks.contains { lock in
            let mark = page.loadUnaligned(fromByteOffset: 100 + 4 * (Int(lock) - 3), as: UInt32.self)
            guard mark < end else { return false }
            guard take(lock) else { return true }
            release(lock)
            return false
        }
    }

    /// Whether a reader uses the database file alone. Nothing is copied to the file meanwhile.
    var isDatabaseFileRead: Bool {
        guard take(Self.databaseFileLock) else { return true }
        release(Self.databaseFileLock)
        return false
    }

    private func take(_ lock: Int32, _ kind: Int32 = SQLITE_SHM_EXCLUSIVE) -> Bool {
        guard let xShmLock = file.pointee.pMethods.pointee.xShmLock else { return false }
        return xShmLock(file, lock, 1, SQLITE_SHM_LOCK | kind) == SQLITE_OK
    }

    private func release(_ lock: Int32, _ kind: Int32 = SQLITE_SHM_EXCLUSIVE) {
        _ = file.pointee.pMethods.pointee.xShmLock?(file, lock, 1, SQLITE_SHM_UNLOCK | kind)
    }

    // MARK: The header

    /// nil when there is no wal-index.
    var commitCounter: UInt32? { view?.commitCounter }

    var page: UnsafeMutableRawPointer? { mapped?.page }

    /// Whether SQLite has opened the wal-index for reading only. No connection of this process can write then.
    var isReadOnly: Bool { mapped?.isReadOnly ?? false }

    private var mapped: (page: UnsafeMutableRawPointer?, isReadOnly: Bool)? {
        guard let map = file.pointee.pMethods.pointee.xShmMap else { return nil }
        var page: UnsafeMutableRawPointer?
        // SQLite wants `volatile`, which Swift drops.
        let code = map(file, 0, Self.headerPage, 0, &page)
        let isReadOnly = code & 0xFF == SQLITE_READONLY
        return code == SQLITE_OK || isReadOnly ? (page, isReadOnly) : nil
    }

    /// The fields of the header that a commit changes.
    struct Header: Equatable {
        /// SQLite's `iChange`, which each commit increments, and which is the same for all processes. Compare it for equality,
        /// because a recovery sets it back.
        var commitCounter: UInt32
        /// The end of the last committed transaction.
        var mark: WalMark
    }

    /// Which commits were made since an earlier position. All processes may have closed the database in between.
    enum Commits: Equatable {
        case none
        /// The counter shows how many commits were made.
        case counted
        /// Any number of commits may have been made.
        case unknown
    }

    /// nil while the header is being written, or when it cannot be accessed. The preconditions of `frames` apply.
    var header: Header? { page.flatMap(Self.header) }

    static func header(_ page: UnsafeMutableRawPointer) -> Header? {
        func word(_ offset: Int) -> UInt32 {
            (page + offset).assumingMemoryBound(to: Atomic<UInt32>.self).pointee.load(ordering: .relaxed)
        }
        func copy(at offset: Int) -> Header {
            let mark = WalMark(frames: word(offset + 16), salt: word(offset + 32))
            return Header(commitCounter: word(offset + 8), mark: mark)
        }
        // SQLite writes the copies in the opposite order.
        let first = copy(at: 0)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return first == copy(at: 48) ? first : nil
    }

    /// The page size of the database, in bytes.
    var pageSize: Int? {
        guard let size = page?.loadUnaligned(fromByteOffset: 14, as: UInt16.self), size > 0 else { return nil }
        return size == 1 ? 65536 : Int(size)
    }

    /// The size of the header of the WAL's file. A frame has a header of 24 bytes (<https://www.sqlite.org/fileformat2.html#walformat>).
    static let walHeaderSize = 32

    /// The number of frames that fit into the WAL's file; nil when that is not known.
    func framesInFile(ofDatabaseAt path: String) -> Int? {
        guard let pageSize, let size = try? System.status(ofFileAt: path + "-wal")?.st_size else { return nil }
        return max(0, Int(size) - Self.walHeaderSize) / (pageSize + 24)
    }

    struct Frames: Equatable {
        /// The number of frames in the WAL that belong to committed transactions.
        var committed: Int
        /// The number of these frames that are in the database file already.
        var backfilled: Int
        /// The number of frames that are not in the database file yet.
        var uncopied: Int { committed - backfilled }
    }

    /// nil while the header is being written. Never use this on a connection that is not in WAL mode, because SQLite would create
    /// the file.
    var frames: Frames? { view?.frames }
}

extension WalIndex.Header {
    // Rule N7: A participant that has parked (W8) keeps its position, and the end of the WAL there (a WAL mark), if all commits up to there
    // were delivered. When it opens again, and the end of the WAL is the same and the WAL is not empty, nothing was committed, and the
    // position takes the new counter. Otherwise the counter must have gone up, and, in the same run of the WAL, by no more than the frames
    // that were added: then the ring is read by R3, and reported as one change; if not, anything may have changed.

    /// Returns which commits were made since an earlier position (rule N7).
    ///
    /// When the last connection to a database closes, the next one rebuilds the wal-index, and the commit counter begins at 0. So
    /// the counter may reach an earlier value again, and the end of the WAL shows whether anything was committed.
    ///
    /// - Parameters:
    ///   - counter: the commit counter at that position.
    ///   - mark: the end of the WAL at that position; nil when it is not known.
    func commits(since counter: UInt32, at mark: WalMark?) -> WalIndex.Commits {
        // An empty WAL does not identify the WAL before it.
        if let mark, mark == self.mark, mark.frames > 0 { return .none }
        let count = commitCounter &- counter
        guard Int32(bitPattern: count) > 0 else { return .unknown }
        // Each commit adds at least one frame.
        if let mark, mark.salt == self.mark.salt {
            guard self.mark.frames > mark.frames, count <= self.mark.frames - mark.frames else { return .unknown }
        }
        return .counted
    }
}
