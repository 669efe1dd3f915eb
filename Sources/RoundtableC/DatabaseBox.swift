import Foundation
import GRDB
import Roundtable
import Synchronization

/// The object that a `roundtable_database` points to.
final class DatabaseBox: Sendable {
    let database: SharedDatabase
    private let observed = Mutex<(news: News, cancellable: AnyDatabaseCancellable)?>(nil)

    init(_ database: SharedDatabase) { self.database = database }

    static func at(_ pointer: UnsafeMutableRawPointer) -> DatabaseBox {
        Unmanaged<DatabaseBox>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Starts the observation at the first call.
    func news() throws -> News {
        try observed.withLock { observed in
            if let observed { return observed.news }
            let news = News()
            let cancellable = try database.observeChanges(on: nil) { news.add($0) }
            observed = (news, cancellable)
            return news
        }
    }

    func close() throws {
        try database.close()
        let observed = observed.withLock { observed in
            defer { observed = nil }
            return observed
        }
        observed?.news.end()
    }
}

/// The number of changes since the observation began, and the last change of each table.
final class News: @unchecked Sendable {
    // @unchecked: `condition` guards the rest.
    private let condition = NSCondition()
    private var last: UInt64 = 1
    private var lastOfTable: [String: UInt64] = [:]
    /// The number of the last change whose tables are unknown.
    private var lastOfAny: UInt64 = 0
    private var isOver = false

    func add(_ change: DatabaseChange) {
        condition.lock()
        last += 1
        if case .some(let names) = change.tables {
            for name in names { lastOfTable[name] = last }
        } else {
            lastOfAny = last
        }
        condition.broadcast()
        condition.unlock()
    }

    /// Ends all waits, because no more changes will come.
    func end() {
        condition.lock()
        isOver = true
        condition.broadcast()
        condition.unlock()
    }

    enum Outcome {
        case version(UInt64)
        case timedOut, closed
    }

    var version: UInt64 {
        condition.lock()
        defer { condition.unlock() }
        return last
    }

    /// - parameter limit: the longest wait in seconds; nil: no limit.
    func wait(after version: UInt64, upTo limit: TimeInterval?) -> Outcome {
        let deadline = limit.map { Date(timeIntervalSinceNow: $0) } ?? .distantFuture
        condition.lock()
        defer { condition.unlock() }
        while last <= version {
            if isOver { return .closed }
            guard limit != nil else {
                condition.wait()
                continue
            }
            if !condition.wait(until: deadline), last <= version { return isOver ? .closed : .timedOut }
        }
        return .version(last)
    }

    func hasChanged(_ table: String, after version: UInt64) -> Bool {
        condition.lock()
        defer { condition.unlock() }
        return max(lastOfTable[table] ?? 0, lastOfAny) > version
    }
}
