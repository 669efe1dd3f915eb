import Foundation
import GRDB
import Roundtable
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
            ("file:a?mode=x", "ro, rw, rwc, memory"),
            ("file:a?cache=x", "private, shared"), ("file:a?psow=2", "1 or 0"), ("file:a%00b", "NUL"),
            ("file:a?mode=ro&mode=rw", "'mode' is there twice"), ("file:%FF", "no text"),
        ] {
            let error = #expect(throws: DatabaseLocationError.self) { try DatabaseURI(text) }
            #expect(error?.description.contains(reason) == true, "\(text): \(String(describing: error))")
        }
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
