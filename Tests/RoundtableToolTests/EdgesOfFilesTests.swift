import Foundation
import GRDB
import RoundtableTestSupport
import Testing

/// What the tool says and leaves alone when other programs, users or file systems are in the way.
@Suite struct EdgesOfFilesTests {
    /// A read that is not finished prevents a database from being switched to WAL. It is named, and the wait for it locks other readers
    /// out for moments only (rule S2a).
    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"), .timeLimit(.minutes(1)))
    func `The switch to WAL lets other programs read while it waits`() async throws {
        let folder = try Folder()
        try Shell.make("a.db", in: folder, wal: false)
        let reader = try Shell(folder, "a.db")
        try reader.execute("BEGIN; SELECT * FROM t;")
        async let write = Tool.run(["sql", "--timeout", "5", "a.db", "INSERT INTO t VALUES (2)"], in: folder)
        // The control block appears before the database is switched.
        try await eventually("the tool waits") { try folder.contents.keys.contains { $0.contains("-coord") } }
        var configuration = Configuration()
        configuration.busyMode = .timeout(2)
        for _ in 0..<5 {
            let other = try DatabaseQueue(path: folder.path("a.db"), configuration: configuration)
            #expect(try await other.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 1)
            try other.close()
        }
        let result = try await write
        #expect(result.code == 1)
        #expect(result.errors.contains("'sqlite3' (pid \(reader.pid)) is reading it"), "\(result.errors)")
        // The time is that of the whole wait, not of its last attempt.
        let waited = try #require(result.errors.firstMatch(of: /waited ([0-9.]+) s/).flatMap { Double($0.1) })
        #expect(waited >= 5, "\(result.errors)")
        reader.kill()
        #expect(try Tool.run("sql", "a.db", "INSERT INTO t VALUES (2)", in: folder).code == 0)
    }

    /// A name that is repaired would be that of another file.
    @Test func `A path that is not UTF-8 is refused`() throws {
        let folder = try Folder()
        let script = #"exec "$0" sql "$(printf 'caf\351.db')" 'CREATE TABLE t (a)'"#
        let result = try Tool.run(["-c", script, Tool.url.path], in: folder, program: URL(fileURLWithPath: "/bin/sh"))
        #expect(result.code == 64)
        #expect(result.errors.contains(#"'caf\xe9.db': not UTF-8"#), "\(result.errors)")
        #expect(try folder.contents.isEmpty)
    }
}
