import Foundation
import GRDB
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate
@testable import RoundtableKernel

/// Counts the current uses of something, and their maximum.
private final class Gauge: Sendable {
    private let state = Mutex((now: 0, most: 0))
    var now: Int { state.withLock { $0.now } }
    var most: Int { state.withLock { $0.most } }
    func change(by difference: Int) {
        state.withLock { state in
            state.now += difference
            state.most = max(state.most, state.now)
        }
    }
}

@Suite struct SharedDatabaseTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String = "test",
        version: Int = 1,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(
            at: url,
            schema: SharedSchema(migrator(upTo: version)),
            as: author,
            options: options
        )
    }

    private func openReadOnly(version: Int = 1) throws -> SharedDatabase.Availability {
        try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator(upTo: version)), as: "reader")
    }

    // MARK: Opening

    /// **Rule S7** and the answers of the other rules hold, in the life of a database.
    @Test func availability() async throws {
        guard case .unavailable(.notCreated) = try openReadOnly() else { return #expect(Bool(false), "no file") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)

        try Data().write(to: url)
        guard case .unavailable(.notCreated) = try openReadOnly() else { return #expect(Bool(false), "empty file") }

        let db = try open()
        guard case .available(let reader) = try openReadOnly() else { return #expect(Bool(false), "created") }
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        #expect(try await reader.read { try Player.fetchCount($0) } == 1)
        #expect(reader.role == .readOnly && reader.uncoordinatedReason == nil)

        guard case .unavailable(.schemaTooOld(missingMigrations: ["v2"])) = try openReadOnly(version: 2) else {
            return #expect(Bool(false), "v2 is not applied yet")
        }
        _ = try open(version: 2)
        guard case .unavailable(.schemaTooNew(unknownMigrations: ["v2"])) = try openReadOnly() else {
            return #expect(Bool(false), "v2 is unknown")
        }
        #expect(throws: SharedDatabaseError.schemaTooNew(path: db.path, unknownMigrations: ["v2"])) { try open() }
    }

    /// A configuration that is read-only does not make `open` read-only, so `open` refuses it, before it creates or migrates anything.
    @Test func openRefusesAReadOnlyConfiguration() throws {
        var options = SharedDatabase.Options()
        options.configuration.readonly = true
        let path = url.resolvingSymlinksInPath().path
        let error = #expect(throws: SharedDatabaseError.readOnlyConfiguration(path: path)) {
            try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "test", options: options)
        }
        #expect(error?.description.contains("Call openReadOnly()") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)

        _ = try open()
        #expect(throws: SharedDatabaseError.readOnlyConfiguration(path: path)) {
            try SharedDatabase.open(at: url, schema: SharedSchema(migrator(upTo: 2)), as: "test", options: options)
        }
        guard
            case .available(let reader) = try SharedDatabase.openReadOnly(
                at: url,
                schema: SharedSchema(migrator()),
                as: "reader",
                options: options
            )
        else { return #expect(Bool(false), "the migration 'v2' was applied") }
        #expect(reader.configuration.readonly)
    }

    /// **Rule 7 of the design**: a read-only participant writes nothing, by any function.
    @Test func readOnlyStaysReadOnly() throws {
        _ = try open()
        guard case .available(let reader) = try openReadOnly() else { return #expect(Bool(false)) }
        let insert = "INSERT INTO player (name) VALUES ('A')"
        #expect(throws: DatabaseError.self) { try reader.write { try $0.execute(sql: insert) } }
        #expect(throws: DatabaseError.self) { try reader.writeWithoutTransaction { try $0.execute(sql: insert) } }
        #expect(throws: DatabaseError.self) { try reader.unsafeReentrantWrite { try $0.execute(sql: insert) } }
        #expect(throws: DatabaseError.self) {
            try reader.barrierWriteWithoutTransaction { try $0.execute(sql: insert) }
        }
        #expect(throws: DatabaseError.self) { try reader.read { try $0.execute(sql: insert) } }
        #expect(try reader.read(Player.fetchCount) == 0)
    }

    @Test func aWaitingReaderFailsAtItsDeadline() async throws {
        let began = ContinuousClock.now
        let answer = try await SharedDatabase.openReadOnly(
            at: url,
            schema: SharedSchema(migrator()),
            as: "reader",
            waitingUpTo: .milliseconds(30)
        )
        guard case .unavailable(.notCreated) = answer else { return #expect(Bool(false)) }
        #expect(ContinuousClock.now - began >= .milliseconds(30))
    }

    /// Symbolic links lead to one control block, so that all participants share it.
    @Test func linksLeadToOneTable() throws {
        let db = try open("direct")
        let link = folder.file("link.sqlite")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: url)
        let other = try SharedDatabase.open(at: link, schema: SharedSchema(migrator()), as: "linked")
        #expect(other.path == db.path)
        #expect(!FileManager.default.fileExists(atPath: ControlBlock.path(forDatabaseAt: link.path)))
    }

    // MARK: Two in one process

    @Test func twoParticipantsInOneProcess() throws {
        let (a, b) = (try open("a"), try open("b"))
        for _ in 0..<50 {
            for db in [a, b] { try db.write { db in _ = try Player(name: "A").inserted(db) } }
        }
        #expect(try a.read(Player.fetchCount) == 100)
        try a.close()
        try b.write { db in _ = try Player(name: "B").inserted(db) }
        #expect(try b.read(Player.fetchCount) == 101)
    }

    /// A schema that another participant changed is seen by readers and by the writer, whose caches GRDB does not clear.
    @Test func schemaChangesOfOtherParticipantsAreSeen() throws {
        let a = try open("a") { $0.newerSchemaPolicy = .continue }
        func columns(_ db: Database) throws -> [String] { try db.columns(in: "player").map(\.name) }
        #expect(try a.read(columns) == ["id", "name", "score"])
        #expect(try a.write(columns) == ["id", "name", "score"])
        // This participant has looked, but not written.
        let c = try open("c") { $0.newerSchemaPolicy = .continue }
        #expect(try c.writeWithoutTransaction(columns) == ["id", "name", "score"])
        let d = try open("d") { $0.newerSchemaPolicy = .continue }
        _ = try open("b", version: 2)
        #expect(try c.writeWithoutTransaction(columns).last == "team")
        #expect(try d.write(columns).last == "team")
        #expect(try a.read(columns).last == "team")
        #expect(try a.unsafeRead(columns).last == "team")
        #expect(try a.write(columns).last == "team")
    }

    // MARK: Accesses

    /// Three reads run until all other accesses wait. All others that run beside them exceed the limit.
    @Test func readersAreLimitedAndBarriersExclusive() async throws {
        let db = try open { $0.maximumReaderCount = 3 }
        let running = Gauge()
        let mayEnd = Shared(false)
        let read: @Sendable () async throws -> Void = {
            try await db.read { _ in
                running.change(by: 1)
                mayEnd.wait { $0 }
                running.change(by: -1)
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { mayEnd.change { $0 = true } }
            for _ in 0..<3 { group.addTask(operation: read) }
            try await eventually("three reads run") { running.now == 3 }
            for _ in 0..<17 {
                group.addTask(operation: read)
                group.addTask {
                    try await db.barrierWriteWithoutTransaction { _ in
                        #expect(running.now == 0)
                    }
                }
            }
            try await eventually("17 reads and 17 barriers wait") { db.readers.counts.waiting == 34 }
            #expect(running.now == 3)
            mayEnd.change { $0 = true }
            try await group.waitForAll()
        }
        #expect(running.most == 3)
    }

    @Test func aFailingReadLeavesItsConnectionUsable() throws {
        let db = try open { $0.maximumReaderCount = 1 }
        for _ in 0..<3 {
            #expect(throws: DatabaseError.self) { try db.read { try $0.execute(sql: "SELECT * FROM nothing") } }
            #expect(try db.read(Player.fetchCount) == 0)
        }
    }

    /// After SQLite has rolled a transaction back by itself, nothing of the closure is committed, even if it continues; and the connection is usable
    /// afterwards. (GRDB's `inTransaction` throws the same error.)
    @Test func anAbortedTransactionCommitsNothing() throws {
        let db = try open()
        func addTwo(_ db: Database) throws {
            try db.execute(sql: "INSERT INTO player (id, name) VALUES (1, 'A')")
            #expect(throws: DatabaseError.self) {
                try db.execute(sql: "INSERT OR ROLLBACK INTO player (id, name) VALUES (1, 'B')")
            }
            #expect(!db.isInsideTransaction)
            try db.execute(sql: "INSERT INTO player (id, name) VALUES (2, 'C')")
        }
        for _ in 0..<2 {
            do {
                try db.write(addTwo)
                Issue.record("an aborted transaction is reported as committed")
            } catch let error as DatabaseError {
                #expect(error.resultCode == .SQLITE_ABORT)
            }
            #expect(try db.read(Player.fetchCount) == 0)
        }
        // Nothing is committed even if the closure catches that error as well.
        #expect(throws: DatabaseError.self) { try db.write { db in try? addTwo(db) } }
        #expect(try db.read(Player.fetchCount) == 0)
        try db.write { db in _ = try Player(name: "A").inserted(db) }
        #expect(try db.read(Player.fetchCount) == 1)
    }

    /// Observers that take long after a commit do not prevent other participants from getting their turn.
    @Test func observersDoNotHoldTheTurn() throws {
        let (a, b) = (try open("a"), try open("b") { $0.busyTimeout = .seconds(20) })
        let block = try ControlBlock.open(forDatabaseAt: a.path, writable: false)
        @Sendable func isHeld() -> Bool { Turn(rawValue: block.turn.pointee.load(ordering: .acquiring)).phase == .busy }
        try a.write { db in
            #expect(isHeld())
            _ = try Player(name: "A").inserted(db)
            db.afterNextTransaction { _ in
                // The other participant would still get its turn, when its patience ends.
                #expect(!isHeld())
                #expect(throws: Never.self) { try b.write { db in _ = try Player(name: "B").inserted(db) } }
            }
        }
        #expect(try a.read(Player.fetchCount) == 2)
    }

    /// Observers that are notified of a commit may write.
    @Test func observersMayWriteAfterACommit() throws {
        let db = try open()
        try db.write { db in
            _ = try Player(name: "A").inserted(db)
            db.afterNextTransaction { db in
                #expect(throws: Never.self) { try db.execute(sql: "INSERT INTO player (name) VALUES ('B')") }
            }
        }
        #expect(try db.read(Player.fetchCount) == 2)
    }

    @Test func closedIsClosed() async throws {
        let db = try open()
        try db.close()
        try db.close()
        #expect(throws: DatabaseError.self) { try db.read(Player.fetchCount) }
        #expect(throws: DatabaseError.self) { try db.write { try $0.execute(sql: "DELETE FROM player") } }
        #expect(throws: DatabaseError.self) {
            try db.writeWithoutTransaction { try $0.execute(sql: "DELETE FROM player") }
        }
        await #expect(throws: DatabaseError.self) { try await db.read { try Player.fetchCount($0) } }
        await #expect(throws: DatabaseError.self) {
            try await db.barrierWriteWithoutTransaction { try $0.execute(sql: "DELETE FROM player") }
        }
        let block = try ControlBlock.open(forDatabaseAt: db.path, writable: true)
        #expect(block.participants().isEmpty)
    }

    /// The database stays open, and usable, when a statement has outlived its read or its write.
    @Test(arguments: [true, false]) func statementsThatOutliveTheirAccess(isRead: Bool) async throws {
        let db = try open()
        let count = Mutex(-1)
        let observation = ValueObservation.tracking(Player.fetchCount)
            .start(in: db, scheduling: .async(onQueue: DispatchQueue(label: "values"))) {
                Issue.record($0)
            } onChange: { new in
                count.withLock { $0 = new }
            }
        defer { observation.cancel() }
        let sql = "SELECT * FROM player"
        // One access sets this, for which this task waits, and it is not used before the access has ended.
        nonisolated(unsafe) var statement: Statement?
        if isRead {
            try await db.read { statement = try $0.makeStatement(sql: sql) }
        } else {
            try await db.write { statement = try $0.makeStatement(sql: sql) }
        }
        #expect(statement != nil)
        let close: () throws -> Void = db.close
        #expect { try close() } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_BUSY }
        try await db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
        #expect(try await db.read { try Player.fetchCount($0) } == 1)
        try await eventually("the observation continues") { count.withLock { $0 } == 1 }
        statement = nil
        try db.close()
        #expect(try ControlBlock.open(forDatabaseAt: db.path, writable: true).participants().isEmpty)
    }

    /// **Rule W3**: an open transaction keeps the turn, whatever closure left it.
    @Test func anOpenTransactionKeepsTheTurn() throws {
        let db = try open { $0.configuration.allowsUnsafeTransactions = true }
        let other = try open("other") { $0.busyTimeout = .milliseconds(300) }
        try db.writeWithoutTransaction { try $0.beginTransaction() }
        #expect(throws: DatabaseError.self) { try other.write { try $0.execute(sql: "DELETE FROM player") } }
        try db.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('A')")
            try db.commit()
        }
        try other.write { try $0.execute(sql: "DELETE FROM player") }
    }

    // MARK: Misuse

    /// In any order of accesses and `close`, there is no crash, no false `SQLITE_BUSY`, and nothing hangs.
    @Test(.timeLimit(.minutes(1))) func closingWhileOtherThreadsWrite() throws {
        for round in 0..<40 {
            let db = try open("round \(round)")
            // Makes the WAL long enough for a checkpoint, which must not be asked of a closed connection.
            if round == 0 {
                try db.write { db in
                    try db.execute(
                        sql: """
                            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                            INSERT INTO player (name) SELECT hex(randomblob(2000)) FROM n
                            """
                    )
                }
            }
            let threads = DispatchGroup()
            for number in 0..<4 {
                threads.enter()
                Thread.detachNewThread {
                    defer { threads.leave() }
                    do {
                        while true {
                            switch number {
                            case 0: try db.write { try $0.execute(sql: "DELETE FROM player WHERE id = 1") }
                            case 1:
                                try db.writeWithoutTransaction {
                                    try $0.execute(sql: "DELETE FROM player WHERE id = 1")
                                }
                            // This read is inside of a write, while the other thread waits for both.
                            case 2: try db.write { _ in _ = try db.read(Player.fetchCount) }
                            default: _ = try db.read(Player.fetchCount)
                            }
                        }
                    } catch {
                        #expect((error as? DatabaseError)?.resultCode == .SQLITE_MISUSE, "\(error)")
                    }
                }
            }
            // Two threads close at once: the second one gets no error.
            threads.enter()
            Thread.detachNewThread {
                #expect(throws: Never.self) { try db.close() }
                threads.leave()
            }
            #expect(throws: Never.self) { try db.close() }
            threads.wait()
        }
    }

    /// Times without end are cut to the largest possible value, wherever they are added up.
    @Test func hugeOptions() throws {
        func openHuge() throws -> SharedDatabase {
            try open("huge") { options in
                options.busyTimeout = .seconds(Int64.max)
                options.setupTimeout = .seconds(Int64.max)
                options.patience = .seconds(Int64.max)
                options.slice = .seconds(Int64.max)
                options.maximumReaderCount = 0
            }
        }
        let (a, b) = (try openHuge(), try openHuge())
        for db in [a, b, a] {
            try db.write { db in _ = try Player(name: "A").inserted(db) }
            #expect(try db.read(Player.fetchCount) > 0)
            try db.writeWithoutTransaction { try $0.execute(sql: "SELECT 1") }
        }
    }

    /// **Rule W5**: a file with two names has two WALs.
    @Test func hardLinksAreRefused() throws {
        try open().close()
        try FileManager.default.linkItem(at: url, to: folder.file("other.sqlite"))
        #expect(throws: SharedDatabaseError.self) { try open() }
        #expect(throws: SharedDatabaseError.self) { try openReadOnly() }
    }

    /// A link to a file that is still to be created leads to that file's control block.
    @Test func aLinkToNothing() throws {
        let link = folder.file("link.sqlite")
        try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "players.sqlite")
        let linked = try SharedDatabase.open(at: link, schema: SharedSchema(migrator()), as: "linked")
        #expect(try open().path == linked.path)
        #expect(!FileManager.default.fileExists(atPath: ControlBlock.path(forDatabaseAt: link.path)))
    }

    /// No file is left beside the link.
    @Test func linksInACircle() throws {
        try FileManager.default.createSymbolicLink(atPath: url.path, withDestinationPath: url.lastPathComponent)
        #expect(throws: SharedDatabaseError.self) { try open() }
        #expect(throws: SharedDatabaseError.self) { try openReadOnly() }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [url.lastPathComponent])
    }

    /// A missing folder is a database that is not there yet; for a writer it is an error.
    @Test func aMissingFolder() throws {
        let url = folder.file("nowhere/players.sqlite")
        let answer = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .unavailable(.notCreated) = answer else { return #expect(Bool(false)) }
        #expect(throws: SharedDatabaseError.self) {
            try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "writer")
        }
    }

    /// Looking from outside in the same process does not harm a connection that opens meanwhile.
    @Test func lookingWhileOpening() throws {
        try open().close()
        let isDone = Gauge()
        let looking = DispatchGroup()
        looking.enter()
        Thread.detachNewThread { [url] in
            while isDone.now == 0 { #expect(throws: Never.self) { try DatabaseStatus(ofDatabaseAt: url) } }
            looking.leave()
        }
        for _ in 0..<60 {
            let db = try open()
            #expect(throws: Never.self) { try db.write { db in _ = try Player(name: "A").inserted(db) } }
            try db.close()
        }
        isDone.change(by: 1)
        looking.wait()
    }

    /// **Rules K6, K11**: many short sessions do not let the WAL grow forever.
    @Test func theWALStaysShortOverSessions() throws {
        for _ in 0..<12 {
            let db = try open()
            for _ in 0..<400 { try db.write { db in _ = try Player(name: "A").inserted(db) } }
            try db.close()
        }
        let size = try #require(
            FileManager.default.attributesOfItem(atPath: url.path + "-wal")[.size] as? Int
        )
        // 12 × 400 commits of 2 or 3 pages are more than 40 MB.
        #expect(size < 20_000_000)
    }

    /// A database whose migrations a later version has merged is old, not new.
    @Test func mergedMigrations() throws {
        try open(version: 2).close()
        var merging = DatabaseMigrator()
        merging.registerMigration("v12", merging: ["v1", "v2"]) { db, applied in
            #expect(applied == ["v1", "v2"])
        }
        #expect(throws: SharedDatabaseError.self) {
            try SharedDatabase.open(at: url, schema: SharedSchema(merging), as: "forgetful")
        }
        let schema = SharedSchema(merging, merging: ["v1", "v2"])
        let db = try SharedDatabase.open(at: url, schema: schema, as: "merging")
        #expect(try db.read(merging.appliedIdentifiers) == ["v12"])
    }

    /// A transaction that has read cannot write after a commit of another participant, and waiting does not help: the error says what helps.
    @Test func aTransactionThatBeganWithAReadTooEarly() throws {
        let db = try open()
        let error = #expect(throws: DatabaseError.self) {
            try db.writeWithoutTransaction { connection in
                try connection.execute(sql: "BEGIN DEFERRED")
                defer { try? connection.execute(sql: "ROLLBACK") }
                _ = try Int.fetchOne(connection, sql: "SELECT count(*) FROM player")
                let stranger = try DatabaseQueue(path: url.path)
                try stranger.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
                try connection.execute(sql: "INSERT INTO player (name) VALUES ('B')")
            }
        }
        #expect(error?.extendedResultCode == .SQLITE_BUSY_SNAPSHOT)
        #expect(error?.message?.contains("repeat it, and begin transactions") == true, "\(error?.message ?? "")")
    }
}
