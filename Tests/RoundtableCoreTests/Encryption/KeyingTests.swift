import Foundation
import GRDB
import GRDBSQLite
import RoundtableUnitSupport
import Synchronization
import Testing

import enum RoundtableTestSupport.PeerEncryption
import enum RoundtableTestSupport.SQLCipherRequirement

@testable import Roundtable
@testable import RoundtableCore

/// Connections get their key whatever else the program has SQLite do when it opens one (rule C6).
@Suite(.serialized, .enabled(if: SQLCipherRequirement.isMet, "\(SQLCipherRequirement.reason)"))
struct KeyingTests {
    private let world: EncryptedWorld

    init() throws { world = try EncryptedWorld() }

    private func expectEncrypted(sourceLocation: SourceLocation = #_sourceLocation) throws {
        for (name, bytes) in try world.files {
            #expect(bytes.range(of: Data("Excalibur".utf8)) == nil, "\(name)", sourceLocation: sourceLocation)
            #expect(bytes.range(of: Data("CREATE TABLE".utf8)) == nil, "\(name)", sourceLocation: sourceLocation)
        }
    }

    /// Another connection of the thread is opened and closed before the own one is keyed. It is of any file, or of the same one.
    @Test(arguments: [true, false]) func aConnectionWithinTheOpening(ofSameFile: Bool) throws {
        let name = ofSameFile ? world.url.path : ":memory:"
        try OpeningHook.with({ _ in
            var other: OpaquePointer?
            sqlite3_open_v2(name, &other, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nil)
            sqlite3_close(other)
        }) {
            try world.make(player: "Excalibur")
            #expect(try world.open().players() == ["Excalibur"])
        }
        #expect(try DatabaseHeader(databasePath: world.url.path)?.isEncrypted == true)
        try expectEncrypted()
    }

    /// Without its own automatic extension, a connection has no key: nothing is written.
    @Test func aConnectionThatCannotBeKeyed() throws {
        OpeningHook.with({ _ in sqlite3_reset_auto_extension() }) {
            #expect {
                try world.make(player: "Excalibur")
            } throws: { error in
                if case EncryptionError.keyRefused = error { true } else { false }
            }
        }
        #expect(try world.files["secret.sqlite"]?.isEmpty != false)
        try world.make(player: "Excalibur")
        try expectEncrypted()
    }

    /// Code that traces the connection from before it has its key does not see the key either.
    @Test(arguments: [PeerEncryption.rawKey(7), .passphrase("a 07070707 secret")])
    func noTraceSeesTheKey(_ key: PeerEncryption) throws {
        try OpeningHook.with({ connection in
            sqlite3_trace_v2(
                connection,
                UInt32(SQLITE_TRACE_STMT),
                { _, _, _, text in
                    if let text {
                        let sql = String(cString: text.assumingMemoryBound(to: CChar.self))
                        OpeningHook.traced.withLock { $0.append(sql) }
                    }
                    return 0
                },
                nil
            )
        }) {
            try world.make(key.encryption, player: "Excalibur")
        }
        let traced = OpeningHook.traced.withLock { $0 }
        #expect(traced.contains { $0.contains("cipher_salt") })
        #expect(traced.filter { $0.contains("07070707") || $0.contains("PRAGMA key") } == [])
    }

    /// The key is the same whether the library exports a function for it or not.
    @Test(arguments: [PeerEncryption.rawKey(7), .passphrase("it's '' one")])
    func theStatementForTheKey(_ key: PeerEncryption) throws {
        try world.make(key.encryption)
        let salt = try #require(try FileSaltStore().load(forDatabaseAt: world.url).flatMap { Salt($0) })
        let keying = Keying(path: world.url.path, key: key.encryption.key, salt: salt)
        let statement = Keying.statement(try keying.keyBytes()).withCString { String(cString: $0) }
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.execute(sql: statement)
            try db.execute(sql: keying.settings)
        }
        let queue = try DatabaseQueue(path: world.url.path, configuration: configuration)
        #expect(try queue.read { try String.fetchAll($0, sql: "SELECT name FROM player") } == ["Arthur"])
    }
}

/// The hook runs with each connection that this thread opens, before Roundtable's automatic extension.
private enum OpeningHook {
    static let traced = Mutex<[String]>([])

    private final class Hook {
        let body: (OpaquePointer?) -> Void
        init(_ body: @escaping (OpaquePointer?) -> Void) { self.body = body }
    }

    private static let key = "Roundtable.OpeningHook"

    @discardableResult
    static func with<T>(_ hook: @escaping (OpaquePointer?) -> Void, _ body: () throws -> T) rethrows -> T {
        traced.withLock { $0 = [] }
        // Roundtable's adds itself again.
        sqlite3_reset_auto_extension()
        sqlite3_auto_extension(entryPoint)
        Thread.current.threadDictionary[key] = Hook(hook)
        defer {
            Thread.current.threadDictionary[key] = nil
            sqlite3_cancel_auto_extension(entryPoint)
        }
        return try body()
    }

    private static let opened:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, OpaquePointer?
        ) -> CInt = { connection, _, _ in
            let thread = Thread.current.threadDictionary
            guard let hook = thread[key] as? Hook else { return SQLITE_OK }
            // The hook ignores connections that it opens itself.
            thread[key] = nil
            hook.body(connection)
            thread[key] = hook
            return SQLITE_OK
        }

    private static var entryPoint: @convention(c) () -> Void {
        unsafeBitCast(opened, to: (@convention(c) () -> Void).self)
    }
}
