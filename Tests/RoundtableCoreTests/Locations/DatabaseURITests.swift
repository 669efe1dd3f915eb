import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableUnitSupport
import Testing

/// What is written for SQLite, and read as SQLite reads it.
@Suite struct DatabaseURITests {
    @Test(arguments: [
        (DatabaseURI(path: "/a/b.sqlite"), "file:///a/b.sqlite"),
        (DatabaseURI(path: "b.sqlite"), "file:b.sqlite"),
        (DatabaseURI(path: "//host/b"), "file:////host/b"),
        (
            DatabaseURI(path: "/100% wool?#1&2=3+é", mode: .readOnly),
            "file:///100%25%20wool%3F%231%262%3D3%2B%C3%A9?mode=ro"
        ),
        (DatabaseURI(path: "n", cache: .shared, mode: .memory), "file:n?cache=shared&mode=memory"),
        (
            DatabaseURI(
                path: "/a",
                cache: .private,
                mode: .readWriteCreate,
                isImmutable: true,
                isUnlocked: true,
                vfs: "unix-none",
                isPowersafeOverwrite: false,
                permissionsOf: "/b c",
                otherParameters: [.init("key", "a&b=c")]
            ),
            "file:///a?cache=private&mode=rwc&immutable=1&nolock=1&vfs=unix-none&psow=0&modeof=/b%20c&key=a%26b%3Dc"
        ),
    ])
    func writing(uri: DatabaseURI, text: String) throws {
        #expect(uri.description == text)
        #expect(try DatabaseURI(text) == uri)
    }

    @Test func reading() throws {
        #expect(try DatabaseURI("file://localhost/a%2Fb?mode=ro#x") == DatabaseURI(path: "/a/b", mode: .readOnly))
        #expect(try DatabaseURI("file:100%?nolock=yes&&immutable=OFF") == DatabaseURI(path: "100%", isUnlocked: true))
        #expect(try DatabaseURI("file:a?x").otherParameters == [.init("x", "")])
        for (text, reason) in [
            ("/a", "begin with file:"), ("file://host/a", "'host' is not this one"),
            ("file://host\u{301}/a", "'host\u{301}' is not this one"),
            ("file://?mode=ro", "'?mode=ro' is not this one"),
            ("file:a?mode=x", "ro, rw, rwc, memory"),
            ("file:a?cache=x", "private, shared"), ("file:a?psow=2", "1 or 0"), ("file:a%00b", "NUL"),
            ("file:a?mode=ro&mode=rw", "'mode' is there twice"), ("file:%FF", "are not UTF-8"),
            ("file:///my#1.db?mode=rw", "'#1.db?mode=rw' would be ignored: write %23"),
        ] {
            let error = #expect(throws: DatabaseLocationError.self) { try DatabaseURI(text) }
            #expect(error?.description.contains(reason) == true, "\(text): \(String(describing: error))")
        }
    }

    /// A mark that combines makes one character of itself and the delimiter before it. SQLite does not know characters.
    @Test func delimitersWithAMark() throws {
        let mark = "\u{301}"
        #expect(
            try DatabaseURI("file:\(mark)a/\(mark)b?\(mark)x=\(mark)y&\(mark)z=1&mode=ro&k=v#\(mark)")
                == DatabaseURI(
                    path: "\(mark)a/\(mark)b",
                    mode: .readOnly,
                    otherParameters: [.init("\(mark)x", "\(mark)y"), .init("\(mark)z", "1"), .init("k", "v")]
                )
        )
        #expect(try DatabaseURI("file:///\(mark)a").path == "/\(mark)a")
        #expect(try DatabaseURI("file://localhost/\(mark)a%2\(mark)").path == "/\(mark)a%2\(mark)")
        // One name to Swift, and two to SQLite.
        #expect(try DatabaseURI("file:a?\u{E9}=1&e\(mark)=2").otherParameters.count == 2)
        #expect(throws: DatabaseLocationError.self) { try DatabaseURI("file:a?k\(mark)=1&k\(mark)=2") }
    }

    /// SQLite opens by the URI what we read in it.
    @Test(arguments: [
        "?\u{301}mode=ro", "?\u{301}=1&mode=ro", "?x=1&mode=ro&\u{301}y", "?mode=ro#\u{301}", "?mode=ro&=\u{301}",
        "?x=\u{301}&mode=ro",
    ])
    func sqliteReadsAMarkTheSame(query: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("a").path
        try DatabaseQueue(path: path).write { try $0.execute(sql: "CREATE TABLE t (a)") }
        let uri = "file://\(path)\(query)"
        let isReadOnly = try DatabaseQueue(path: uri).read { sqlite3_db_readonly($0.sqliteConnection, "main") == 1 }
        #expect(try (DatabaseURI(uri).mode == .readOnly) == isReadOnly, "\(uri)")
    }

    /// SQLite finds the same file by the URI as by its path.
    @Test(arguments: ["plain", "a b", "100%", "what?", "#1", "a%20b", "é&=+;", "nl\n", "%41", "quote'\""])
    func sqliteReadsTheSame(name: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.file(name).path
        try DatabaseQueue(path: path).write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (7)") }
        let queue = try UnsharedDatabase.openQueue(at: .uri(DatabaseURI(path: path, mode: .readWrite)))
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT a FROM t") } == 7)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [name])
    }
}
