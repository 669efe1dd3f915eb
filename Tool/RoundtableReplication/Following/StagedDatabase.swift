import Foundation
import GRDB
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The database that Litestream keeps in place, page by page, in the follower's folder. Nobody reads it but the follower, which copies whole
/// states from it (rules Q4 and Q5).
struct StagedDatabase: Sendable {
    /// The name of the file in the follower's folder.
    static let name = "database"

    let path: String

    /// The file in which Litestream writes the number of the last transaction of which it has applied everything.
    var transactionPath: String { path + "-txid" }

    /// What keeps a state from being copied now.
    enum Obstacle: Error, Equatable {
        /// Litestream is applying a transaction.
        case isBeingChanged
        /// Pages were written after the last whole state.
        case isNotWhole
    }

    /// Whether pages may have been written after the transaction's number, which the system's clock for files tells in ticks.
    enum Wholeness: Equatable {
        case whole
        /// Both were written within one tick: whole, unless Litestream reports an error now.
        case sameTick
        case notWhole

        /// - parameter pages, transaction: the modification times of the two files.
        init(pages: Int64, transaction: Int64) {
            self = pages < transaction ? .whole : pages == transaction ? .sameTick : .notWhole
        }
    }

    /// Reads a state while Litestream cannot change it.
    ///
    /// - Parameters:
    ///   - isWholeInDoubt: asked when the clock cannot tell whether the state is whole.
    ///   - body: gets a connection on the state, and the number of its transaction.
    /// - throws: ``Obstacle``, `SystemError`, `DatabaseError`, and what `body` throws.
    func readState<T>(isWholeInDoubt: () -> Bool, _ body: (DatabaseQueue, String) throws -> T) throws -> T {
        let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor != -1 else { throw SystemError(call: .open, errno: errno, path: path) }
        // Closing any descriptor of the file, such as SQLite's, ends the locks of this process. So this is the last one.
        defer { close(descriptor) }
        // As SQLite's readers do (https://www.sqlite.org/lockingv3.html): PENDING, then SHARED, and PENDING is given up.
        guard Self.lock(descriptor, F_RDLCK, Self.pending, 1) else { throw Obstacle.isBeingChanged }
        guard Self.lock(descriptor, F_RDLCK, Self.pending + 2, 510) else { throw Obstacle.isBeingChanged }
        _ = Self.lock(descriptor, F_UNLCK, Self.pending, 1)
        guard let transaction = try self.transaction, let number = try System.statusOfLink(at: transactionPath),
            let pages = try System.statusOfLink(at: path)
        else { throw Obstacle.isNotWhole }
        switch Wholeness(pages: pages.modificationTime, transaction: number.modificationTime) {
        case .whole: break
        case .sameTick: guard isWholeInDoubt() else { throw Obstacle.isNotWhole }
        case .notWhole: throw Obstacle.isNotWhole
        }
        var configuration = Configuration()
        configuration.readonly = true
        // Nobody changes the file while this process has its lock; and a WAL beside it would be none of ours.
        let uri = "file:\(Self.escaped(path))?immutable=1"
        let queue = try DatabaseQueue(path: uri, configuration: configuration)
        defer { try? queue.close() }
        return try body(queue, transaction)
    }

    /// The number of the last transaction that was applied; nil when there is none.
    var transaction: String? {
        get throws {
            guard let bytes = try System.contents(ofFileAt: transactionPath, limit: 64, followingLinks: false) else {
                return nil
            }
            let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            return text.wholeMatch(of: /[0-9a-f]{16}/) == nil ? nil : text
        }
    }

    private static let pending: off_t = 0x4000_0000

    private static func lock(_ descriptor: Int32, _ kind: Int32, _ start: off_t, _ length: off_t) -> Bool {
        var lock = flock()
        lock.l_type = Int16(kind)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = start
        lock.l_len = length
        return fcntl(descriptor, F_SETLK, &lock) == 0
    }

    private static func escaped(_ path: String) -> String {
        path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? path
    }
}
