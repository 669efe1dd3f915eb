import GRDB
import GRDBSQLite
import RoundtableKernel
import Synchronization

/// How many commits were made to a database, by whomever: the next one makes it one more. A recovery of the wal-index sets it back
/// (field `iChange`). Safe from any thread, as long as a connection is open that has it mapped, and is in WAL mode.
struct CommitCounter: @unchecked Sendable {
    // @unchecked: a constant pointer to memory that is only read, each word at once.
    private let word: UnsafePointer<Atomic<UInt32>>
    private let page: UnsafeMutableRawPointer

    fileprivate init(page: UnsafeMutableRawPointer) {
        self.page = page
        word = UnsafePointer((page + 8).assumingMemoryBound(to: Atomic<UInt32>.self))
    }

    var value: UInt32 { word.pointee.load(ordering: .acquiring) }

    /// The counter, and where in the WAL it is; nil when it is being written.
    var header: WalIndex.Header? { WalIndex.header(page) }
}

/// The wal-index (`-shm`), reached through SQLite's own file object: opening the file ourselves would drop SQLite's locks
/// (rule G5). Source of layout and locks: <https://www.sqlite.org/walformat.html#the_wal_index_file_format>.
///
/// For a connection in WAL mode that has been read from, on the connection's queue.
struct WalIndex {
    private let file: UnsafeMutablePointer<sqlite3_file>

    private static let writeLock: Int32 = 0
    /// Of read mark 0, of those who read the database file alone.
    private static let databaseFileLock: Int32 = 3
    /// Of the read marks 1 to 4.
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

    /// Whether nobody holds the write lock at this moment (rule T12). `false` when it cannot be told.
    var isWriteLockFree: Bool {
        guard take(Self.writeLock) else { return false }
        release(Self.writeLock)
        return true
    }

    /// Runs `body` while no writer can start the WAL anew: to do that, it needs the locks of all read marks but mark 0, and one of
    /// them is held here. Readers and writers go on, and so does a checkpoint by this connection.
    ///
    /// The highest mark is taken, because a checkpoint goes no further than the lowest that somebody holds. An unused one is higher
    /// than any frame.
    ///
    /// - returns: false when `body` was not run, since others hold the locks: they are about to begin reads, or start the WAL anew.
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

    /// Runs `body` while nobody writes.
    ///
    /// - returns: nil when somebody does.
    func whileNobodyWrites<T>(_ body: () -> T) -> T? {
        guard take(Self.writeLock) else { return nil }
        defer { release(Self.writeLock) }
        return body()
    }

    /// Whether somebody reads a moment of the WAL, that is not in the database file alone.
    ///
    /// - parameter end: only moments before this frame.
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

    /// Whether somebody reads the database file alone: nothing is copied to it meanwhile.
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
    var commitCounter: CommitCounter? { page.map(CommitCounter.init) }

    var page: UnsafeMutableRawPointer? {
        guard let map = file.pointee.pMethods.pointee.xShmMap else { return nil }
        var page: UnsafeMutableRawPointer?
        // SQLite wants `volatile`, which Swift drops.
        // A mapping that may only be read is told as SQLITE_READONLY.
        let code = map(file, 0, Self.headerPage, 0, &page)
        return code == SQLITE_OK || code & 0xFF == SQLITE_READONLY ? page : nil
    }

    /// What a commit changes.
    struct Header: Equatable {
        /// SQLite's `iChange`: one more with each commit, and the same number for all processes. Compare it for equality: a
        /// recovery sets it back.
        var commitCounter: UInt32
        /// The end of the last committed transaction.
        var mark: WalMark
    }

    /// What was committed since a place that was left, while perhaps nobody had the database open.
    enum Commits: Equatable {
        case none
        /// As many as the counter says.
        case counted
        /// Anything.
        case unknown
    }

    /// nil when it is being written, or cannot be reached. Asked for like `frames`.
    var header: Header? { page.flatMap(Self.header) }

    static func header(_ page: UnsafeMutableRawPointer) -> Header? {
        func word(_ offset: Int) -> UInt32 {
            (page + offset).assumingMemoryBound(to: Atomic<UInt32>.self).pointee.load(ordering: .relaxed)
        }
        func copy(at offset: Int) -> Header {
            let mark = WalMark(frames: word(offset + 16), salt: word(offset + 32))
            return Header(commitCounter: word(offset + 8), mark: mark)
        }
        // Written in the opposite order.
        let first = copy(at: 0)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return first == copy(at: 48) ? first : nil
    }

    /// In bytes.
    var pageSize: Int? {
        guard let size = page?.loadUnaligned(fromByteOffset: 14, as: UInt16.self), size > 0 else { return nil }
        return size == 1 ? 65536 : Int(size)
    }

    struct Frames: Equatable {
        /// Frames in the WAL that belong to committed transactions.
        var committed: Int
        /// Those of them that are in the database file already.
        var backfilled: Int
    }

    /// nil when its header is being written. Never ask for it on a connection that is not in WAL mode: SQLite would create
    /// the file.
    var frames: Frames? { view?.frames }
}

extension WalIndex.Header {
    /// Rule N7. When the last connection to a database closes, the next one makes its wal-index anew, and the commit counter begins
    /// at 0: so it may come to a value that it had before. The end of the WAL tells whether anything was committed.
    ///
    /// - Parameters:
    ///   - counter: the commit counter at the place.
    ///   - mark: the end of the WAL there; nil when it is not known.
    func commits(since counter: UInt32, at mark: WalMark?) -> WalIndex.Commits {
        // An empty WAL says nothing of the one before.
        if let mark, mark == self.mark, mark.frames > 0 { return .none }
        let count = commitCounter &- counter
        guard Int32(bitPattern: count) > 0 else { return .unknown }
        // Each commit adds a frame at least.
        if let mark, mark.salt == self.mark.salt {
            guard self.mark.frames > mark.frames, count <= self.mark.frames - mark.frames else { return .unknown }
        }
        return .counted
    }
}
