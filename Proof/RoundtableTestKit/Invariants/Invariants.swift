import GRDB
import Roundtable

/// What must hold in every database of a test, whatever happened to the processes that wrote it. Each check returns what it found, in
/// sentences; an empty list is good.
public enum Invariants {
    /// Runs SQLite's [integrity_check](https://sqlite.org/pragma.html#pragma_integrity_check) and
    /// [foreign_key_check](https://sqlite.org/pragma.html#pragma_foreign_key_check).
    public static func integrity(of db: Database) throws -> [String] {
        let rows = try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
        let keys = try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { row in
            "foreign_key_check: a row of \(row[0] as String) refers to none of \(row[2] as String)"
        }
        return rows.map { "integrity_check: \($0)" } + keys
    }

    /// Derives the content of derived tables again from their base tables, and compares.
    ///
    /// - Parameters:
    ///   - derivedTables: the derived tables to check.
    ///   - words: the words to search in full-text indexes.
    ///   - db: a connection, inside of an access.
    public static func derivedTables(
        _ derivedTables: [any DerivedTable],
        words: [String] = [],
        of db: Database
    ) throws -> [String] {
        try DerivedTableRecomputation.discrepancies(of: derivedTables, words: words, db)
    }

    /// Compares what `changes(in:)` reported with the history of the same tables: every transaction of the history must be reported, in
    /// its order, by its author.
    ///
    /// - Parameters:
    ///   - reported: what ``/Roundtable/SharedDatabase/changes(in:)`` of these tables reported, from before the first of the transactions on.
    ///   - history: the changes of the same tables in the history, in order.
    public static func changes(_ reported: [DatabaseChange], matching history: [HistoryChange]) -> [String] {
        var transactions: [(number: Int64, author: String?, tables: Set<String>)] = []
        for change in history {
            // What programs without Roundtable write has no number; the ring reports it as unrecorded.
            guard let number = change.transaction else { continue }
            if transactions.last?.number == number {
                transactions[transactions.count - 1].tables.insert(change.table)
            } else {
                transactions.append((number, change.author, [change.table]))
            }
        }
        var findings: [String] = []
        var place = 0
        var unmatched: [DatabaseChange] = []
        for transaction in transactions {
            var next = place
            while next < reported.count, !matches(reported[next], transaction.author, transaction.tables) { next += 1 }
            guard next < reported.count else {
                let tables = transaction.tables.sorted().joined(separator: ", ")
                findings.append(
                    "transaction \(transaction.number) of '\(transaction.author ?? "unknown")' to \(tables) was not reported in its place"
                )
                continue
            }
            unmatched += reported[place..<next]
            // A change that reports several commits matches the next transaction as well.
            place = reported[next].detail == .commit ? next + 1 : next
        }
        if place < reported.count { unmatched += reported[place...] }
        if reported.allSatisfy({ $0.detail == .commit }) {
            findings += unmatched.map { "the history has no transaction for the reported change: \($0)" }
        }
        return findings
    }

    private static func matches(_ change: DatabaseChange, _ author: String?, _ tables: Set<String>) -> Bool {
        if let names = change.tableNames, !tables.isSubset(of: names) { return false }
        return change.detail != .commit || change.author == author
    }
}
