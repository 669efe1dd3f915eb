import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDiagnostics

/// These tests check the work of a configuration while a connection is being opened.
@Suite(.timeLimit(.minutes(1))) struct OpeningTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ prepare: @escaping @Sendable (Database) throws -> Void) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.configuration.prepareDatabase(prepare)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app", options: options)
    }

    /// A configuration may take what it needs from another shared database.
    @Test func anotherDatabaseIsOpenedMeanwhile() throws {
        let other = folder.file("settings.sqlite")
        let db = try open { _ in
            let settings = try SharedDatabase.open(at: other, schema: SharedSchema(migrator()), as: "app")
            try settings.insert("setting")
            try settings.close()
        }
        try db.insert("Arthur")
        #expect(try db.read { db in try Player.fetchCount(db) } == 1)
    }

    /// A look from outside would be in the way of the connection. It says what it could not see.
    @Test func looksFromOutsideSeeWhatTheyCan() throws {
        try open { _ in }.close()
        let looks = Shared<[DatabaseStatus]>([])
        let db = try open { [url] _ in
            if !looks.value.isEmpty { return }
            let status = try DatabaseStatus(ofDatabaseAt: url)
            looks.change { $0.append(status) }
        }
        let status = try #require(looks.value.first)
        #expect(status.unknowns.contains { $0.contains("was opening a database") }, "\(status)")
        try db.insert("Arthur")
        #expect(try DatabaseStatus(ofDatabaseAt: url).unknowns == [])
    }

    /// Another program replaces the file when the first connection has just opened it. The participant then uses the new
    /// file.
    @Test func theFileIsReplacedMeanwhile() throws {
        let other = folder.file("other.sqlite")
        for (url, name) in [(url, "former"), (other, "present")] {
            let queue = try DatabaseQueue(path: url.path)
            try migrator().migrate(queue)
            try queue.write { try $0.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: [name]) }
            try queue.close()
        }
        let isReplaced = Shared(false)
        let db = try open { [url] _ in
            if isReplaced.value { return }
            try #require(rename(other.path, url.path) == 0)
            isReplaced.change { $0 = true }
        }
        #expect(isReplaced.value)
        try db.insert("next")
        try db.close()
        let names = try DatabaseQueue(path: url.path).read {
            try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id")
        }
        #expect(names == ["present", "next"])
    }

    // MARK: Locks of other connections

    /// A database in rollback-journal mode, whose only lock another connection of this process holds until `end` is called.
    private func whileLocked(_ body: (_ end: @escaping @Sendable () throws -> Void) throws -> Void) throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: url.path, configuration: configuration)
        try migrator().migrate(stranger)
        try stranger.inDatabase { try $0.execute(sql: "BEGIN EXCLUSIVE") }
        let hasEnded = Shared(false)
        @Sendable func end() throws {
            if hasEnded.value { return }
            hasEnded.change { $0 = true }
            try stranger.inDatabase { try $0.execute(sql: "COMMIT") }
        }
        defer { try? end() }
        try body(end)
    }

    /// Opening waits for the lock also where reads and writes fail at once (rule W9).
    @Test(arguments: [true, false]) func waitsWhateverTheBusyMode(isReadOnly: Bool) throws {
        try whileLocked { end in
            let attempts = Shared(0)
            var options = SharedDatabase.Options()
            options.busyMode = .immediateError
            options.configuration.prepareDatabase { _ in attempts.change { $0 += 1 } }
            Thread.detachNewThread {
                attempts.wait { $0 > 0 }
                #expect(throws: Never.self) { try end() }
            }
            if isReadOnly {
                let answer: SharedDatabase.Availability = try SharedDatabase.openReadOnly(
                    at: url,
                    schema: SharedSchema(migrator()),
                    as: "reader",
                    options: options
                )
                guard case .available = answer else { return #expect(Bool(false), "\(answer)") }
            } else {
                _ =
                    try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app", options: options)
                    as SharedDatabase
            }
        }
    }

    /// The error of an opening names the path, and the time that it has waited, which is the busy timeout (rule W9).
    @Test func saysHowLongItHasWaited() throws {
        try whileLocked { _ in
            var options = SharedDatabase.Options()
            options.busyTimeout = .milliseconds(300)
            for isReadOnly in [true, false] {
                let began = ContinuousClock.now
                let error = #expect(throws: DatabaseError.self) {
                    if isReadOnly {
                        let schema = SharedSchema(migrator())
                        _ =
                            try SharedDatabase.openReadOnly(at: url, schema: schema, as: "reader", options: options)
                            as SharedDatabase.Availability
                    } else {
                        let schema = SharedSchema(migrator(upTo: 2))
                        _ =
                            try SharedDatabase.open(at: url, schema: schema, as: "app", options: options)
                            as SharedDatabase
                    }
                }
                let passed = (ContinuousClock.now - began) / .seconds(1)
                #expect(error?.resultCode == .SQLITE_BUSY)
                let message = try #require(error?.message)
                #expect(message.hasPrefix("\(url.path): database is locked: "), "\(message)")
                let time = try #require(message.components(separatedBy: "; waited ").last?.split(separator: " ").first)
                let waited = try #require(Double(time), "\(message)")
                // The time has one decimal.
                #expect(waited >= 0.3 && waited <= passed + 0.05, "\(message), after \(passed) s")
            }
        }
    }

    // MARK: Paths

    /// SQLite takes paths of up to 504 bytes. The error for a longer path says so, and no file is left.
    @Test func aPathThatIsTooLong() throws {
        let root = System.resolvedPath(folder.url.path)
        let deep = root + "/" + String(repeating: "d", count: 200) + "/" + String(repeating: "e", count: 200)
        try FileManager.default.createDirectory(atPath: deep, withIntermediateDirectories: true)
        func database(_ length: Int) -> URL {
            let name = String(repeating: "n", count: length - deep.utf8.count - 1)
            return URL(fileURLWithPath: deep + "/" + name)
        }
        let long = database(505)
        for isReadOnly in [true, false] {
            let error = #expect(throws: DatabaseError.self) {
                if isReadOnly {
                    _ =
                        try SharedDatabase.openReadOnly(at: long, schema: .unmanaged, as: "a")
                        as SharedDatabase.Availability
                } else {
                    _ = try SharedDatabase.open(at: long, schema: .unmanaged, as: "a") as SharedDatabase
                }
            }
            #expect(error?.resultCode == .SQLITE_CANTOPEN)
            #expect(
                error?.message?.contains("the path is too long: 505 bytes") == true
                    && error?.message?.contains("SQLite takes 504") == true,
                "\(String(describing: error))"
            )
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: deep) == [])
        try (SharedDatabase.open(at: database(504), schema: .unmanaged, as: "a") as SharedDatabase).close()
    }

    // MARK: Setting up

    /// A participant that finds a database during its migration by another participant takes its place in the queue, and does not leave the order to
    /// SQLite's lock (rule S2).
    @Test(arguments: [true, false]) func theSecondThatSetsUpQueues(isNew: Bool) async throws {
        if !isNew { try open { _ in }.close() }
        let (entered, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let runs = Shared(0)
        var slow = migrator()
        slow.registerMigration("slow") { db in
            runs.change { $0 += 1 }
            try db.create(table: "slow") { $0.autoIncrementedPrimaryKey("id") }
            entered.signal()
            release.wait()
        }
        let (url, schema) = (url, SharedSchema(slow))
        func opening(_ author: String) -> Task<Void, any Error> {
            Task {
                try await onThread {
                    Result { try (SharedDatabase.open(at: url, schema: schema, as: author) as SharedDatabase).close() }
                }.get()
            }
        }
        let first = opening("first")
        await onThread { entered.wait() }
        let second = opening("second")
        var queueing: (any Error)?
        do {
            try await eventually("the second one waits for the turn", within: .seconds(20)) {
                let block = try ControlBlock.open(forDatabaseAt: url.path, writable: false)
                return block.participants().contains { $0.author == "second" && $0.waiting != nil && !$0.hasTurn }
            }
        } catch {
            queueing = error
        }
        // There are two of them, so that a wrong second run does not wait either.
        release.signal()
        release.signal()
        try await first.value
        try await second.value
        if let queueing { throw queueing }
        #expect(runs.value == 1)
    }

    /// A stranger that has the same migrations, and takes no turn, is first with one of them, after this process has looked: opening looks again, and
    /// continues with the missing migrations (rule S4).
    @Test func aStrangerWinsTheRaceToMigrate() throws {
        let stranger = try DatabaseQueue(path: url.path)
        let wins = Shared(0)
        // Our migrator has looked, and is to apply v2 next.
        let race = Race { [migrator = migrator(upTo: 2)] db in
            guard wins.value == 0, try migrator.appliedIdentifiers(db) == ["v1"] else { return }
            wins.change { $0 = 1 }
            try migrator.migrate(stranger)
        }
        var options = SharedDatabase.Options()
        options.configuration.prepareDatabase { db in db.add(transactionObserver: race) }
        var ours = migrator(upTo: 2)
        ours.registerMigration("v3") { try $0.create(table: "ours") { $0.autoIncrementedPrimaryKey("id") } }
        let db: SharedDatabase = try SharedDatabase.open(
            at: url,
            schema: SharedSchema(ours),
            as: "app",
            options: options
        )
        #expect(wins.value == 1)
        let applied = try db.read(ours.appliedIdentifiers)
        #expect(applied == ["v1", "v2", "v3"])
        try db.close()
    }

    /// The error of a migration names it: SQLite's message has the statement, but a program may have many migrations and databases.
    @Test func aMigrationFails() throws {
        var broken = migrator()
        broken.registerMigration("Füllen") { try $0.execute(sql: "UPDATE player SET nmae = 'Arthur'") }
        var orphans = migrator()
        orphans.registerMigration("orphans") { db in
            try db.execute(
                sql: "CREATE TABLE score(playerId INTEGER REFERENCES player(id)); INSERT INTO score VALUES (7)"
            )
        }
        var own = migrator()
        own.registerMigration("own") { _ in throw CocoaError(.fileNoSuchFile) }
        let prefix = "\(url.path): the migration"
        #expect { try SharedDatabase.open(at: url, schema: SharedSchema(broken), as: "app") } throws: { error in
            let error = error as? DatabaseError
            return error?.message == "\(prefix) 'Füllen' failed and was rolled back: no such column: nmae"
                && error?.sql == "UPDATE player SET nmae = 'Arthur'" && error?.resultCode == .SQLITE_ERROR
        }
        #expect { try SharedDatabase.open(at: url, schema: SharedSchema(orphans), as: "app") } throws: { error in
            let error = error as? DatabaseError
            return error?.message?.hasPrefix("\(prefix) 'orphans' failed and was rolled back: FOREIGN KEY constraint")
                == true
                && error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY
        }
        #expect(throws: CocoaError.self) { try SharedDatabase.open(at: url, schema: SharedSchema(own), as: "app") }
        // What came before the migration stays.
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app").insert("Arthur")
    }
}

/// Does something when a transaction has been committed on its connection.
private final class Race: TransactionObserver, Sendable {
    private let didCommit: @Sendable (Database) throws -> Void
    init(_ didCommit: @escaping @Sendable (Database) throws -> Void) { self.didCommit = didCommit }
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) { #expect(throws: Never.self) { try didCommit(db) } }
    func databaseDidRollback(_ db: Database) {}
}
