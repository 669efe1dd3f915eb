import ArgumentParser
import Foundation
import Roundtable

/// Whom a figure belongs to.
enum Side: String, CaseIterable, ExpressibleByArgument {
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

    /// Reads one row by its key, with a statement that is prepared once, in a read transaction.
    func select(id: Int64) throws -> Int64?

    /// A read transaction in which nothing is read.
    func readNothing() throws

    func close() throws
}

/// What has an asynchronous interface too.
protocol AsyncContestant: Contestant, Sendable {
    func insertAsync(author: Int) async throws
}

extension Side {
    /// Opens a database that exists and has the schema.
    func open(
        _ path: String,
        priority: SharedDatabase.TurnPriority = .default
    ) throws -> any Contestant {
        switch self {
        case .ours: try SharedDatabaseContestant(path, priority: priority)
        case .grdb: try PoolContestant(path)
        case .sqliteC: try CInterfaceContestant(path)
        }
    }
}

/// The statements, the same for all sides.
enum Statements {
    static let insert = "INSERT INTO entry (author, text) VALUES (?, ?)"
    static let select = "SELECT id FROM entry WHERE id = ?"
    static let text = "a row of some length"
}
