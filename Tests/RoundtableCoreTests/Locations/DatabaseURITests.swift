import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore

/// File URLs are read as SQLite reads them, and written for SQLite.
@Suite struct DatabaseURITests {
    private func read(_ text: String) throws -> DatabaseURI { try DatabaseURI(#require(URL(string: text))) }

    @Test(arguments: [
        (DatabaseURI(path: "/a/b.sqlite"), "file:///a/b.sqlite"),
        (DatabaseURI(path: "b.sqlite"), "file:b.sqlite"),
        (DatabaseURI(path: "//host/b"), "file:////host/b"),
        (
            DatabaseURI(path: "/100% wool?#1&2=3+é", [URLQueryItem(name: "mode", value: "ro")]),
            "file:///100%25%20wool%3F%231&2=3+%C3%A9?mode=ro"
        ),
        (
            DatabaseURI(
                path: "n",
                [URLQueryItem(name: "mode", value: "memory"), URLQueryItem(name: "cache", value: "shared")]
            ), "file:n?mode=memory&cache=shared"
        ),
        (
            DatabaseURI(
                path: "/a",
                [
                    URLQueryItem(name: "immutable", value: "1"), URLQueryItem(name: "modeof", value: "/b c"),
                    URLQueryItem(name: "key", value: "a&b=c"),
                ]
            ), "file:///a?immutable=1&modeof=/b%20c&key=a%26b%3Dc"
        ),
    ])
    func writing(uri: DatabaseURI, text: String) throws {
        #expect(uri.description == text)
        #expect(try read(text) == uri)
    }

    @Test func reading() throws {
        let localhost = try read("file://localhost/a/b?mode=ro#x")
        #expect(localhost == DatabaseURI(path: "/a/b", [URLQueryItem(name: "mode", value: "ro")]))
        let flags = try read("file:100%?nolock=yes&&immutable=OFF")
        #expect(flags.path == "100%" && flags.isOn("nolock") && !flags.isOn("immutable"))
        #expect(try read("file:///a///?mode=ro").path == "/a" && read("file:///").path == "/")
        // A sandboxed app on a Mac gets such a URL from a bookmark.
        #expect(
            try read("file:///a?applesecurityscope=6162&mode=ro")
                == DatabaseURI(path: "/a", [.init(name: "mode", value: "ro")])
        )
        #expect(try read("file:a?x").parameters == [URLQueryItem(name: "x", value: "")])
        for (text, reason) in [
            ("file://host/a", "'host' is not this one"), ("file://host\u{301}/a", "is not this one"),
            ("file://?mode=ro", "has no path"), ("file://localhost", "has no path"), ("file:///a%2fb", "escaped slash"),
            ("file:a?mode=x", "ro, rw, rwc, memory"), ("file:a?mode=RO", "ro, rw, rwc, memory"),
            ("file:a?cache=x", "private, shared"), ("file:a?psow=2", "1 or 0"), ("file:a%00b", "NUL"),
            ("file:a?mode=ro&mode=rw", "'mode' is there twice"), ("file:a?mode=ro&%6Dode=rw", "'mode' is there twice"),
            ("file:a?mode=ro&=1", "has no name"), ("file:%FF", "are not UTF-8"), ("file:a?x=%FF", "are not UTF-8"),
            ("file:///my#1.db?mode=rw", "'#1.db?mode=rw' would be ignored: write %23"),
        ] {
            let error = #expect(throws: DatabaseLocationError.self) { try read(text) }
            #expect(error?.description.contains(reason) == true, "\(text): \(String(describing: error))")
        }
        for text in ["/a", "http://host/a"] {
            let url = try #require(URL(string: text))
            let error = #expect(throws: SharedDatabaseError.self) { try DatabaseURI(url) }
            #expect(error?.description.contains("not a file URL") == true)
        }
    }

    /// A mark that combines makes one character of itself and the delimiter before it. SQLite does not know characters.
    @Test func delimitersWithAMark() throws {
        let mark = "\u{301}"
        let uri = try read("file:\(mark)a/\(mark)b?\(mark)x=\(mark)y&\(mark)z=1&mode=ro&k=v#\(mark)")
        #expect(uri.path == "\(mark)a/\(mark)b" && uri["mode"] == "ro")
        #expect(uri.parameters.map(\.name) == ["\(mark)x", "\(mark)z", "mode", "k"])
        #expect(uri.parameters.map(\.value) == ["\(mark)y", "1", "ro", "v"])
        #expect(try read("file:///\(mark)a").path == "/\(mark)a")
        #expect(try DatabaseURI(URL(fileURLWithPath: "/\(mark)a")).description == "file:///%CC%81a")
        #expect(try read("file://localhost/\(mark)a%2\(mark)").path == "/\(mark)a%2\(mark)")
        // This is one name to Swift, and two names to SQLite.
        #expect(try read("file:a?\u{E9}=1&e\(mark)=2").parameters.count == 2)
        #expect(throws: DatabaseLocationError.self) { try read("file:a?k\(mark)=1&k\(mark)=2") }
    }

    /// SQLite opens by the URI what we read in it.
    @Test(arguments: [
        "?\u{301}mode=ro", "?\u{301}=1&mode=ro", "?x=1&mode=ro&\u{301}y", "?mode=ro#\u{301}",
        "?x=\u{301}&mode=ro", "?%6Dode=%72o", "?mode%3Dro", "?mode=rw&mod%=ro",
    ])
    func sqliteReadsAMarkTheSame(query: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("a").path
        try DatabaseQueue(path: path).write { try $0.execute(sql: "CREATE TABLE t (a)") }
        let uri = "file://\(path)\(query)"
        let isReadOnly = try DatabaseQueue(path: uri).read { sqlite3_db_readonly($0.sqliteConnection, "main") == 1 }
        #expect(try (read(uri)["mode"] == "ro") == isReadOnly, "\(uri)")
    }

    /// SQLite finds the same file by the URI as by its path.
    @Test(arguments: ["plain", "a b", "100%", "what?", "#1", "a%20b", "é&=+;", "nl\n", "%41", "quote'\""])
    func sqliteReadsTheSame(name: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.file(name).path
        try DatabaseQueue(path: path).write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (7)") }
        let queue = try UnsharedDatabase.openQueue(at: URL(fileURLWithPath: path).sqlite("mode=rw"))
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT a FROM t") } == 7)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [name])
    }
}

extension URL {
    /// This file URL with parameters for SQLite.
    func sqlite(_ query: String) -> URL { URL(string: "\(absoluteString)?\(query)")! }
}
