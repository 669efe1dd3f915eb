import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableUnitSupport
import Testing

/// The settings of a raw connection that belong to its owner stay the owner's (rules U).
@Suite struct HandleHookTests {
    let folder: TemporaryFolder
    let url: URL
    let db: SharedDatabase

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
        db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
    }

    /// The number of calls by SQLite, for each kind of call.
    private final class Calls {
        var counts: [String: Int] = [:]
        func note(_ what: String) { counts[what, default: 0] += 1 }
        static func at(_ context: UnsafeMutableRawPointer?) -> Calls {
            Unmanaged<Calls>.fromOpaque(context!).takeUnretainedValue()
        }
    }

    private func hook(_ raw: RawSQLite, _ calls: Calls) {
        let context = Unmanaged.passUnretained(calls).toOpaque()
        sqlite3_commit_hook(
            raw.pointer,
            {
                Calls.at($0).note("commit"); return 0
            },
            context
        )
        sqlite3_rollback_hook(raw.pointer, { Calls.at($0).note("rollback") }, context)
        sqlite3_update_hook(raw.pointer, { context, _, _, _, _ in Calls.at(context).note("update") }, context)
        sqlite3_wal_hook(
            raw.pointer,
            { context, _, _, _ in
                Calls.at(context).note("wal"); return 0
            },
            context
        )
        sqlite3_busy_handler(
            raw.pointer,
            { context, _ in
                Calls.at(context).note("busy"); return 0
            },
            context
        )
        sqlite3_progress_handler(
            raw.pointer,
            1,
            {
                Calls.at($0).note("progress"); return 0
            },
            context
        )
        sqlite3_set_authorizer(
            raw.pointer,
            { context, action, _, _, _, _ in
                if action == SQLITE_INSERT { Calls.at(context).note("authorizer") }
                return SQLITE_OK
            },
            context
        )
        sqlite3_trace_v2(
            raw.pointer,
            UInt32(SQLITE_TRACE_STMT),
            { _, context, _, sql in
                guard let sql = sql.map({ String(cString: $0.assumingMemoryBound(to: CChar.self)) }) else { return 0 }
                if sql.hasPrefix("INSERT") { Calls.at(context).note("trace") }
                return 0
            },
            context
        )
    }

    @Test func allHooksAreCalledAsBefore() throws {
        let raw = try RawSQLite(db.path)
        let calls = Calls()
        hook(raw, calls)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        for name in ["A", "B"] { try handle.withTurn(tables: ["player"]) { try raw.insert(name) } }
        try handle.withTurn { try raw.execute("BEGIN IMMEDIATE; DELETE FROM player; ROLLBACK") }
        for what in ["commit", "wal", "trace", "authorizer"] {
            #expect(calls.counts[what] == 2, "\(what): \(calls.counts)")
        }
        #expect(calls.counts["rollback"] == 1)
        #expect(calls.counts["update"] ?? 0 >= 2)
        #expect(calls.counts["progress"] ?? 0 > 0)
        // The connection gets an error for a lock outside of turns.
        let other = try RawSQLite(db.path)
        try other.execute("BEGIN IMMEDIATE")
        #expect(throws: RawSQLite.Failure.self) { try raw.execute("BEGIN IMMEDIATE") }
        #expect(calls.counts["busy"] == 1)
        try other.execute("ROLLBACK")
        try handle.detach()
        try raw.insert("C")
        #expect(calls.counts["commit"] == 3 && calls.counts["wal"] == 3)
        #expect(try db.names() == ["A", "B", "C"])
    }

    /// A WAL hook of the owner's takes the place of automatic checkpoints: there is nothing to turn off.
    @Test func automaticCheckpointsAreTurnedOffOnlyWhereTheyAre() throws {
        let raw = try RawSQLite(db.path)
        #expect(try raw.integer("PRAGMA wal_autocheckpoint") == 1000)
        let kept = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db, automaticCheckpoints: .kept)
        #expect(try raw.integer("PRAGMA wal_autocheckpoint") == 1000)
        try kept.detach()
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        #expect(try raw.integer("PRAGMA wal_autocheckpoint") == 0)
        try handle.detach()
    }

    /// SQLite's default would sync each commit within the turn. A setting that the connection has made itself stays (rule U9).
    @Test(arguments: [(1, 1), (2, 1), (0, 0), (3, 3)])
    func synchronousIsThatOfTheDatabase(before: Int64, after: Int64) throws {
        let raw = try RawSQLite(db.path)
        try raw.execute("PRAGMA synchronous = \(before)")
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        #expect(try raw.integer("PRAGMA synchronous") == after)
        try raw.execute("PRAGMA synchronous = FULL")
        try handle.withTurn { try raw.insert("A") }
        #expect(try raw.integer("PRAGMA synchronous") == 2)
        try handle.detach()
    }

    /// The connection can be closed at once when its handle is detached: no statement is left on it.
    @Test func nothingKeepsTheConnectionOpen() throws {
        var pointer: OpaquePointer?
        #expect(sqlite3_open(db.path, &pointer) == SQLITE_OK)
        let handle = try SharedDatabase.RawHandle(attachedTo: #require(pointer), of: db)
        try handle.withTurn {
            #expect(sqlite3_exec(pointer, "INSERT INTO player (name) VALUES ('A')", nil, nil, nil) == SQLITE_OK)
        }
        try handle.detach()
        #expect(sqlite3_close(pointer) == SQLITE_OK)
        #expect(try db.names() == ["A"])
    }

    /// The WAL does not grow although only the handle writes (rule U8).
    @Test func walRestarts() throws {
        var options = SharedDatabase.Options()
        options.checkpointing = .automatic(threshold: 50)
        let writer = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "handle", options: options)
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: writer)
        for number in 1...1000 { try handle.turn(tables: ["player"]) { try raw.insert("\(number)") } }
        let size = try FileManager.default.attributesOfItem(atPath: db.path + "-wal")[.size] as? Int ?? 0
        // Two frames of 4,120 bytes a transaction at least would be 2,000. The limit is four times the threshold, and the frames that came while a
        // step was waited for.
        #expect(size < 500 * 4120, "\(size)")
        try handle.detach()
        try writer.close()
    }
}
