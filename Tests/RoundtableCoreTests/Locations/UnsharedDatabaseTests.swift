import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// Databases of one process alone.
@Suite struct UnsharedDatabaseTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db.sqlite")
    }

    private func create(mode: String = "DELETE") throws {
        let queue = try DatabaseQueue(path: url.path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = \(mode); CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        }
        try queue.close()
    }

    private func sum(_ db: any DatabaseReader) throws -> Int? {
        try db.read { try Int.fetchOne($0, sql: "SELECT sum(a) FROM t") }
    }

    @Test func memory() throws {
        let name = "a/b?c=d&e#f %41 \(UUID())"
        let one = try UnsharedDatabase.inMemory(named: name)
        try one.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (3)") }
        let two = try UnsharedDatabase.inMemory(named: name)
        #expect(try sum(two) == 3)
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.inMemory(named: name + "x")) }
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.inMemory()) }
        try one.close()
        #expect(try sum(two) == 3)
        try two.close()
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.inMemory(named: name)) }
        #expect(throws: DatabaseLocationError.self) { try UnsharedDatabase.inMemory(named: "") }
    }

    /// Names that SQLite would cut, and parameters that it would ignore.
    @Test func misleadingNames() throws {
        try create()
        func check(_ reason: String, _ open: () throws -> Void) {
            let error = #expect(throws: DatabaseLocationError.self, "\(reason)", performing: open)
            #expect(error?.description.contains(reason) == true, "\(String(describing: error))")
        }
        check("NUL") { _ = try UnsharedDatabase.inMemory(named: "a\0b") }
        for (location, reason) in [
            (try #require(URL(string: url.absoluteString + "%00b")), "NUL"), (url.sqlite("vfs=a%00b"), "NUL"),
            (url.sqlite("a=b%00c"), "NUL"), (url.sqlite("nolock=1&%6Eolock=0"), "'nolock' is there twice"),
            (url.sqlite("a=1&a=2"), "'a' is there twice"), (url.sqlite("=1"), "has no name"),
        ] {
            check(reason) { _ = try UnsharedDatabase.openQueue(at: location) }
            check(reason) { _ = try UnsharedDatabase.openPool(at: location) }
            check(reason) { _ = try SharedDatabase.open(at: location, schema: .unmanaged, as: "app") as SharedDatabase }
        }
    }

    /// SQLite may fail to open a file for other reasons than the permission to read it.
    @Test func whatIsInTheWay() throws {
        func refused(_ url: URL, _ reason: String) {
            let error = #expect(throws: (any Error).self) { try UnsharedDatabase.openQueue(at: url) }
            let text = error.map { "\($0)" } ?? ""
            #expect(text.contains(reason) && !text.contains("permission"), "\(text)")
        }
        refused(folder.url, "is a folder")
        refused(folder.file("none/db.sqlite"), "/none does not exist")
        try create(mode: "WAL")
        refused(url.sqlite("vfs=none"), "no VFS 'none'")
        refused(url.sqlite("nolock=1"), "is in WAL mode")
        #expect(try sum(UnsharedDatabase.openQueue(at: url.sqlite("immutable=1"))) == 1)
    }

    /// A SQLite that was built without them would create files of such names.
    @Test func withoutURIs() throws {
        #expect(URINames.areRead)
        #expect(throws: DatabaseLocationError.urisAreOff(location: "file:a?mode=memory")) {
            try URINames.check("file:a?mode=memory", areRead: false)
        }
        #expect(throws: Never.self) { try URINames.check("/tmp/file:a", areRead: false) }
        #expect(!FileManager.default.fileExists(atPath: "file:roundtable?mode=memory"))
    }

    @Test func temporary() throws {
        let one = try UnsharedDatabase.temporary()
        try one.write { db in
            try db.execute(sql: "CREATE TABLE t (a)")
            // This is more than the page cache: it is written to the disk.
            try db.execute(
                sql:
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT hex(randomblob(1000)) FROM n"
            )
        }
        #expect(try one.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 5000)
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.temporary()) }
    }

    @Test func files() throws {
        #expect(throws: DatabaseLocationError.noSuchFile(path: System.resolvedPath(url.path))) {
            try UnsharedDatabase.openQueue(at: url.sqlite("mode=rw"))
        }
        let queue = try UnsharedDatabase.openQueue(at: url)
        #expect(queue.path == url.path)
        try queue.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        try queue.close()
        let pool = try UnsharedDatabase.openPool(at: url)
        try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
        #expect(try sum(pool) == 3)
        #expect(try pool.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal")
        var readOnly = Configuration()
        readOnly.readonly = true
        for location in [url, url.sqlite("mode=rwc"), url.sqlite("mode=ro")] {
            let reader = try UnsharedDatabase.openQueue(at: location, configuration: readOnly)
            #expect(try sum(reader) == 3)
            #expect(throws: DatabaseError.self) { try reader.write { try $0.execute(sql: "DELETE FROM t") } }
        }
    }

    @Test func pools() throws {
        try create()
        func refused(_ url: URL?, _ reason: String) throws {
            let url = try #require(url)
            let error = #expect(throws: DatabaseLocationError.self) { try UnsharedDatabase.openPool(at: url) }
            #expect(error?.description.contains(reason) == true, "\(String(describing: error))")
        }
        try refused(URL(string: "file::memory:"), "in memory")
        try refused(URL(string: "file:a?mode=memory"), "in memory")
        try refused(URL(string: "file:"), "no name")
        try refused(url.sqlite("cache=shared"), "cache=shared")
        try refused(url.sqlite("nolock=1"), "nolock")
        for query in ["mode=ro", "immutable=1", "nolock=1&mode=ro"] {
            #expect(try sum(UnsharedDatabase.openPool(at: url.sqlite(query))) == 1)
        }
    }

    /// Only a database that no other process has open is used without locks.
    @Test(.enabled(if: listsLocks, "the system does not list locks")) func withoutLocks() throws {
        try create()
        let unlocked = url.sqlite("nolock=1")
        let immutable = url.sqlite("immutable=1")
        for location in [unlocked, immutable] { #expect(try sum(UnsharedDatabase.openQueue(at: location)) == 1) }
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        for location in [unlocked, immutable] {
            let error = #expect(throws: DatabaseLocationError.self) { try UnsharedDatabase.openQueue(at: location) }
            #expect(error?.description.contains("'app' (pid \(getpid()))") == true, "\(String(describing: error))")
        }
        try db.close()
        // A stranger, in WAL mode and without a transaction, can write at any time.
        let pool = try DatabasePool(path: url.path)
        #expect(try sum(pool) == 1)
        for location in [unlocked, immutable] {
            #expect(throws: DatabaseLocationError.self) { try UnsharedDatabase.openQueue(at: location) }
        }
    }

    private static let listsLocks = FileManager.default.isReadableFile(atPath: "/proc/locks")
}
