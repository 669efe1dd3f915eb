import GRDB
import GRDBSQLite
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

@Suite struct SQLScriptTests {
    private func statements(_ text: String) -> [String] {
        SQLScript([text]).statements.map { $0.text.trimmingWhitespace }
    }

    @Test func `Semicolons in strings, comments and triggers end nothing`() {
        let trigger = "CREATE TRIGGER a AFTER INSERT ON t BEGIN DELETE FROM u; SELECT 1; END;"
        #expect(statements("SELECT ';'; SELECT \";\" -- ;\n; /* ; */ \(trigger) SELECT 2").count == 4)
        #expect(statements(trigger) == [trigger])
    }

    @Test func `Statements are split as SQLite does`() {
        let parts = [
            "a", "'", "''", "\"", "`", "[", "]", ";", "--", "-", "/*", "*/", "/", "*", "/***/", "/*/", "\n", " ", "é",
            "BEGIN", "END", "trigger",
            "CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; END",
        ]
        var random = SeededGenerator(for: "texts of SQL")
        for _ in 0..<10_000 {
            let text = (0..<Int.random(in: 1...14, using: &random))
                .map { _ in parts.randomElement(using: &random)! }.joined()
            var (pieces, piece): ([String], [UInt8]) = ([], [])
            for byte in text.utf8 {
                piece.append(byte)
                guard byte == UInt8(ascii: ";") else { continue }
                let candidate = String(decoding: piece, as: UTF8.self)
                if sqlite3_complete(candidate) != 0 {
                    pieces.append(candidate)
                    piece = []
                }
            }
            if !piece.isEmpty { pieces.append(String(decoding: piece, as: UTF8.self)) }
            let expected = pieces.flatMap { SQLScript([$0]).statements.map(\.text) }
            #expect(SQLScript([text]).statements.map(\.text) == expected, "\(text.debugDescription)")
        }
    }

    /// A text of a million semicolons takes no time that grows with its square.
    @Test(.timeLimit(.minutes(1))) func `Semicolons in a long text cost nothing`() {
        let text = String(repeating: "a;", count: 1_000_000)
        #expect(
            SQLScript(["INSERT INTO t VALUES ('\(text)'); SELECT 1 /* \(text) */ -- \(text)"]).statements.count == 2
        )
    }

    /// A script with its own transactions stops between two of them when others are to write, and goes on where it was.
    @Test func `A script gives way between its transactions`() throws {
        let db = try DatabaseQueue()
        let script = SQLScript([
            "CREATE TABLE t(x); BEGIN; INSERT INTO t VALUES (?); INSERT INTO t VALUES (?); COMMIT; SELECT COUNT(*) FROM t"
        ])
        let run = ScriptRun(script: script, parameters: Parameters(["1", "2"]))
        var progress = run.begin()
        var counts: [Int] = []
        var hasEnded = false
        while !hasEnded {
            hasEnded = try db.inDatabase { try run.runOwnTransactions(&progress, $0, .readWrite) { true } }
            counts.append(try db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") ?? -1 })
        }
        #expect(counts == [0, 2, 2])
        #expect(progress.outcome.results.count == 1 && progress.outcome.changeCount == 2)
    }

    @Test func `Blanks and comments are no statements`() {
        #expect(statements(" ;; -- nothing\n; /* nothing; */ ; /* open").isEmpty)
    }

    @Test(arguments: [
        ("INSERT INTO t VALUES (1); SELECT 1", false), ("BEGIN; SELECT 1; COMMIT", true), ("-- x\n end", true),
        ("SAVEPOINT a; ROLLBACK TO a; RELEASE a", false), ("ROLLBACK", true), ("VACUUM", true),
        ("PRAGMA user_version = 1", false), ("pragma main.wal_checkpoint", true), ("PRAGMA foreign_keys = 0", true),
        ("CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; END", false),
    ])
    func `Transactions of the script's own are noticed`(sql: String, expected: Bool) {
        #expect(SQLScript([sql]).managesTransactions == expected)
    }

    @Test(arguments: [
        ("PRAGMA journal_mode", true), ("PRAGMA main.journal_mode;", true), ("PRAGMA journal_mode = DELETE", false),
        ("PRAGMA journal_mode(delete)", false), ("EXPLAIN INSERT INTO t VALUES (1)", true), ("SELECT 1", false),
    ])
    func `Statements that only ask are distinguished from statements that set`(sql: String, expected: Bool) throws {
        #expect(try #require(SQLScript([sql]).statements.first).onlyAsks == expected)
    }
}

extension String {
    fileprivate var trimmingWhitespace: String {
        String(drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
