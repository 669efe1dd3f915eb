import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

import enum RoundtableTestSupport.PeerEncryption

@testable import Roundtable
@testable import RoundtableCore

/// These tests need no SQLCipher.
@Suite struct EncryptionTests {
    /// Nothing is written in plain text because a library ignores keys.
    @Test(.enabled(if: SQLCipher.version == nil, "this program has SQLCipher"))
    func sqliteWithoutSQLCipher() throws {
        let world = try EncryptedWorld()
        #expect(throws: EncryptionError.self) { try world.open() }
        #expect(try world.files.isEmpty)
        try world.make(nil)
        try world.expectFailure { if case .noSQLCipher = $0 { true } else { false } }
    }

    @Test func noDescriptionShowsTheKey() throws {
        let secret = "correct horse battery staple"
        let encryption = DatabaseEncryption(key: .passphrase { secret })
        var options = SharedDatabase.Options()
        options.encryption = encryption
        var text =
            "\(encryption) \(encryption.key) \(options) \(String(reflecting: encryption)) \(Mirror(reflecting: options).children.map { "\($0)" })"
        dump(options, to: &text)
        dump(encryption, to: &text)
        #expect(!text.contains("horse"))
    }

    @Test func secretsAreStatementsOfSQL() throws {
        let salt = try #require(Salt(0..<16))
        func bytes(_ key: DatabaseEncryption.Key) throws -> Secret {
            try Keying(path: "/db", key: key, salt: salt).keyBytes()
        }
        func text(_ key: DatabaseEncryption.Key) throws -> String {
            try bytes(key).withBytes { String(decoding: $0, as: UTF8.self) }
        }
        func statement(_ key: DatabaseEncryption.Key) throws -> String {
            try Keying.statement(bytes(key)).withCString { String(cString: $0) }
        }
        #expect(try text(.passphrase { "it's 'mine' é" }) == "it's 'mine' é")
        #expect(try statement(.passphrase { "it's 'mine' é" }) == "PRAGMA key = 'it''s ''mine'' é'")
        let raw = String(repeating: "0a", count: 32)
        let rawKey = DatabaseEncryption.Key.rawKey { Data(repeating: 10, count: 32) }
        #expect(try text(rawKey) == "x'\(raw)000102030405060708090a0b0c0d0e0f'")
        #expect(try statement(rawKey) == "PRAGMA key = 'x''\(raw)000102030405060708090a0b0c0d0e0f'''")
        let wrong: [DatabaseEncryption.Key] = [
            .passphrase { "" }, .passphrase { "a\0b" }, .passphrase { "x'0011'" }, .passphrase { "X'0011'" },
            .rawKey { Data() },
            .rawKey { Data(count: 31) }, .rawKey { Data(count: 48) },
        ]
        for key in wrong {
            #expect {
                try statement(key)
            } throws: { error in
                if case EncryptionError.invalidKey("/db", _) = error { true } else { false }
            }
        }
        #expect {
            try statement(.rawKey { throw KeyWitness.Locked() })
        } throws: { error in
            if case EncryptionError.keyUnavailable("/db", let underlying) = error {
                underlying is KeyWitness.Locked
            } else {
                false
            }
        }
    }

    /// A secret that is erased is overwritten, also when it is freed next.
    @Test func secretsAreOverwritten() {
        let secret = Secret(capacity: 8)
        secret.append("key")
        secret.append(hexadecimal: 0xA5)
        #expect(secret.withCString { String(cString: $0) } == "keya5")
        secret.withCString { bytes in
            secret.erase()
            #expect((0..<8).allSatisfy { bytes[$0] == 0 })
        }
    }

    @Test func aPlainHeaderIsDistinguishedFromAnEncryptedOne() throws {
        let world = try EncryptedWorld()
        try world.make(nil)
        let bytes = Array(try Data(contentsOf: world.url).prefix(100))
        #expect(try #require(DatabaseHeader(bytes)).isEncrypted == false)
        var encrypted = bytes
        encrypted[20] = 80
        // Reserved bytes alone, as some extensions of SQLite have them, encrypt nothing.
        #expect(try #require(DatabaseHeader(encrypted)).isEncrypted == false)
        for index in 32..<100 { encrypted[index] = UInt8(truncatingIfNeeded: index &* 37) }
        #expect(try #require(DatabaseHeader(encrypted)).isEncrypted)
    }
}

/// Rules C2–C4.
@Suite struct SaltFileTests {
    private let folder: TemporaryFolder
    private let url: URL
    private let store = FileSaltStore()

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db.sqlite")
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder.url.path).sorted() }
    }

    @Test func theFirstStays() throws {
        #expect(try store.load(forDatabaseAt: url) == nil)
        let first = Data(0..<16)
        #expect(try store.create(first, forDatabaseAt: url) == first)
        #expect(try store.create(Data(count: 16), forDatabaseAt: url) == first)
        #expect(try store.load(forDatabaseAt: url) == first)
        #expect(try names == ["db.sqlite-salt"])
        #expect(store.name(forDatabaseAt: url) == url.path + "-salt")
    }

    /// All threads that create a salt at once get the same one.
    @Test func manyThreadsAgree() throws {
        let salts = Shared<Set<Data>>([])
        DispatchQueue.concurrentPerform(iterations: 16) { _ in
            let salt = try? store.create(Data(Salt.random().bytes), forDatabaseAt: url)
            salts.change { $0.insert(salt ?? Data()) }
        }
        #expect(try salts.value == [#require(try store.load(forDatabaseAt: url))])
        #expect(try names == ["db.sqlite-salt"])
    }

    @Test(arguments: [0, 1, 7, 8, 12, 16, 31, 32, 39]) func damage(at index: Int) throws {
        let bytes = FileSaltStore.file(try #require(Salt(0..<16)))
        #expect(bytes.count == FileSaltStore.fileSize)
        var damaged = bytes
        damaged[index] ^= 1
        for file in [damaged, Array(bytes.prefix(index)), bytes + [0]] {
            try Data(file).write(to: url.appendingToName("-salt"))
            #expect(throws: SaltFileError.self) { try store.load(forDatabaseAt: url) }
        }
    }

    /// When a call of the system fails, there is an error, and the next call finds nothing half done.
    @Test(arguments: [SystemCall.open, .write, .fsync, .link])
    func failingCalls(_ call: SystemCall) throws {
        for skipped in 0...2 {
            let failed = System.withFaults([Fault(call, errno: EIO, skipping: skipped, times: 1)]) {
                (try? store.create(Data(0..<16), forDatabaseAt: url)) == nil
            }
            // Once the file has its name, it is the salt.
            if failed, try names != ["db.sqlite-salt"] { #expect(try names == []) }
            let salt = try store.create(Data(16..<32), forDatabaseAt: url)
            #expect(salt == Data(0..<16) || salt == Data(16..<32))
            #expect(try names == ["db.sqlite-salt"])
            try FileManager.default.removeItem(at: url.appendingToName("-salt"))
        }
    }

    /// A temporary file that a dead process has left is removed with the next salt that is looked for without a database.
    @Test func leftoversAreRemoved() throws {
        try Data([1]).write(to: folder.file("db.sqlite-salt.999999-1-\(ProcessIdentity.current.namespace)-1-1.new"))
        _ = try store.create(Data(0..<16), forDatabaseAt: url)
        #expect(try names == ["db.sqlite-salt"])
    }
}

extension URL {
    fileprivate func appendingToName(_ suffix: String) -> URL { URL(fileURLWithPath: path + suffix) }
}
