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

    private enum Kind: String, CaseIterable {
        case none = "no history"
        case rows
        case changedColumns = "changed columns"
        case oldValues = "old values"
    }

    func run() async throws {
        let load = OtherLoad()
        let benchmark = LoopBenchmark(seconds: options.seconds ?? 5)
        let report = try await options.withFolder { folder in
            var databases: [Kind: SharedDatabase] = [:]
            defer { for database in databases.values { try? database.close() } }
            for kind in Kind.allCases { databases[kind] = try Self.open(kind, in: folder) }
            let inserts = try await benchmark.compare(Kind.allCases, to: .none) { kind, duration in
                let database = databases[kind]!
                return try LoopSlice.measuring(for: duration) {
                    try database.write { db in
                        try db.cachedStatement(sql: Statements.insert).execute(arguments: [1, Statements.text])
                    }
                }
            }
            let updates = try await benchmark.compare(Kind.allCases, to: .none) { kind, duration in
                let database = databases[kind]!
                var id = 0
                return try LoopSlice.measuring(for: duration) {
                    id = id % 1000 + 1
                    try database.write { db in
                        try db.cachedStatement(sql: "UPDATE entry SET author = author + 1 WHERE id = ?")
                            .execute(arguments: [id])
                    }
                }
            }
            let many = try await benchmark.compare(Kind.allCases, to: .none) { kind, duration in
                let database = databases[kind]!
                return try LoopSlice.measuring(for: duration) {
                    try database.write { db in
                        let statement = try db.cachedStatement(sql: Statements.insert)
                        for _ in 0..<100 { try statement.execute(arguments: [1, Statements.text]) }
                    }
                }
            }
            let deletions = try await benchmark.compare(Kind.allCases, to: .none) { kind, duration in
                let database = databases[kind]!
                return try LoopSlice.measuring(for: duration) {
                    try database.write { db in
                        try db.cachedStatement(sql: Statements.insert).execute(arguments: [1, Statements.text])
                        try db.cachedStatement(sql: "DELETE FROM entry WHERE id = ?")
                            .execute(arguments: [db.lastInsertedRowID])
                    }
                }
            }
            return benchmark.report(
                "history",
                title: "cached one-row INSERT; the ratio is the history's price",
                main: inserts,
                variants: [
                    ("cached one-row UPDATE", updates), ("INSERT and DELETE of a row", deletions),
                    ("100 rows a transaction", many),
                ],
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }

    private static func open(_ kind: Kind, in folder: URL) throws -> SharedDatabase {
        let path = try Fixture.create(in: folder, name: kind.rawValue, rows: 1000)
        let database = try SharedDatabase.open(
            at: URL(fileURLWithPath: path),
            schema: Schema(Fixture.migrator),
            as: "bench"
        )
        switch kind {
        case .none: break
        case .rows: try database.history.enable(for: "entry", recording: .rows)
        case .oldValues: try database.history.enable(for: "entry", keeping: ["author"])
        case .changedColumns: try database.history.enable(for: "entry", recording: .changedColumns)
        }
        return database
    }
}
