import Foundation
import Roundtable

/// A command of a test to a peer about its snapshot.
package enum SnapshotCommand: Codable, Sendable {
    case make
    /// The reply has the present moment of the snapshot.
    case look
    /// Advances the snapshot. The reply has its new moment.
    case advance
    /// Advances until the time is over or a command arrives, at random intervals of up to `pause` ms. The reply has all moments.
    case follow(seconds: Double, pause: Double)
    case close
}

/// The moment that a snapshot shows, as found in the table `ledger`, in which each transaction has a row.
package struct PeerMoment: Codable, Sendable {
    /// The number of the last transaction.
    package var last: Int
    /// The number of transactions.
    package var count: Int
    /// The changes that `advance()` reported on the way to this moment.
    package var changes: [PeerChange]

    package init(last: Int, count: Int, changes: [PeerChange]) {
        self.last = last
        self.count = count
        self.changes = changes
    }
}

/// A `DatabaseChange` in a form that can be encoded.
package struct PeerChange: Codable, Sendable, Equatable {
    package var author: String?
    package var pid: Int32?
    package var isOwn: Bool
    /// The changed tables; nil if any table may have changed.
    package var tables: Set<String>?

    package init(_ change: DatabaseChange) {
        author = change.author
        pid = change.pid
        isOwn = change.isOwn
        tables = change.tableNames
    }
}

/// A database in which each transaction records the tables that it writes.
package enum LedgerSchema {
    package static let tables = (0..<8).map { "t\($0)" }

    package static let make =
        tables.map { "CREATE TABLE \($0) (x);" }.joined()
        + "CREATE TABLE ledger (n INTEGER PRIMARY KEY, author TEXT NOT NULL, tables TEXT NOT NULL);"

    /// The SQL of a transaction that writes some of the tables, and the ledger.
    package static func transaction(author: String, tables: [String]) -> String {
        let list = tables.sorted().joined(separator: ",")
        return tables.map { "INSERT INTO \($0) VALUES (1);" }.joined()
            + "INSERT INTO ledger (author, tables) VALUES ('\(author)', '\(list)');"
    }
}
