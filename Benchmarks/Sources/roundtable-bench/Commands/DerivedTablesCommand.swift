import ArgumentParser
import Foundation
import GRDB
import Roundtable

/// What derived tables cost who writes, and spare who reads. Our side only.
struct DerivedTablesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "derived-tables",
        abstract:
            "One-row writes without and with a derived table of each kind; pages of a view beside the plain query.",
        discussion: "The ratio is how many times as long something takes as without a derived table."
    )

    @OptionGroup var options: CommonOptions

    @Option(help: "Rows of the table that pages are read of.")
    var rows = 1_000_000

    private enum Kind: String, CaseIterable {
        case none = "no derived table"
        case view
        case index
        case words
        case sums

        var derivedTables: [any DerivedTable] {
            switch self {
            case .none: []
            case .view: [Messages.inbox]
            case .index: [Messages.index]
            case .words: [Messages.words]
            case .sums: [Messages.sums]
            }
        }
    }

    private enum Reader: String, CaseIterable {
        case scan = "plain query"
        case indexed = "plain query, with an index for it"
        case view
    }

    func run() async throws {
        let load = OtherLoad()
        let benchmark = LoopBenchmark(seconds: options.seconds ?? 5)
        let report = try await options.withFolder { folder in
            let writes = try await measureWrites(benchmark, in: folder)
            let pages = try await measurePages(benchmark, in: folder)
            return benchmark.report(
                "derived-tables",
                title: "cached one-row INSERT; the ratio is the derived table's price",
                main: writes[0].1,
                variants: Array(writes.dropFirst()) + pages,
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }

    // MARK: Writing

    private func measureWrites(_ benchmark: LoopBenchmark, in folder: URL) async throws -> [(String, Comparison)] {
        var databases: [Kind: SharedDatabase] = [:]
        defer { for database in databases.values { try? database.close() } }
        for kind in Kind.allCases {
            databases[kind] = try Messages.open(in: folder, name: kind.rawValue, kind.derivedTables, rows: 10_000)
        }
        var numbers: [Kind: Int] = [:]
        func loop(_ name: String, _ sql: String, _ arguments: @escaping (Int) -> StatementArguments) async throws
            -> (String, Comparison)
        {
            let comparison = try await benchmark.compare(Kind.allCases, to: .none) { kind, duration in
                let database = databases[kind]!
                return try LoopSlice.measuring(for: duration) {
                    let number = numbers[kind, default: 0] + 1
                    numbers[kind] = number
                    try database.write { db in
                        try db.cachedStatement(sql: sql).execute(arguments: arguments(number))
                    }
                }
            }
            return (name, comparison)
        }
        return [
            try await loop("cached one-row INSERT", Messages.insert) { Messages.values(10_000 + $0) },
            try await loop(
                "UPDATE of what they derive from",
                "UPDATE message SET date = date + 1, subject = 'table ' || date, data = '{\"city\": \"c1\"}' WHERE id = ?"
            ) { [$0 % 10_000 + 1] },
            try await loop("UPDATE of another column", "UPDATE message SET note = note + 1 WHERE id = ?") {
                [$0 % 10_000 + 1]
            },
        ]
    }

    // MARK: Reading

    private func measurePages(_ benchmark: LoopBenchmark, in folder: URL) async throws -> [(String, Comparison)] {
        let plain = try Messages.open(in: folder, name: "plain", [], rows: rows)
        let indexed = try Messages.open(in: folder, name: "indexed", [], rows: rows)
        let viewed = try Messages.open(in: folder, name: "viewed", [Messages.inbox], rows: rows)
        defer { for database in [plain, indexed, viewed] { try? database.close() } }
        try await indexed.write { db in
            try db.execute(sql: "CREATE INDEX by_date ON message (mailbox, date DESC, id) WHERE NOT isDeleted")
        }
        let count = try await viewed.read { try Messages.inbox.count(in: $0, group: "box 3") }
        var results: [(String, Comparison)] = []
        for offset in [0, count / 2] {
            let sql = """
                SELECT * FROM message WHERE NOT isDeleted AND mailbox = 'box 3' ORDER BY date DESC, id LIMIT 50 OFFSET \(offset)
                """
            let comparison = try await benchmark.compare(Reader.allCases, to: .scan) { reader, duration in
                try LoopSlice.measuring(for: duration) {
                    let rows =
                        switch reader {
                        case .scan: try plain.read { try Message.fetchAll($0.cachedStatement(sql: sql)) }
                        case .indexed: try indexed.read { try Message.fetchAll($0.cachedStatement(sql: sql)) }
                        case .view:
                            try viewed.read {
                                try Messages.inbox.rows(Message.self, in: $0, group: "box 3", limit: 50, offset: offset)
                            }
                        }
                    guard rows.count == 50 else { throw ExitCode.failure }
                }
            }
            results.append(("50 rows of \(rows), from \(offset) on", comparison))
        }
        let counting = try await benchmark.compare([Reader.indexed, .view], to: .indexed) { reader, duration in
            try LoopSlice.measuring(for: duration) {
                let found =
                    reader == .view
                    ? try viewed.read { try Messages.inbox.count(in: $0, group: "box 3") }
                    : try indexed.read {
                        let sql = "SELECT count(*) FROM message WHERE NOT isDeleted AND mailbox = 'box 3'"
                        return try Int.fetchOne($0.cachedStatement(sql: sql)) ?? 0
                    }
                guard found == count else { throw ExitCode.failure }
            }
        }
        results.append(("count of a group of \(count)", counting))
        return results
    }
}

private struct Message: FetchableRecord {
    let id: Int64
    let date: Int64
    let subject: String

    init(row: Row) {
        id = row["id"]
        date = row["date"]
        subject = row["subject"]
    }
}

private enum Messages {
    static let inbox = MaterializedView(
        "inbox",
        version: 1,
        of: "message",
        where: "NOT isDeleted",
        groupedBy: "mailbox",
        sortedBy: [.descending("date")]
    )
    static let index = SecondaryIndex(
        "cities",
        version: 1,
        of: "message",
        fields: [.json("city", in: "data", at: "$.city")]
    )
    static let words = FullTextSearch("words", version: 1, of: "message", columns: [.init("subject")])
    static let sums = AggregateTable(
        "dates",
        version: 1,
        of: "message",
        groupedBy: [.init("mailbox")],
        values: [.init("date")]
    )

    static let insert = """
        INSERT INTO message (mailbox, date, subject, data, isDeleted, note) VALUES (?, ?, ?, ?, ?, 0)
        """

    static func values(_ number: Int) -> StatementArguments {
        [
            "box \(number % 10)", number &* 7919 % 1_000_003, "round table \(number % 1000)",
            "{\"city\": \"c\(number % 100)\"}", number % 20 == 0,
        ]
    }

    static func open(
        in folder: URL,
        name: String,
        _ derivedTables: [any DerivedTable],
        rows: Int
    ) throws -> SharedDatabase {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("messages") { db in
            try db.execute(
                sql: """
                    CREATE TABLE message (
                        id INTEGER PRIMARY KEY, mailbox TEXT NOT NULL, date INTEGER NOT NULL, subject TEXT NOT NULL, data TEXT,
                        isDeleted BOOLEAN NOT NULL, note INTEGER NOT NULL
                    )
                    """
            )
            let statement = try db.makeStatement(sql: insert)
            for number in 1...rows { try statement.execute(arguments: values(number)) }
        }
        let set = derivedTables.isEmpty ? nil : DerivedTableSet(revision: 1, derivedTables)
        return try SharedDatabase.open(
            at: folder.appendingPathComponent("\(name).sqlite"),
            schema: SharedSchema(migrator, derivedTables: set),
            as: "bench"
        )
    }
}
