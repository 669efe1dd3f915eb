import ArgumentParser
import Foundation
import Roundtable

/// Whom a figure belongs to.
enum Side: String, CaseIterable, Codable, ExpressibleByArgument {
    case ours
    case grdb
    case sqliteC = "sqlite-c"
}

/// One open connection, or pool of them, doing the same work as that of every other side.
///
/// Each is written the way its users would write it, against its concrete type: no layer of ours is between.
protocol Contestant {
    /// Inserts one row in a transaction of its own, with a statement that is prepared once. Calls `inside` in the
    /// transaction, before the insertion.
    func insert(author: Int, inside: () -> Void) throws

    /// Updates rows of `record` in the same way.
    func update(ids: [Int64], inside: () -> Void) throws

    /// Reads one row by its key, with a statement that is prepared once, in a read transaction.
    func select(id: Int64) throws -> Int64?

    /// The same, and calls `inside` in the read transaction, after that.
    func read(id: Int64, inside: () -> Void) throws

    /// A read transaction in which nothing is read.
    func readNothing() throws

    func close() throws
}

/// What has an asynchronous interface too.
protocol AsyncContestant: Contestant, Sendable {
    func insertAsync(author: Int) async throws
}

/// How a contestant works.
struct ContestantSettings: Codable {
    /// Whether commits checkpoint, as SQLite has it.
    var hasAutomaticCheckpoints = true
    /// Whether each commit is synced, as `PRAGMA synchronous = FULL` has it.
    var isDurable = false
    /// For our side.
    var priority = SharedDatabase.TurnPriority.default
    /// For our side; nil for the default.
    var sliceMilliseconds: Double?
    /// The most reader connections of a pool; nil for its default.
    var readerCount: Int?
    /// For our side: what it calls itself.
    var name = "bench"
}

extension Side {
    /// Opens a database that exists and has the schema.
    func open(_ path: String, _ settings: ContestantSettings = ContestantSettings()) throws -> any Contestant {
        switch self {
        case .ours: try SharedDatabaseContestant(path, settings)
        case .grdb: try PoolContestant(path, settings)
        case .sqliteC: try CInterfaceContestant(path, settings)
        }
    }
}

/// The statements, the same for all sides.
enum Statements {
    static let insert = "INSERT INTO entry (author, text) VALUES (?, ?)"
    static let update = "UPDATE record SET updates = updates + 1 WHERE id = ?"
    static let select = "SELECT id FROM entry WHERE id = ?"
    static let newest = "SELECT MAX(id) FROM entry"
    static let synchronous = "PRAGMA synchronous = FULL"
    static let noAutomaticCheckpoints = "PRAGMA wal_autocheckpoint = 0"
    static let text = "a row of some length"
}
