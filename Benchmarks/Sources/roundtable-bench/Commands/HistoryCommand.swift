import ArgumentParser
import Foundation
import GRDB
import Roundtable

/// What a history costs who writes. Our side only: each of its databases beside the one without a history.
struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "One thread commits one row, again and again, without and with a history of its table.",
        discussion: "The ratio is how many times as long a write takes as without a history."
    )

    @OptionGroup var options: CommonOptions

    private static let rows = 1000

    private enum Kind: String, CaseIterable {
        case none = "no history"
        case rows
        case changedColumns = "changed columns"
        case oldValues = "old values of deletions"
        case oldValuesOfUpdates = "and of updates"
    }

    func run() async throws {
        let load = OtherLoad()
        let benchmark = LoopBenchmark(seconds: options.seconds ?? 5)
        let report = try await options.withFolder { folder in
            var databases: [Kind: SharedDatabase] = [:]
            defer { for database in databases.values { try? database.close() } }
            for kind in Kind.allCases { databases[kind] = try Self.open(kind, in: folder) }
            /// - parameter write: one transaction's statements, with the number of the write.
            func compare(_ write: @escaping (Database, Int) throws -> Void) async throws -> Comparison {
                try await benchmark.compare(Kind.allCases, to: .none) { kind, duration in
                    let database = databases[kind]!
                    var number = 0
                    return try LoopSlice.measuring(for: duration) {
                        number += 1
                        try database.write { try write($0, number) }
                    }
                }
            }
            let inserts = try await compare { db, _ in
                try db.cachedStatement(sql: Statements.insert).execute(arguments: [1, Statements.text])
            }
            let updates = try await compare { db, number in
                try db.cachedStatement(sql: "UPDATE entry SET author = author + 1 WHERE id = ?")
                    .execute(arguments: [Self.id(number)])
            }
            let deletions = try await compare { db, _ in
                try db.cachedStatement(sql: Statements.insert).execute(arguments: [1, Statements.text])
                try db.cachedStatement(sql: "DELETE FROM entry WHERE id = ?")
                    .execute(arguments: [db.lastInsertedRowID])
            }
            let replacements = try await compare { db, number in
                try db.cachedStatement(sql: "REPLACE INTO entry (id, author, text) VALUES (?, ?, ?)")
                    .execute(arguments: [Self.id(number), 1, Statements.text])
            }
            let upserts = try await compare { db, number in
                try db.cachedStatement(
                    sql: """
                        INSERT INTO entry (id, author, text) VALUES (?, ?, ?)
                        ON CONFLICT DO UPDATE SET author = author + 1
                        """
                ).execute(arguments: [Self.id(number), 1, Statements.text])
            }
            let many = try await compare { db, _ in
                let statement = try db.cachedStatement(sql: Statements.insert)
                for _ in 0..<100 { try statement.execute(arguments: [1, Statements.text]) }
            }
            return benchmark.report(
                "history",
                title: "cached one-row INSERT; the ratio is the history's price",
                main: inserts,
                variants: [
                    ("cached one-row UPDATE", updates), ("INSERT and DELETE of a row", deletions),
                    ("REPLACE of a row", replacements), ("UPSERT of a row", upserts), ("100 rows a transaction", many),
                ],
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }

    /// The ids of the rows that are there from the start, in turn.
    private static func id(_ number: Int) -> Int { (number - 1) % rows + 1 }

    private static func open(_ kind: Kind, in folder: URL) throws -> SharedDatabase {
        let path = try Fixture.create(in: folder, name: kind.rawValue, rows: rows)
        let database = try SharedDatabase.open(
            at: URL(fileURLWithPath: path),
            schema: SharedSchema(Fixture.migrator),
            as: "bench"
        )
        switch kind {
        case .none: break
        case .rows: try database.history.enable(for: "entry", recording: .rows)
        case .oldValues: try database.history.enable(for: "entry", keeping: ["author"])
        case .oldValuesOfUpdates:
            try database.history.enable(for: "entry", keeping: .deletedAndUpdated("author"))
        case .changedColumns: try database.history.enable(for: "entry", recording: .changedColumns)
        }
        return database
    }
}
