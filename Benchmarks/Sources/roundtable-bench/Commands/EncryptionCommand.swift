import ArgumentParser
import Foundation
import GRDB
import Roundtable

/// What encryption costs. Our side only: the encrypted database beside the plain one, on the same SQLCipher.
struct EncryptionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "encryption",
        abstract: "One thread reads and writes a plain and an encrypted database, and opens them.",
        discussion: """
            The ratio is how many times as long it takes as without a key. Needs SQLCipher in SQLite's place: \
            bash scripts/sqlcipher.sh Benchmarks/.build/release/roundtable-bench encryption
            """
    )

    @OptionGroup var options: CommonOptions

    private enum Kind: String, CaseIterable {
        case plain
        case rawKey = "raw key"
        case passphrase

        var encryption: DatabaseEncryption? {
            switch self {
            case .plain: nil
            case .rawKey:
                DatabaseEncryption(key: .rawKey { Data(repeating: 7, count: DatabaseEncryption.Key.rawKeySize) })
            case .passphrase: DatabaseEncryption(key: .passphrase { "correct horse battery staple" })
            }
        }
    }

    /// More than SQLite's cache of pages holds.
    private static let rows: Int64 = 400_000

    func run() async throws {
        let load = OtherLoad()
        let benchmark = LoopBenchmark(seconds: options.seconds ?? 5)
        let report = try await options.withFolder { folder in
            var databases: [Kind: SharedDatabase] = [:]
            defer { for database in databases.values { try? database.close() } }
            let open = [Kind.plain, .rawKey]
            for kind in open { databases[kind] = try Self.create(kind, in: folder) }
            let writes = try await benchmark.compare(open, to: .plain) { kind, duration in
                let database = databases[kind]!
                return try LoopSlice.measuring(for: duration) {
                    try database.write { db in
                        try db.cachedStatement(sql: Statements.insert).execute(arguments: [1, Statements.text])
                    }
                }
            }
            func reads(_ next: @escaping (Int64) -> Int64) async throws -> Comparison {
                try await benchmark.compare(open, to: .plain) { kind, duration in
                    let database = databases[kind]!
                    var id: Int64 = 0
                    return try LoopSlice.measuring(for: duration) {
                        id = next(id)
                        _ = try database.read { db in
                            try Int64.fetchOne(db.cachedStatement(sql: Statements.select), arguments: [id])
                        }
                    }
                }
            }
            let cached = try await reads { $0 % 1000 + 1 }
            // From page to page, none of which is still in the cache.
            let uncached = try await reads { ($0 + 9973) % Self.rows + 1 }
            let opening = try await benchmark.compare(Kind.allCases, to: .plain) { kind, duration in
                try LoopSlice.measuring(for: duration) {
                    try Self.open(kind, at: folder.appendingPathComponent("opened \(kind.rawValue)")).close()
                }
            }
            return benchmark.report(
                "encryption",
                title: "cached one-row INSERT; the ratio is the encryption's price",
                main: writes,
                variants: [
                    ("one-row SELECT, page in the cache", cached), ("one-row SELECT, page not in the cache", uncached),
                    ("open and close", opening),
                ],
                machine: Report.Machine(load)
            )
        }
        try options.print(report)
    }

    private static func open(_ kind: Kind, at url: URL) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.encryption = kind.encryption
        return try SharedDatabase.open(at: url, schema: SharedSchema(Fixture.migrator), as: "bench", options: options)
    }

    private static func create(_ kind: Kind, in folder: URL) throws -> SharedDatabase {
        let database = try open(kind, at: folder.appendingPathComponent(kind.rawValue))
        try database.write { db in
            let statement = try db.cachedStatement(sql: Statements.insert)
            for _ in 0..<rows { try statement.execute(arguments: [1, Statements.text]) }
        }
        return database
    }
}
