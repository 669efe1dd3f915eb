import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// What must hold whatever SQLite is linked: Apple's is built with other options, and its system syncs otherwise.
@Suite struct OtherSQLiteTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ change: (inout SharedDatabase.Options) -> Void = { _ in }) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app", options: options)
    }

    /// With `SQLITE_ENABLE_SETLK_TIMEOUT`, a connection with a timeout sleeps in the system, where nothing interrupts it.
    @Test(arguments: [SharedDatabase.BusyMode.timeout(.seconds(7)), .immediateError, .callback { _ in false }])
    func noConnectionHasATimeoutOfSQLite(mode: SharedDatabase.BusyMode) throws {
        let db = try open { $0.busyMode = mode }
        func timeout(_ db: Database) throws -> Int? { try Int.fetchOne(db, sql: "PRAGMA busy_timeout") }
        #expect(try db.read(timeout) == 0)
        #expect(try db.write(timeout) == 0)
        let options = SharedDatabase.Options()
        #expect(try ObservationConnection(path: url.path, options: options).queue.inDatabase(timeout) == 0)
        #expect(try Onlooker(url).connection(waitingUpTo: .seconds(7)).inDatabase(timeout) == 0)
    }

    /// Each lock is waited for as long as the limit says, and the first refusal ends the wait.
    @Test func aTimedHandler() {
        let handler = TimedBusyHandler(limit: 30_000_000)
        for _ in 0..<2 {
            let began = MonotonicClock.now
            var tries = 0
            while handler.next(tries: tries) { tries += 1 }
            #expect(MonotonicClock.now - began >= 30_000_000 && tries > 0)
        }
        handler.limit = 0
        #expect(!handler.next(tries: 0))
    }

    /// Apple's systems leave what fsync(2) has synced in the drive's cache: a commit of `machine`, and each checkpoint, empty it.
    @Test(arguments: CommitDurability.allCases)
    func drivesAreFlushed(durability: CommitDurability) throws {
        let db = try open { $0.durability = durability }
        let found = try db.write { db in
            try ["synchronous", "fullfsync", "checkpoint_fullfsync"].map { try Int.fetchOne(db, sql: "PRAGMA \($0)") }
        }
        #expect(found == (durability == .machine ? [2, 1, 1] : [1, 0, 1]))
    }

    // MARK: A VFS that refuses writes of no bytes

    private static let refuse:
        @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeRawPointer?, CInt, sqlite3_int64) -> CInt =
            { _, _, _, _ in SQLITE_IOERR }

    private func refusing<T>(_ file: UnsafeMutablePointer<sqlite3_file>?, _ body: () throws -> T) throws -> T {
        let file = try #require(file)
        let original = try #require(file.pointee.pMethods)
        var methods = original.pointee
        methods.xWrite = Self.refuse
        return try withUnsafePointer(to: methods) {
            file.pointee.pMethods = $0
            defer { file.pointee.pMethods = original }
            return try body()
        }
    }

    /// A WAL that takes no write, where the database file does, is open for reading only. A VFS that refuses both says nothing.
    @Test func aProbeThatShowsNothing() throws {
        let db = try open()
        let path = url.path
        try db.write { db in
            try db.checkWalIsWritable(path)
            try refusing(db.walFile) {
                #expect(throws: DatabaseError.self) { try db.checkWalIsWritable(path) }
                try refusing(db.databaseFile) { try db.checkWalIsWritable(path) }
            }
        }
    }

    /// A program that links two SQLites, or Apple's in the place of SQLCipher, gets an error that says so.
    @Test func aRefusedExtensionIsNamed() {
        let error = EncryptionError.keyRefused(path: "/db", code: SQLITE_MISUSE)
        #expect(error.description.contains("sqlite3_auto_extension"))
        #expect(!EncryptionError.keyRefused(path: "/db", code: SQLITE_NOMEM).description.contains("auto_extension"))
    }
}
