import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableUnitSupport
import Testing

/// An opening whose task is cancelled ends, whatever it waits for, and leaves no lock, no place in the control block and no unfinished file.
@Suite struct OpeningCancellationTests {
    private let folder: TemporaryFolder
    private let url: URL
    /// Whether the task of the opening was cancelled.
    private let isCancelled = Shared(false)

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db.sqlite")
    }

    /// What keeps the opening waiting.
    enum Obstacle: String, CaseIterable {
        /// Another participant has the turn, and creates the database.
        case turn
        /// A transaction of another program that excludes readers.
        case exclusive
        /// A transaction of another program that writes, while migrations are missing.
        case writer
        /// A reader of a database that is not in WAL mode yet.
        case reader
        /// A statement of a migration.
        case migration
        /// A migration that computes, and then begins a statement that only reads.
        case computation
        /// The process is suspended.
        case gate
        /// The commands that wait in the outbox.
        case outbox
    }

    private struct Endless: OutboxCommand {
        static let name = "endless"
        static let version = 1
    }

    private static let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    private func plain() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .immediateError
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: url.path, configuration: configuration)
    }

    private func createPlain() throws -> DatabaseQueue {
        let queue = try plain()
        try migrator().migrate(queue)
        return queue
    }

    /// - returns: what ends the obstacle.
    private func put(_ obstacle: Obstacle, _ options: inout SharedDatabase.Options, _ migrator: inout DatabaseMigrator)
        throws
        -> () throws -> Void
    {
        switch obstacle {
        case .turn:
            let seat = Seat(
                databasePath: System.resolvedPath(url.path),
                author: "creator",
                role: .readWrite,
                settings: TurnSettings(priority: 1, slice: 1_000_000, patience: 60_000_000_000),
                access: nil
            )
            let now = MonotonicClock.now
            let outcome = seat.takeTurn(
                at: now,
                until: now + 1_000_000_000,
                callSite: nil,
                settingUp: true,
                isWriteLockFree: { true }
            )
            #expect(outcome == .acquired)
            options.patience = .seconds(60)
            return {
                seat.releaseTurn(settingUp: true)
                seat.leave()
            }
        case .exclusive:
            let queue = try createPlain()
            try queue.inDatabase { try $0.execute(sql: "BEGIN EXCLUSIVE") }
            return { try queue.inDatabase { try $0.execute(sql: "COMMIT") } }
        case .writer:
            let queue = try createPlain()
            try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = WAL; BEGIN IMMEDIATE") }
            migrator = RoundtableUnitSupport.migrator(upTo: 2)
            return { try queue.inDatabase { try $0.execute(sql: "COMMIT") } }
        case .reader:
            let queue = try createPlain()
            try queue.inDatabase { db in
                try db.execute(sql: "BEGIN")
                _ = try Row.fetchAll(db, sql: "SELECT * FROM player")
            }
            return { try queue.inDatabase { try $0.execute(sql: "COMMIT") } }
        case .migration:
            migrator.registerMigration("endless") { db in _ = try Int.fetchOne(db, sql: Self.endless) }
            return {}
        case .computation:
            migrator.registerMigration("endless") { [isCancelled] db in
                try db.create(table: "result") { $0.autoIncrementedPrimaryKey("id") }
                // A computation, during which the task is cancelled: there is no statement to interrupt.
                isCancelled.wait { $0 }
                _ = try Int.fetchOne(db, sql: Self.endless)
            }
            return {}
        case .gate:
            let process = options.process
            process.close()
            return { process.resume() }
        case .outbox:
            func submit() throws { _ = try CommandOutbox(forDatabaseAt: url, as: "sender").submit(Endless()) }
            try submit()
            options.drainOnOpenLimit = .seconds(60)
            var handlers = OutboxHandlers()
            handlers.handle(Endless.self) { db, _ in _ = try Int.fetchOne(db, sql: Self.endless) }
            options.outbox = handlers
            return {}
        }
    }

    /// Checks that nobody is left: another program has the file to itself, and no participant has a slot, but for `others`.
    private func expectNothingLeft(others: Int = 0, _ what: String) throws {
        let left =
            (try? ControlBlock.open(forDatabaseAt: System.resolvedPath(url.path), writable: false))?.participants()
            ?? []
        #expect(left.count == others, "\(what): \(left.map(\.name))")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        #expect(names.allSatisfy { !$0.hasSuffix(".new") }, "\(what): \(names)")
    }

    @Test(.timeLimit(.minutes(1)), arguments: Obstacle.allCases) func isCancelled(_ obstacle: Obstacle) async throws {
        var options = SharedDatabase.Options()
        options.process = .early()
        options.busyMode = .timeout(.seconds(60))
        // It is no suspension, and none is reported.
        options.probe { (event: SuspensionEvent) in Issue.record("\(event.text)") }
        var migrator = migrator()
        let remove = try put(obstacle, &options, &migrator)
        let task = Task { [options, migrator] in
            try await SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "opener", options: options)
        }
        // It is in the way: without it, the opening would be over by then.
        try await Task.sleep(for: .milliseconds(300))
        let began = ContinuousClock.now
        task.cancel()
        isCancelled.change { $0 = true }
        await #expect(throws: CancellationError.self) { _ = try await task.value }
        let time = ContinuousClock.now - began
        print("opening behind \(obstacle.rawValue) ended \(time / .milliseconds(1)) ms after it was cancelled")
        #expect(time < .seconds(5))
        try expectNothingLeft(others: obstacle == .turn ? 1 : 0, obstacle.rawValue)
        try remove()
        // What was in the way is gone, and nothing is left of the opening that was cancelled.
        if [.migration, .computation, .outbox].contains(obstacle) {
            try plain().inDatabase { try $0.execute(sql: "BEGIN EXCLUSIVE; COMMIT") }
        } else {
            let db = try await SharedDatabase.open(
                at: url,
                schema: SharedSchema(migrator),
                as: "opener",
                options: options
            )
            try db.insert("A")
        }
    }

    /// A blocking opening waits for as long as its options say.
    @Test(.timeLimit(.minutes(1)), arguments: [Obstacle.turn, .exclusive, .writer, .reader, .gate])
    func blocksNoLongerThanItSays(_ obstacle: Obstacle) throws {
        var options = SharedDatabase.Options()
        options.process = .early()
        options.busyMode = .timeout(.milliseconds(200))
        options.setupTimeout = .milliseconds(300)
        var migrator = migrator()
        let remove = try put(obstacle, &options, &migrator)
        let began = ContinuousClock.now
        #expect(throws: DatabaseError.self) {
            _ = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "opener", options: options)
        }
        let time = ContinuousClock.now - began
        print("opening behind \(obstacle.rawValue) blocked for \(time / .milliseconds(1)) ms")
        #expect(time < .seconds(3))
        try remove()
    }

    /// A task that is cancelled before it opens, opens nothing.
    @Test func isCancelledBefore() async throws {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "opener")
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [])
    }

    /// A task that is cancelled afterwards has a database that works.
    @Test func isCancelledAfterwards() async throws {
        let task = Task {
            let db = try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "opener")
            withUnsafeCurrentTask { $0?.cancel() }
            return db
        }
        let db = try await task.value
        try db.insert("A")
        #expect(!db.isSuspended)
    }

    /// Openings of new and of existing databases, for writing and for reading, beside one that goes on, cancelled at any moment.
    @Test(.timeLimit(.minutes(5))) func atRandom() async throws {
        var random = SeededGenerator()
        var times: [Duration] = []
        var opened = 0
        for round in 0..<(isLongRun ? 1_000 : 100) {
            for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) where round % 4 != 0 {
                try FileManager.default.removeItem(at: folder.file(name))
            }
            let isReader = Bool.random(using: &random)
            let version = Int.random(in: 1...2, using: &random)
            let task = Task { [isReader] in
                let schema = SharedSchema(migrator(upTo: version))
                if isReader {
                    let answer = try await SharedDatabase.openReadOnly(at: url, schema: schema, as: "reader")
                    guard case .available(let db) = answer else { return nil as SharedDatabase? }
                    return db
                }
                return try await SharedDatabase.open(at: url, schema: schema, as: "opener")
            }
            let other = Task { try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "other") }
            try await Task.sleep(for: .microseconds(Int.random(in: 0...3_000, using: &random)))
            let began = ContinuousClock.now
            task.cancel()
            var db: SharedDatabase?
            do {
                db = try await task.value
                opened += 1
            } catch is CancellationError {
                times.append(ContinuousClock.now - began)
            } catch SharedDatabaseError.schemaTooNew {
            }
            var remaining: SharedDatabase?
            do {
                remaining = try await other.value
                try remaining?.insert("\(round)")
            } catch SharedDatabaseError.schemaTooNew {
                // The one that was cancelled has applied a migration that the other one does not know.
            }
            try closeNow(db)
            try closeNow(remaining)
            try expectNothingLeft("round \(round)")
        }
        #if os(Linux)
            // A descriptor of a file of the database keeps SQLite's locks, too.
            try await eventually("no file of the database is open") {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").allSatisfy { name in
                    let file = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
                    return file?.hasPrefix(folder.url.path) != true
                }
            }
        #endif
        times.sort()
        let longest = times.last ?? .zero
        print("\(opened) opened, \(times.count) cancelled: \(times.map { $0 / .milliseconds(1) }.suffix(3)) ms at most")
        #expect(opened > 0 && times.count > 0 && longest < .seconds(5))
    }

    private func closeNow(_ db: SharedDatabase?) throws { try db?.close() }

    // MARK: Folders

    @Test func parentFolders() async throws {
        let deep = folder.file("a/b c/ä%/db.sqlite")
        await #expect(throws: SharedDatabaseError.self) {
            _ = try await SharedDatabase.open(at: deep, schema: SharedSchema(migrator()), as: "app")
        }
        var options = SharedDatabase.Options()
        options.createsParentFolders = true
        let db = try await SharedDatabase.open(at: deep, schema: SharedSchema(migrator()), as: "app", options: options)
        try db.insert("A")
        #expect(FileManager.default.fileExists(atPath: deep.path))
        // A file is where a folder would be.
        let below = deep.appendingPathComponent("x/db.sqlite")
        await #expect {
            _ = try await SharedDatabase.open(at: below, schema: SharedSchema(migrator()), as: "app", options: options)
        } throws: {
            "\($0)".contains("cannot be created")
        }
    }

    /// Who only reads, or expects the file, creates no folder.
    @Test func noParentFolders() async throws {
        var options = SharedDatabase.Options()
        options.createsParentFolders = true
        let deep = folder.file("a/db.sqlite")
        _ = try await SharedDatabase.openReadOnly(
            at: deep,
            schema: SharedSchema(migrator()),
            as: "app",
            options: options
        )
        let existing = try #require(URL(string: deep.absoluteString + "?mode=rw"))
        await #expect(throws: (any Error).self) {
            _ = try await SharedDatabase.open(
                at: existing,
                schema: SharedSchema(migrator()),
                as: "app",
                options: options
            )
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [])
    }
}
