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
        let one = try UnsharedDatabase.openQueue(at: .memory(named: name))
        try one.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (3)") }
        let two = try UnsharedDatabase.openQueue(at: .memory(named: name))
        #expect(try sum(two) == 3)
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.openQueue(at: .memory(named: name + "x"))) }
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.openQueue(at: .memory())) }
        try one.close()
        #expect(try sum(two) == 3)
        try two.close()
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.openQueue(at: .memory(named: name))) }
        #expect(throws: DatabaseLocationError.self) { try UnsharedDatabase.openQueue(at: .memory(named: "")) }
    }

    /// Names that SQLite would cut, or take for something else than the properties say.
    @Test func misleadingNames() throws {
        try create()
        func uri(_ change: (inout DatabaseURI) -> Void) -> DatabaseLocation {
            var uri = DatabaseURI(path: url.path)
            change(&uri)
            return .uri(uri)
        }
        for (location, reason) in [
            (.memory(named: "a\0b"), "NUL"), (.file(path: url.path + "\0b"), "NUL"),
            (uri { $0.vfs = "a\0b" }, "NUL"),
            (uri { $0.otherParameters = [.init("a", "b\0c")] }, "NUL"),
            (uri { $0.otherParameters = [.init("nolock", "1")] }, "'nolock' has a property of its own"),
            (uri { $0.otherParameters = [.init("mode", "memory")] }, "'mode' has a property of its own"),
            (uri { $0.otherParameters = [.init("a", "1"), .init("a", "2")] }, "'a' is there twice"),
            (uri { $0.otherParameters = [.init("", "1")] }, "has no name"),
        ] as [(DatabaseLocation, String)] {
            let error = #expect(throws: DatabaseLocationError.self, "\(location)") {
                try UnsharedDatabase.openQueue(at: location)
            }
            #expect(error?.description.contains(reason) == true, "\(String(describing: error))")
            #expect(throws: DatabaseLocationError.self) {
                try SharedDatabase.open(at: location, schema: .unmanaged, as: "app")
            }
        }
    }

    /// What keeps SQLite from opening a file, in other words than the permission to read it.
    @Test func whatIsInTheWay() throws {
        func refused(_ uri: DatabaseURI, _ reason: String) {
            let error = #expect(throws: (any Error).self) { try UnsharedDatabase.openQueue(at: .uri(uri)) }
            let text = error.map { "\($0)" } ?? ""
            #expect(text.contains(reason) && !text.contains("permission"), "\(text)")
        }
        refused(DatabaseURI(path: folder.url.path), "is a folder")
        refused(DatabaseURI(path: folder.url.path + "/none/db.sqlite"), "/none does not exist")
        try create(mode: "WAL")
        refused(DatabaseURI(path: url.path, vfs: "none"), "no VFS 'none'")
        refused(DatabaseURI(path: url.path, isUnlocked: true), "is in WAL mode")
        #expect(try sum(UnsharedDatabase.openQueue(at: .uri(DatabaseURI(path: url.path, isImmutable: true)))) == 1)
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
        let one = try UnsharedDatabase.openQueue(at: .temporary)
        try one.write { db in
            try db.execute(sql: "CREATE TABLE t (a)")
            // More than the page cache: it goes to the disk.
            try db.execute(
                sql:
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT hex(randomblob(1000)) FROM n"
            )
        }
        #expect(try one.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 5000)
        #expect(throws: DatabaseError.self) { try sum(UnsharedDatabase.openQueue(at: .temporary)) }
    }

    @Test func files() throws {
        #expect(throws: DatabaseLocationError.noSuchFile(path: System.resolvedPath(url.path))) {
            try UnsharedDatabase.openQueue(at: .uri(DatabaseURI(path: url.path, mode: .readWrite)))
        }
        let queue = try UnsharedDatabase.openQueue(at: .file(url))
        #expect(queue.path == url.path)
        try queue.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        try queue.close()
        let pool = try UnsharedDatabase.openPool(at: .file(url))
        try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
        #expect(try sum(pool) == 3)
        #expect(try pool.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal")
        var readOnly = Configuration()
        readOnly.readonly = true
        for location in [DatabaseLocation.file(url), .uri(DatabaseURI(path: url.path, mode: .readWriteCreate))] {
            let reader = try UnsharedDatabase.openQueue(at: location, configuration: readOnly)
            #expect(try sum(reader) == 3)
            #expect(throws: DatabaseError.self) { try reader.write { try $0.execute(sql: "DELETE FROM t") } }
        }
    }

    @Test func pools() throws {
        try create()
        func refused(_ location: DatabaseLocation, _ reason: String) {
            let error = #expect(throws: DatabaseLocationError.self) { try UnsharedDatabase.openPool(at: location) }
            #expect(error?.description.contains(reason) == true, "\(String(describing: error))")
        }
        refused(.memory(), "in memory")
        refused(.memory(named: "a"), "in memory")
        refused(.temporary, "no name")
        refused(.uri(DatabaseURI(path: url.path, cache: .shared)), "cache=shared")
        refused(.uri(DatabaseURI(path: url.path, isUnlocked: true)), "nolock")
        for uri in [DatabaseURI(path: url.path, mode: .readOnly), DatabaseURI(path: url.path, isImmutable: true)] {
            #expect(try sum(UnsharedDatabase.openPool(at: .uri(uri))) == 1)
        }
    }

    /// Without locks only what nobody else has open.
    @Test(.enabled(if: listsLocks, "the system does not list locks")) func withoutLocks() throws {
        try create()
        let unlocked = DatabaseLocation.uri(DatabaseURI(path: url.path, isUnlocked: true))
        let immutable = DatabaseLocation.uri(DatabaseURI(path: url.path, isImmutable: true))
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
