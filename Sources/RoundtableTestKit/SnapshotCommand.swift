import Foundation
import Roundtable

/// What a peer does with its snapshot.
package enum SnapshotCommand: Codable, Sendable {
    case make
    /// The reply has the moment where it is.
    case look
    /// The reply has the moment where it is now.
    case advance
    /// Advances until the time is over or a command comes, at random intervals of so many ms. The reply has all moments.
    case follow(seconds: Double, pause: Double)
    case close
}

/// Where a snapshot is: its reading of the table `ledger`, in which each transaction has a row.
package struct PeerMoment: Codable, Sendable {
    /// The number of the last transaction.
    package var last: Int
    /// How many there are.
    package var count: Int
    /// What `advance()` told on the way here.
    package var changes: [PeerChange]

    package init(last: Int, count: Int, changes: [PeerChange]) {
        self.last = last
        self.count = count
        self.changes = changes
    }
}

/// A `Change`.
package struct PeerChange: Codable, Sendable, Equatable {
    package var author: String?
    package var pid: Int32?
    package var isOwn: Bool
    /// nil: any.
    package var tables: Set<String>?

    package init(_ change: Change) {
        author = change.author
        pid = change.pid
        isOwn = change.isOwn
        tables = change.tableNames
    }
}

/// A database in which each transaction says what it writes.
package enum LedgerSchema {
    package static let tables = (0..<8).map { "t\($0)" }

    package static let make =
        tables.map { "CREATE TABLE \($0) (x);" }.joined()
        + "CREATE TABLE ledger (n INTEGER PRIMARY KEY, author TEXT NOT NULL, tables TEXT NOT NULL);"

    /// A transaction that writes some of the tables, and the ledger.
    package static func transaction(author: String, tables: [String]) -> String {
        let list = tables.sorted().joined(separator: ",")
        return tables.map { "INSERT INTO \($0) VALUES (1);" }.joined()
            + "INSERT INTO ledger (author, tables) VALUES ('\(author)', '\(list)');"
    }
}
