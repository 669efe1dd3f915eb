import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

import enum RoundtableTestSupport.DerivedTableWorld
import enum RoundtableTestSupport.PeerEncryption
import enum RoundtableTestSupport.SQLCipherRequirement

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableDerived
@testable import RoundtableDiagnostics
@testable import RoundtableGate
@testable import RoundtableHistory

/// Databases that SQLCipher encrypts.
@Suite(.enabled(if: SQLCipherRequirement.isMet, "\(SQLCipherRequirement.reason)"))
struct EncryptedDatabaseTests {
    private let world: EncryptedWorld

    init() throws { world = try EncryptedWorld() }

    /// An encrypted database has a header by which it is a SQLite database in WAL mode (rule C1).
    @Test(arguments: [PeerEncryption.rawKey(7), .passphrase("it's a \"secret\" – x'00'")])
    func whatIsWrittenIsReadAgain(_ key: PeerEncryption) throws {
        let marker = "Excalibur was here"
        try world.make(key.encryption, player: marker)
        let db = try world.open(key.encryption)
        #expect(try db.players() == [marker])
        try db.write { try $0.execute(sql: "CREATE TABLE \"\(marker) too\" (x); UPDATE player SET score = 12345") }
        // The database has a WAL.
        let copies = try world.files
        try db.close()
        #expect(copies.keys.sorted().contains("secret.sqlite-wal"))
        let all = copies.merging(try world.files, uniquingKeysWith: +)
        for (name, bytes) in all where !name.hasSuffix(ControlBlock.ending) {
            #expect(!bytes.isEmpty || name.hasSuffix("-wal"))
            #expect(bytes.range(of: Data(marker.utf8)) == nil, "\(name)")
            #expect(bytes.range(of: Data("CREATE TABLE".utf8)) == nil, "\(name)")
            #expect(bytes.range(of: Data("autoIncrement".utf8)) == nil, "\(name)")
        }
        let header = try #require(try DatabaseHeader(databasePath: world.url.path))
        #expect(header.isWAL && header.isEncrypted && header.pageSize == 4096)
        // The control block has no content, but names.
        #expect(copies["secret.sqlite" + ControlBlock.ending]?.range(of: Data("12345".utf8)) == nil)
    }

    /// Every connection is keyed, whatever it is for, and the key is asked for each time (rule C6).
    @Test func everyConnectionIsKeyed() async throws {
        let witness = KeyWitness()
        let db = try world.open(witness.encryption) { $0.process = ProcessSuspension() }
        #expect(witness.count == 1)
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        // Two readers are open at once.
        try await db.read { _ in
            let isDone = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                _ = try? db.players()
                isDone.signal()
            }
            isDone.wait()
        }
        #expect(witness.count == 3)
        let snapshot = try await db.makeSnapshot()
        #expect(try await snapshot.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM player") } == 1)
        #expect(witness.count == 4)
        // This opens the connection of observations.
        let values = ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM player") }.values(
            in: db
        )
        var iterator = values.makeAsyncIterator()
        #expect(try await iterator.next() == 1)
        #expect(witness.count == 5)
        // Checkpoints have a connection, too.
        _ = try await db.checkpoint(.passive)
        #expect(witness.count == 6)
        try snapshot.close()
        // All connections are closed, and opened again.
        let outcome = await onThread { db.park(until: MonotonicClock.now + 60_000_000_000) }
        #expect(outcome.isEmpty, "\(outcome)")
        db.unpark()
        try await db.write { db in _ = try Player(name: "B").inserted(db) }
        var value = try await iterator.next()
        // The first reader may be opened once more.
        if value == 1 { value = try await iterator.next() }
        #expect(value == 2)
        #expect(try db.players() == ["A", "B"])
        #expect(witness.count >= 8)
        try db.close()
        guard case .available(let reader) = try world.openReadOnly(witness.encryption) else {
            Issue.record("not available")
            return
        }
        #expect(try reader.players() == ["A", "B"])
        try reader.close()
    }

    /// A key may be unavailable for a while: the access fails that needs a connection, and works again later.
    @Test func aKeyThatCannotBeHad() throws {
        let witness = KeyWitness()
        func expectFailure(_ access: () throws -> Void) {
            #expect {
                try access()
            } throws: { error in
                if case EncryptionError.keyUnavailable = error { true } else { false }
            }
        }
        witness.lock(true)
        expectFailure { try world.open(witness.encryption).close() }
        #expect(!FileManager.default.fileExists(atPath: world.url.path))
        witness.lock(false)
        let db = try world.open(witness.encryption)
        try db.add("A")
        witness.lock(true)
        try world.expectFailure(witness.encryption) { if case .keyUnavailable = $0 { true } else { false } }
        expectFailure { _ = try db.players() }
        try db.add("B")
        witness.lock(false)
        #expect(try db.players() == ["A", "B"])
        try db.close()
    }

    /// A key may be unavailable when the connections are opened again after a suspension. Each kind of write fails then.
    @Test func aKeyThatCannotBeHadAfterASuspension() async throws {
        let witness = KeyWitness()
        func expectFailure(_ access: () async throws -> Void) async {
            await #expect {
                try await access()
            } throws: { error in
                if case EncryptionError.keyUnavailable = error { true } else { false }
            }
        }
        let db = try world.open(witness.encryption) { $0.process = ProcessSuspension() }
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        let outcome = await onThread { db.park(until: MonotonicClock.now + 60_000_000_000) }
        #expect(outcome.isEmpty, "\(outcome)")
        db.unpark()
        witness.lock(true)
        let sql = "DELETE FROM player"
        await expectFailure { try db.add("B") }
        await expectFailure { try await db.write { try $0.execute(sql: sql) } }
        await expectFailure { try db.writeWithoutTransaction { try $0.execute(sql: sql) } }
        await expectFailure { try db.unsafeReentrantWrite { try $0.execute(sql: sql) } }
        await expectFailure { try db.barrierWriteWithoutTransaction { try $0.execute(sql: sql) } }
        await expectFailure { try await db.barrierWriteWithoutTransaction { try $0.execute(sql: sql) } }
        await expectFailure {
            try await withCheckedThrowingContinuation { continuation in
                db.asyncWrite({ try $0.execute(sql: sql) }, completion: { continuation.resume(with: $1) })
            }
        }
        await expectFailure {
            try await withCheckedThrowingContinuation { continuation in
                db.asyncBarrierWriteWithoutTransaction { result in
                    continuation.resume(with: Result { try result.get().execute(sql: sql) })
                }
            }
        }
        await expectFailure { _ = try db.players() }
        witness.lock(false)
        try db.add("B")
        #expect(try db.players() == ["A", "B"])
        try db.close()
    }

    /// An observation that is begun meanwhile ends, and reports why.
    @Test func anObservationWithoutKey() async throws {
        let witness = KeyWitness()
        let db = try world.open(witness.encryption)
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        witness.lock(true)
        let values = ValueObservation.tracking(Player.fetchCount).values(in: db)
        await #expect {
            for try await value in values { Issue.record("received \(value)") }
        } throws: { error in
            if case EncryptionError.keyUnavailable = error { true } else { false }
        }
        witness.lock(false)
    }

    @Test(arguments: [
        PeerEncryption.rawKey(8), .passphrase("wrong"), .passphrase(String(repeating: "07", count: 32)),
    ])
    func wrongKeys(_ key: PeerEncryption) throws {
        try world.make()
        try world.expectFailure(key.encryption) { if case .wrongKey = $0 { true } else { false } }
        let db = try world.open()
        #expect(try db.players() == ["Arthur"])
        // This opens it beside a database that is open, with the first page in the WAL.
        try db.write { try $0.execute(sql: "CREATE TABLE t (x)") }
        #expect {
            try world.open(key.encryption)
        } throws: { error in
            if case EncryptionError.wrongKey = error { true } else { false }
        }
        try db.add("Mordred")
        try db.close()
    }

    @Test func noKey() throws {
        try world.make()
        try world.expectFailure(nil) { if case .databaseIsEncrypted = $0 { true } else { false } }
        let status = try DatabaseStatus(ofDatabaseAt: world.url)
        #expect(status.isEncrypted && status.journalMode == .wal && status.schema == nil)
        #expect(status.unknowns.contains { $0.contains("encrypted") }, "\(status.unknowns)")
        let diagnosis = try DatabaseDiagnosis(ofDatabaseAt: world.url, outboxFolder: nil, checking: .quick) {}
        #expect(diagnosis.findings.filter { $0.severity == .error }.isEmpty, "\(diagnosis.findings)")
        #expect(diagnosis.unknowns.contains { $0.contains("is encrypted") }, "\(diagnosis.unknowns)")
        // The database is open in this process.
        let db = try world.open()
        try db.add("B")
        #expect(try DatabaseStatus(ofDatabaseAt: world.url).participants.map(\.author) == ["app"])
        try db.add("C")
        #expect(try db.players() == ["Arthur", "B", "C"])
        try db.close()
    }

    @Test func aPlainDatabase() throws {
        try world.make(nil)
        try world.expectFailure { if case .databaseIsPlain = $0 { true } else { false } }
        // The salt is that of a database which had that name before.
        _ = try FileSaltStore().create(Data(0..<16), forDatabaseAt: world.url)
        try world.expectFailure { if case .databaseIsPlain = $0 { true } else { false } }
        #expect(try world.open(nil).players() == ["Arthur"])
    }

    /// SQLCipher makes such headers by default. Other files are no database.
    @Test func anEncryptedHeader() throws {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA key = 'secret'") }
        try DatabaseQueue(path: world.url.path, configuration: configuration).write {
            try $0.execute(sql: "CREATE TABLE t (x)")
        }
        try world.expectFailure { if case .unknownHeader = $0 { true } else { false } }
        _ = try FileSaltStore().create(Data(0..<16), forDatabaseAt: world.url)
        try world.expectFailure { if case .unknownHeader = $0 { true } else { false } }
        #expect(throws: DatabaseError.self) { try world.open(nil) }
    }

    @Test func theSaltIsLost() throws {
        try world.make()
        let salt = try Data(contentsOf: world.saltFile)
        try FileManager.default.removeItem(at: world.saltFile)
        try world.expectFailure { if case .missingSalt = $0 { true } else { false } }
        try salt.prefix(20).write(to: world.saltFile)
        try world.expectFailure { if case .damagedSalt = $0 { true } else { false } }
        try Data(FileSaltStore.file(.random())).write(to: world.saltFile)
        try world.expectFailure { if case .wrongKey = $0 { true } else { false } }
        try salt.write(to: world.saltFile)
        #expect(try world.open().players() == ["Arthur"])
    }

    /// A read-only process makes nothing, not even a salt; a salt alone is no database (rule C5).
    @Test func readOnlyMakesNothing() throws {
        func expectNotCreated() throws {
            guard case .unavailable(.notCreated) = try world.openReadOnly() else {
                Issue.record("available")
                return
            }
        }
        try expectNotCreated()
        #expect(try world.files.isEmpty)
        try Data().write(to: world.url)
        try expectNotCreated()
        #expect(try world.files.keys.sorted() == ["secret.sqlite"])
        _ = try FileSaltStore().create(Data(0..<16), forDatabaseAt: world.url)
        try expectNotCreated()
        try world.make()
        #expect(try FileSaltStore().load(forDatabaseAt: world.url) == Data(0..<16))
    }

    /// The key is given before anything else runs, and nothing that traces statements sees it.
    @Test func noTraceSeesTheKey() throws {
        let traces = Shared<[String]>([])
        let counts = Shared<[Int]>([])
        for _ in 1...2 {
            let db = try world.open { options in
                options.configuration.publicStatementArguments = true
                options.configuration.prepareDatabase { db in
                    db.trace { event in traces.change { $0.append("\(event)") } }
                    // This reads the file, before Roundtable's own preparations.
                    let count = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_master")!
                    counts.change { $0.append(count) }
                }
            }
            try db.add("A")
            try db.close()
        }
        #expect(counts.value.last ?? 0 > 0)
        #expect(traces.value.contains { $0.contains("INSERT INTO \"player\"") })
        #expect(!traces.value.contains { $0.contains("PRAGMA key") || $0.contains("07070707") })
    }

    /// Roundtable does not key other connections of the same thread.
    @Test func otherConnectionsStayPlain() throws {
        let other = world.folder.file("plain.sqlite").path
        let db = try world.open { options in
            options.configuration.prepareDatabase { _ in
                try DatabaseQueue(path: other).write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (x)") }
            }
        }
        try db.add("A")
        try db.close()
        #expect(try DatabaseHeader(databasePath: other)?.isEncrypted == false)
        #expect(try DatabaseQueue(path: other).read { try $0.tableExists("t") })
    }

    /// SQLite's own temporary files would be in plain text.
    @Test func temporaryFilesAreInMemory() throws {
        let db = try world.open()
        let sql = "PRAGMA temp_store"
        #expect(try db.read { try Int.fetchOne($0, sql: sql) } == 2)
        #expect(try db.write { try Int.fetchOne($0, sql: sql) } == 2)
    }

    @Test func aSaltStoreOfTheUser() throws {
        struct Store: SaltStore {
            let salts: Shared<[String: Data]>
            func load(forDatabaseAt url: URL) throws -> Data? { salts.value[url.lastPathComponent] }
            func create(_ salt: Data, forDatabaseAt url: URL) throws -> Data {
                salts.change { $0[url.lastPathComponent] = $0[url.lastPathComponent] ?? salt }
                return salts.value[url.lastPathComponent]!
            }
        }
        let store = Store(salts: Shared([:]))
        let encryption = DatabaseEncryption(key: EncryptedWorld.key.key, salt: store)
        try world.make(encryption)
        #expect(store.salts.value.keys.sorted() == ["secret.sqlite"])
        #expect(!FileManager.default.fileExists(atPath: world.saltFile.path))
        #expect(try world.open(encryption).players() == ["Arthur"])
        store.salts.change { $0["secret.sqlite"] = Data([1]) }
        try world.expectFailure(encryption) { if case .damagedSalt = $0 { true } else { false } }
        store.salts.change { $0 = [:] }
        try world.expectFailure(encryption) { if case .missingSalt = $0 { true } else { false } }
    }

    /// A page that another program has changed is not read as if it were unchanged.
    @Test func aChangedPageIsNoticed() throws {
        try world.make(player: String(repeating: "A", count: 5000))
        var bytes = try Data(contentsOf: world.url)
        for page in 1..<(bytes.count / 4096) { bytes[page * 4096 + 2000] ^= 1 }
        try bytes.write(to: world.url)
        #expect(throws: (any Error).self) { try world.open().players() }
    }

    // MARK: The rest of the library

    @Test func history() throws {
        let db = try world.open()
        try db.history.enable(for: "player")
        try db.add("A")
        try db.write { try $0.execute(sql: "UPDATE player SET score = 1") }
        #expect(try db.history.changes(since: nil, in: nil).changes.map(\.line).count == 2)
        try db.history.enable(for: "player", keeping: ["name"])
        try db.write { try $0.execute(sql: "DELETE FROM player") }
        #expect(try db.history.changes(since: nil, in: nil).changes.last?.oldValue("name") == "A".databaseValue)
        try db.close()
    }

    @Test func derivedTables() throws {
        var options = SharedDatabase.Options()
        options.encryption = EncryptedWorld.key
        let schema = SharedSchema(
            DerivedTableWorld.migrator(),
            derivedTables: DerivedTableSet(revision: 1, DerivedTableWorld.all)
        )
        for round in 1...2 {
            let db = try SharedDatabase.open(at: world.url, schema: schema, as: "app", options: options)
            try db.write { db in
                try db.execute(
                    sql: "INSERT INTO item (box, name, size) VALUES ('a', 'x y', 1), ('a', 'z', 2), ('b', 'x', 3)"
                )
            }
            #expect(try db.read { try DerivedTableWorld.discrepancies($0) } == [])
            #expect(try db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM item") } == 3 * round)
            try db.close()
        }
    }

    @Test func outbox() async throws {
        let fixture = try OutboxWorld()
        let sender = try fixture.outbox()
        try await sender.submit(AddEntry(text: "from the widget"))
        let db = try fixture.open {
            $0.encryption = EncryptedWorld.key
            $0.outbox = .entries()
        }
        #expect(try await onThread { Result { try db.texts() } }.get() == ["from the widget"])
        try db.close()
    }
}
