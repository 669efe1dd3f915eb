import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Files that are replaced, removed or moved away while they are open (rules W12).
@Suite struct LostFileTests {
    /// What happens to the files, as another program does it.
    enum Damage: String, CaseIterable {
        case replaced, removed, recreated, moved, setMoved, folderMoved, walRemoved, walReplaced, walIndexRemoved,
            linked

        /// - parameter path: of the database.
        func make(_ path: String) throws {
            let files = FileManager.default
            func copy(_ suffix: String) throws {
                try files.copyItem(atPath: path + suffix, toPath: path + ".copy" + suffix)
                try #require(rename(path + ".copy" + suffix, path + suffix) == 0)
            }
            switch self {
            case .replaced: try copy("")
            case .removed: try files.removeItem(atPath: path)
            case .recreated:
                for suffix in ["", "-wal", "-shm"] { try files.removeItem(atPath: path + suffix) }
                _ = try DatabaseQueue(path: path)
            case .moved: try files.moveItem(atPath: path, toPath: path + ".away")
            case .setMoved:
                for suffix in ["", "-wal", "-shm"] {
                    try files.moveItem(atPath: path + suffix, toPath: path + ".away" + suffix)
                }
            case .folderMoved:
                let folder = (path as NSString).deletingLastPathComponent
                try files.moveItem(atPath: folder, toPath: folder + "-away")
            case .walRemoved: try files.removeItem(atPath: path + "-wal")
            case .walReplaced: try copy("-wal")
            case .walIndexRemoved: try files.removeItem(atPath: path + "-shm")
            case .linked:
                // The companions of the file at the end of a link have other names.
                try files.moveItem(atPath: path, toPath: path + ".away")
                try files.createSymbolicLink(atPath: path, withDestinationPath: path + ".away")
            }
        }

        var file: LostFile.File {
            switch self {
            case .walRemoved, .walReplaced: .wal
            case .walIndexRemoved: .walIndex
            default: .database
            }
        }

        var finding: LostFile.Finding {
            switch self {
            case .replaced, .recreated, .walReplaced, .linked: .replaced
            default: .missing
            }
        }
    }

    /// The folder lies in another folder, so that it can be moved.
    struct World {
        let folder: TemporaryFolder
        let url: URL

        init() throws {
            folder = try TemporaryFolder()
            let inner = folder.file("inner")
            try FileManager.default.createDirectory(at: inner, withIntermediateDirectories: true)
            url = inner.appendingPathComponent("db.sqlite")
        }

        func open(
            as author: String = "app",
            _ change: (inout SharedDatabase.Options) -> Void = { _ in }
        ) throws -> SharedDatabase {
            var options = SharedDatabase.Options()
            change(&options)
            return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
        }
    }

    /// Waits until the last look is not valid any more, also by the coarse clock of reads.
    private static func afterTheLook() { MonotonicClock.sleep(2 * DatabaseFiles.validity) }

    private func expectLost(_ damage: Damage, _ error: (any Error)?, _ where: Comment) {
        guard case .fileLost(_, let file)? = error as? SharedDatabaseError else {
            Issue.record("\(`where`): \(damage): \(error.map { "\($0)" } ?? "no error")")
            return
        }
        #expect(file.file == damage.file && file.finding == damage.finding, "\(`where`): \(file)")
    }

    /// After a pause, no write is acknowledged, and no read either.
    @Test(arguments: Damage.allCases) func accessesFail(damage: Damage) async throws {
        let world = try World()
        let db = try world.open()
        try await db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('before')") }
        _ = try await db.read { try Player.fetchCount($0) }
        let reader = try await SharedDatabase.openReadOnly(
            at: world.url,
            schema: SharedSchema(migrator()),
            as: "reader"
        )
        try damage.make(world.url.path)
        Self.afterTheLook()
        let insert = "INSERT INTO player (name) VALUES ('after')"
        expectLost(
            damage,
            await #expect(throws: (any Error).self) { try await db.write { try $0.execute(sql: insert) } },
            "write"
        )
        expectLost(
            damage,
            #expect(throws: (any Error).self) { try db.write { try $0.execute(sql: insert) } },
            "blocking write"
        )
        expectLost(
            damage,
            #expect(throws: (any Error).self) { try db.writeWithoutTransaction { try $0.execute(sql: insert) } },
            "write without a transaction"
        )
        expectLost(damage, #expect(throws: (any Error).self) { try db.read { try Player.fetchCount($0) } }, "read")
        expectLost(
            damage,
            await #expect(throws: (any Error).self) { try await db.read { try Player.fetchCount($0) } },
            "async read"
        )
        expectLost(
            damage,
            #expect(throws: (any Error).self) { try db.unsafeRead { try Player.fetchCount($0) } },
            "unsafe read"
        )
        guard case .available(let readOnly) = reader else { throw DatabaseError(message: "not available") }
        expectLost(
            damage,
            #expect(throws: (any Error).self) { try readOnly.read { try Player.fetchCount($0) } },
            "read-only read"
        )
        expectLost(damage, #expect(throws: (any Error).self) { try db.checkpoint() }, "checkpoint")
        try db.close()
        try readOnly.close()
    }

    /// Nothing is rolled back behind a commit that was acknowledged: a commit that finds the file lost is not made.
    @Test func theCommitIsRefused() throws {
        let world = try World()
        let db = try world.open()
        let error = #expect(throws: (any Error).self) {
            try db.write { database in
                try database.execute(sql: "INSERT INTO player (name) VALUES ('inside')")
                try Damage.moved.make(world.url.path)
                Self.afterTheLook()
            }
        }
        expectLost(.moved, error, "commit")
        try db.close()
        try FileManager.default.moveItem(atPath: world.url.path + ".away", toPath: world.url.path)
        let rows = try DatabaseQueue(path: world.url.path).read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM player")
        }
        #expect(rows == 0)
    }

    /// Damages the files when a row was committed, as if the commit had taken that long.
    private final class DamageAtCommit: TransactionObserver {
        let path: String
        let isDue: (_ rows: Int) -> Bool
        var rows = 0
        init(_ path: String, if isDue: @escaping (Int) -> Bool) { (self.path, self.isDue) = (path, isDue) }
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) { rows += 1 }
        func databaseDidCommit(_ db: Database) {
            defer { rows = 0 }
            guard isDue(rows) else { return }
            try? Damage.moved.make(path)
            LostFileTests.afterTheLook()
        }
        func databaseDidRollback(_ db: Database) { rows = 0 }
    }

    /// A commit that takes so long that the file is lost meanwhile is acknowledged to none of the writes that share it. The first of many writes may
    /// have a transaction of its own.
    @Test(arguments: [1, 8]) func lostDuringTheCommit(count: Int) async throws {
        let world = try World()
        // On a busy machine, one write may take a slice of 2 ms, which ends the group.
        let db = try world.open { $0.slice = .seconds(1) }
        let damage = DamageAtCommit(world.url.path) { count == 1 ? $0 == 1 : $0 > 1 }
        db.add(transactionObserver: damage, extent: .databaseLifetime)
        let tasks = try await db.whileWriting {
            let tasks = (0..<count).map { number in
                Task {
                    try await db.write {
                        try $0.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: ["\(number)"])
                    }
                }
            }
            try await eventually("all wait") { db.sharedCommits.requestCount >= UInt64(count) }
            return tasks
        }
        var acknowledged = 0
        for task in tasks {
            do {
                try await task.value
                acknowledged += 1
            } catch {
                expectLost(.moved, error, "write")
            }
        }
        #expect(acknowledged <= (count == 1 ? 0 : 1))
        try db.close()
    }

    /// SQLite calls no hook for the commit of a replacement.
    @Test func lostDuringAReplacement() async throws {
        let world = try World()
        let db = try world.open()
        let source = world.folder.file("source.sqlite")
        try migrator().migrate(try DatabaseQueue(path: source.path))
        let error = await #expect(throws: (any Error).self) {
            try await db.replaceContent(with: source) { progress in
                guard progress.phase == .replacing else { return }
                try? Damage.moved.make(world.url.path)
                Self.afterTheLook()
            }
        }
        expectLost(.moved, error, "replacement")
        try db.close()
    }

    /// Statements that are transactions of their own are refused, too.
    @Test func aStatementIsRefused() throws {
        let world = try World()
        let db = try world.open()
        let error = #expect(throws: (any Error).self) {
            try db.writeWithoutTransaction { database in
                try Damage.replaced.make(world.url.path)
                Self.afterTheLook()
                try database.execute(sql: "INSERT INTO player (name) VALUES ('inside')")
            }
        }
        expectLost(.replaced, error, "statement")
        try db.close()
    }

    /// A writer without pause notices within the bound: what is acknowledged later than 10 ms after the file was lost is an error.
    @Test(arguments: [Damage.replaced, .walRemoved, .walIndexRemoved, .setMoved]) func theBound(damage: Damage)
        async throws
    {
        let world = try World()
        let db = try world.open()
        let last = Shared<(acknowledged: Nanoseconds, began: Nanoseconds)>((0, 0))
        let ended = Shared<(any Error)?>(nil)
        let thread = Thread {
            while true {
                do {
                    let began = MonotonicClock.now
                    try db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('x')") }
                    last.change { $0 = (MonotonicClock.now, began) }
                } catch {
                    return ended.change { $0 = error }
                }
            }
        }
        thread.start()
        last.wait { $0.acknowledged > 0 }
        try damage.make(world.url.path)
        let lost = MonotonicClock.now
        ended.wait { $0 != nil }
        expectLost(damage, ended.value, "write")
        // The call returns a little later than the check that precedes it: the bound is of the check.
        let late = last.value.began.subtractingSaturating(lost)
        #expect(late < DatabaseFiles.validity, "a write that began \(late) ns after the loss was acknowledged")
        try db.close()
    }

    /// Without an access, observers are notified within a second, and everything that waits for changes ends with the error.
    @Test(arguments: [Damage.replaced, .setMoved, .folderMoved, .walRemoved])
    func observersAreNotified(damage: Damage) async throws {
        let world = try World()
        let events = Shared<[LostFile]>([])
        let db = try world.open { options in
            options.probe { (event: CoordinationEvent) in
                if case .fileLost(_, let file) = event { events.change { $0.append(file) } }
            }
        }
        let value = Shared<[Int]>([])
        let failures = Shared<[any Error]>([])
        let observation = ValueObservation.tracking { try Player.fetchCount($0) }
            .start(in: db, scheduling: .async(onQueue: DispatchQueue(label: "values"))) { error in
                failures.change { $0.append(error) }
            } onChange: { count in
                value.change { $0.append(count) }
            }
        let region = DatabaseRegionObservation(tracking: .fullDatabase)
            .start(in: db) { error in
                failures.change { $0.append(error) }
            } onChange: { _ in
            }
        value.wait { !$0.isEmpty }
        let changes = db.changes()
        let consumer = Task { for try await _ in changes {} }
        let began = ContinuousClock.now
        try damage.make(world.url.path)
        #expect(events.wait { $0.count == 1 })
        #expect(ContinuousClock.now - began < .seconds(5))
        #expect(events.value.first?.file == damage.file)
        #expect(failures.wait { $0.count == 2 })
        for failure in failures.value { expectLost(damage, failure, "observation") }
        await #expect(throws: SharedDatabaseError.self) { try await consumer.value }
        // What begins now ends at once.
        await #expect(throws: SharedDatabaseError.self) { for try await _ in db.changes() {} }
        await #expect(throws: SharedDatabaseError.self) {
            for try await _ in ValueObservation.tracking({ try Player.fetchCount($0) }).values(in: db) {}
        }
        #expect(events.value.count == 1)
        withExtendedLifetime((observation, region)) {}
        try db.close()
    }

    /// Closing leaves the companions of the other file alone.
    @Test func closingTouchesNothing() throws {
        let world = try World()
        let db = try world.open()
        try db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('lost')") }
        for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: world.url.path + suffix) }
        let other = try world.open(as: "other")
        try other.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('kept')") }
        func identities() throws -> [FileIdentity?] {
            try ["", "-wal", "-shm"].map { try System.identity(ofFileAt: world.url.path + $0) }
        }
        let before = try identities()
        let size = try System.status(ofFileAt: world.url.path + "-wal")?.st_size
        try db.close()
        #expect(try identities() == before)
        #expect(try System.status(ofFileAt: world.url.path + "-wal")?.st_size == size)
        #expect(try other.read { try String.fetchAll($0, sql: "SELECT name FROM player") } == ["kept"])
        try other.close()
    }

    /// A participant that is opened again uses what is there.
    @Test func openingAgain() throws {
        let world = try World()
        let db = try world.open()
        try Damage.removed.make(world.url.path)
        Self.afterTheLook()
        #expect(throws: SharedDatabaseError.self) { try db.read { _ in } }
        try db.close()
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: world.url.path + suffix) }
        let next = try world.open()
        #expect(try next.read { try Player.fetchCount($0) } == 0)
        try next.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('x')") }
        try next.close()
    }

    /// While a participant has no connection open, its companions may come and go, and its database may not.
    @Test(arguments: [true, false]) func whileParked(isReplaced: Bool) throws {
        let world = try World()
        let db = try world.open { options in
            options.process = .early()
            options.suspensionPolicy = .everything
        }
        try db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('before')") }
        try db.checkpoint(.truncate)
        #expect(db.suspend(deadline: .now + .seconds(30)).outcome == .released)
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: world.url.path + suffix) }
        if isReplaced { try Damage.replaced.make(world.url.path) }
        db.resume()
        if isReplaced {
            expectLost(
                .replaced,
                #expect(throws: (any Error).self) { try db.read { try Player.fetchCount($0) } },
                "read"
            )
            expectLost(
                .replaced,
                #expect(throws: (any Error).self) { try db.write { try $0.execute(sql: "DELETE FROM player") } },
                "write"
            )
        } else {
            #expect(try db.read { try Player.fetchCount($0) } == 1)
            try db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('after')") }
            Self.afterTheLook()
            #expect(try db.read { try Player.fetchCount($0) } == 2)
            // The files are known again.
            try Damage.walRemoved.make(world.url.path)
            Self.afterTheLook()
            expectLost(
                .walRemoved,
                #expect(throws: (any Error).self) { try db.read { try Player.fetchCount($0) } },
                "read"
            )
        }
        try db.close()
    }

    /// A suspension that is taken back before the writer's connection could be closed leaves the files known.
    @Test(.timeLimit(.minutes(1))) func aSuspensionThatIsTakenBack() async throws {
        let world = try World()
        let process = ProcessSuspension()
        let db = try world.open {
            $0.process = process
            $0.suspensionPolicy = .everything
        }
        let (began, mayEnd) = (Shared(false), DispatchSemaphore(value: 0))
        let write = inThread {
            try db.write { db in
                try db.execute(sql: "CREATE TABLE other (a)")
                began.change { $0 = true }
                mayEnd.wait()
            }
        }
        try await eventually("it writes") { began.value }
        let suspended = Task { await db.suspend(deadline: .now + .seconds(30)) }
        try await eventually("the gate is closed") { db.gate.isClosed }
        db.resume()
        mayEnd.signal()
        _ = await suspended.value
        _ = await write.result
        Self.afterTheLook()
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: world.url.path + suffix) }
        await #expect {
            try await db.write { try $0.execute(sql: "CREATE TABLE another (a)") }
        } throws: { error in
            isLoss(error, of: db, .wal)
        }
    }

    /// A connection that a statement keeps open writes to the files that it has, so their loss is still reported.
    @Test func aConnectionThatCannotBeClosed() throws {
        let world = try World()
        let db = try world.open()
        var statement: Statement? = try db.write { try $0.makeStatement(sql: "DELETE FROM player WHERE id = -1") }
        let held = db.park(until: MonotonicClock.now + 300_000_000)
        #expect(held == [HeldConnection(use: .writing)])
        db.unpark()
        try Damage.walRemoved.make(world.url.path)
        Self.afterTheLook()
        let insert = "INSERT INTO player (name) VALUES ('after')"
        expectLost(
            .walRemoved,
            #expect(throws: (any Error).self) { try db.write { try $0.execute(sql: insert) } },
            "write"
        )
        statement = nil
        #expect(statement == nil)
        try db.close()
    }

    /// The connection of a detached handle does not count any more: while this participant is parked, its companions may
    /// come and go.
    @Test func whileParkedAfterAHandle() throws {
        let world = try World()
        let db = try world.open { options in
            options.process = .early()
            options.suspensionPolicy = .everything
        }
        var raw: RawSQLite? = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: #require(raw).pointer, of: db)
        try handle.turn { try #require(raw).insert("before") }
        try handle.detach()
        try db.checkpoint(.truncate)
        #expect(db.suspend(deadline: .now + .seconds(30)).outcome == .released)
        // It closes last, so that no other connection gets its address.
        raw = nil
        #expect(raw == nil)
        for suffix in ["-wal", "-shm"] {
            try FileManager.default.moveItem(atPath: db.path + suffix, toPath: db.path + ".former" + suffix)
        }
        db.resume()
        #expect(try db.names() == ["before"])
        try db.insert("after")
        #expect(try db.names() == ["before", "after"])
        withExtendedLifetime(handle) {}
        try db.close()
    }

    /// Other participants see in the slot which files a participant has open.
    @Test func theSlotShowsTheFiles() throws {
        let world = try World()
        let db = try world.open()
        try db.write { _ in }
        let path = world.url.path
        func stamps() throws -> [FileStamps?] {
            try ControlBlock.open(forDatabaseAt: path, writable: false).participants().map(\.files)
        }
        #expect(try stamps() == [FileStamps(ofDatabaseAt: path)])
        #expect(try stamps().first??.differs(from: FileStamps(ofDatabaseAt: path)) == false)
        try Damage.walReplaced.make(path)
        #expect(try stamps().first??.differs(from: FileStamps(ofDatabaseAt: path)) == true)
        try db.close()
    }
}
