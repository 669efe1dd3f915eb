import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableUnitSupport
import Testing

/// Raw handles are not made for some connections, and some handles do not get all turns (rule U2).
@Suite struct HandleRefusalTests {
    let folder: TemporaryFolder
    let db: SharedDatabase

    init() throws {
        folder = try TemporaryFolder()
        db = try SharedDatabase.open(at: folder.file("players.sqlite"), schema: SharedSchema(migrator()), as: "app")
    }

    /// A shared cache is refused even if no other connection shares it yet.
    @Test func sharedCachesAreRefused() throws {
        let uri = "file:\(db.path)?cache=shared"
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI
        let first = try RawSQLite(uri, flags: flags)
        #expect(throws: RawHandleError.sharedCache(path: db.path)) {
            try SharedDatabase.RawHandle(attachedTo: first.pointer, of: db)
        }
        let second = try RawSQLite(db.path, flags: SQLITE_OPEN_READWRITE | SQLITE_OPEN_SHAREDCACHE)
        #expect(throws: RawHandleError.sharedCache(path: db.path)) {
            try SharedDatabase.RawHandle(attachedTo: second.pointer, of: db)
        }
        let ownCache = try RawSQLite("file:\(db.path)?cache=private", flags: flags)
        let handle = try SharedDatabase.RawHandle(attachedTo: ownCache.pointer, of: db)
        try handle.turn { try ownCache.insert("A") }
        #expect(try db.names() == ["A"])
    }

    /// The test runs in a process of its own, since the mode is the process's.
    @Test func databasesAreNotOpenedInSharedCacheMode() async {
        await #expect(processExitsWith: .success) { try openInSharedCacheMode() }
    }

    @Test func ownConnectionsAreRefused() throws {
        try db.writeWithoutTransaction { database in
            let connection = try #require(database.sqliteConnection)
            _ = #expect(throws: RawHandleError.ownConnection(path: db.path)) {
                try SharedDatabase.RawHandle(attachedTo: connection, of: db)
            }
        }
    }

    /// An async turn would use the connection on another thread than its owner does.
    @Test func asyncTurnsWantAMutex() async throws {
        var pointer: OpaquePointer?
        #expect(sqlite3_open_v2(db.path, &pointer, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil) == SQLITE_OK)
        let connection = try #require(pointer)
        defer { sqlite3_close(connection) }
        let handle = try SharedDatabase.RawHandle(attachedTo: connection, of: db)
        await #expect(throws: RawHandleError.withoutMutex(path: db.path)) { try await handle.withTurn {} }
        try handle.turn {
            #expect(sqlite3_exec(connection, "INSERT INTO player (name) VALUES ('A')", nil, nil, nil) == SQLITE_OK)
        }
        #expect(try db.names() == ["A"])
        try handle.detach()
    }
}

private func openInSharedCacheMode() throws {
    let folder = try TemporaryFolder()
    let url = folder.file("players.sqlite")
    sqlite3_enable_shared_cache(1)
    let error = #expect(throws: DatabaseError.self) {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
    }
    #expect(error?.resultCode == .SQLITE_MISUSE)
    #expect(error?.message?.contains("\(url.path): SQLite's shared-cache mode is on") == true, "\(error as Any)")
    sqlite3_enable_shared_cache(0)
    let db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
    try db.insert("A")
    // Readers are opened when they are needed.
    sqlite3_enable_shared_cache(1)
    #expect(throws: DatabaseError.self) { try db.names() }
}
