import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

/// What a suspended database does, and how running writes end. The rules are those of RoundtableGate (rules F).
@Suite struct SuspensionTests {
    let folder: TemporaryFolder
    let url: URL
    /// Other tests use other instances.
    let process = ProcessSuspension()

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ author: String = "app", _ change: (inout SharedDatabase.Options) -> Void = { _ in }) throws
        -> SharedDatabase
    {
        var options = SharedDatabase.Options()
        options.process = process
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private var soon: ContinuousClock.Instant { .now + .milliseconds(200) }

    private func add(_ name: String, _ db: Database) throws { _ = try Player(name: name).inserted(db) }

    private func names(_ db: SharedDatabase) throws -> [String] {
        try db.read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
    }

    // MARK: The gate

    @Test func blockingWritesFailAndReadsContinue() throws {
        let db = try open()
        try db.write { try add("A", $0) }
        #expect(db.suspend(deadline: soon).outcome == .released)
        #expect(db.isSuspended)
        let error = #expect(throws: DatabaseError.self) { try db.write { try add("B", $0) } }
        #expect(error?.isSuspension == true)
        #expect(error?.resultCode == .SQLITE_INTERRUPT)
        #expect(error?.message?.contains("is suspended") == true)
        // These functions cannot throw an error of their own, or use barriers.
        #expect(throws: DatabaseError.self) { try db.writeWithoutTransaction { try add("B", $0) } }
        #expect(throws: DatabaseError.self) { try db.barrierWriteWithoutTransaction { try add("B", $0) } }
        #expect(throws: DatabaseError.self) { try db.unsafeReentrantWrite { try add("B", $0) } }
        #expect(try names(db) == ["A"])
        db.resume()
        #expect(!db.isSuspended)
        try db.write { try add("C", $0) }
        #expect(try names(db) == ["A", "C"])
    }

    /// Code that was written for GRDB's suspension catches errors in this way.
    @Test func errorsAreCaughtAsGRDBsAre() throws {
        let db = try open()
        _ = db.suspend(deadline: soon)
        var isCaught = false
        do {
            try db.write { try add("A", $0) }
        } catch DatabaseError.SQLITE_INTERRUPT, DatabaseError.SQLITE_ABORT {
            isCaught = true
        }
        #expect(isCaught)
    }

    @Test func followsGRDBsNotifications() throws {
        let db = try open { $0.configuration.observesSuspensionNotifications = true }
        let other = try open("other")
        NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
        #expect(db.isSuspended)
        #expect(!other.isSuspended)
        #expect(throws: DatabaseError.self) { try db.write { try add("A", $0) } }
        #expect(try names(db) == [])
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        try db.write { try add("A", $0) }
    }

    @Test func asyncWritesWait() async throws {
        let db = try open()
        _ = await db.suspend(deadline: soon)
        let isDone = Shared(0)
        let writes = (0..<4).map { number in
            Task {
                switch number {
                case 0: try await db.write { try add("A", $0) }
                case 1: try await db.writeWithoutTransaction { try add("A", $0) }
                case 2: try await db.barrierWriteWithoutTransaction { try add("A", $0) }
                default: try await (db as any DatabaseWriter).write { try add("A", $0) }
                }
                isDone.change { $0 += 1 }
            }
        }
        let scheduled = Shared(0)
        db.asyncWriteWithoutTransaction { _ in scheduled.change { $0 += 1 } }
        db.asyncBarrierWriteWithoutTransaction { _ in scheduled.change { $0 += 1 } }
        db.asyncWrite({ try add("B", $0) }, completion: { _, _ in scheduled.change { $0 += 1 } })
        // Reads continue meanwhile, and so do the reads of the same thread pool.
        for _ in 0..<100 { _ = try await db.read { try Player.fetchCount($0) } }
        #expect(isDone.value == 0)
        #expect(scheduled.value == 0)
        db.resume()
        for write in writes { try await write.value }
        try await eventually("scheduled writes run") { scheduled.value == 3 }
        #expect(try await db.read { try Player.fetchCount($0) } == 5)
    }

    @Test func aWaitingWriteIsCancelled() async throws {
        let db = try open()
        _ = await db.suspend(deadline: soon)
        let write = Task { try await db.write { try add("A", $0) } }
        write.cancel()
        await #expect(throws: CancellationError.self) { try await write.value }
        db.resume()
        #expect(try names(db) == [])
    }

    @Test func theCallerChooses() async throws {
        let db = try open { $0.whileSuspended = .fail }
        _ = await db.suspend(deadline: soon)
        let error = await #expect(throws: DatabaseError.self) { try await db.write { try add("A", $0) } }
        #expect(error?.isSuspension == true)
        let failures = Shared<[Bool]>([])
        db.asyncWrite(
            { try add("A", $0) },
            completion: { _, result in
                failures.change { $0.append(result.isSuspension) }
            }
        )
        #expect(failures.value == [true])
        // These wait whatever the option says: the first one says so, and the second one could not report a failure.
        let written = Shared<[Bool]>([])
        db.asyncWrite(
            whileSuspended: .wait,
            { try add("C", $0) },
            completion: { _, result in
                written.change { $0.append((try? result.get()) != nil) }
            }
        )
        db.asyncWriteWithoutTransaction { db in
            #expect(throws: Never.self) { try add("D", db) }
        }
        #expect(written.value == [])
        let waiting = Task { try await db.write(whileSuspended: .wait) { try add("B", $0) } }
        let blocked = Shared(false)
        Thread.detachNewThread {
            try? db.write(whileSuspended: .wait) { try add("B", $0) }
            blocked.change { $0 = true }
        }
        db.resume()
        try await waiting.value
        try await eventually("the blocked thread has written") { blocked.value }
        try await eventually("all have written") { try names(db).sorted() == ["B", "B", "C", "D"] }
        #expect(written.value == [true])
    }

    // MARK: What runs

    @Test func aRunningWriteFinishes() async throws {
        let db = try open()
        let (began, mayEnd) = (Shared(false), Shared(false))
        let write = inThread {
            try db.write { db in
                try add("A", db)
                began.change { $0 = true }
                mayEnd.wait { $0 }
                try add("B", db)
            }
        }
        try await eventually("the write runs") { began.value }
        async let suspension = db.suspend(deadline: .now + .seconds(20))
        try await eventually("the gate is closed") { db.isSuspended }
        mayEnd.change { $0 = true }
        #expect(await suspension.outcome == .released)
        try await write.value
        #expect(try names(db) == ["A", "B"])
    }

    /// The closure is between two statements when it is interrupted, which SQLite forgets: rule F3.
    @Test(arguments: [false, true])
    func aWriteThatTakesTooLongIsRolledBack(inItsOwnTransaction: Bool) async throws {
        let db = try open()
        let (began, mayContinue, reachedEnd) = (Shared(false), Shared(false), Shared(false))
        let updates: @Sendable (Database) throws -> Void = { db in
            try add("A", db)
            began.change { $0 = true }
            mayContinue.wait { $0 }
            try add("B", db)
            reachedEnd.change { $0 = true }
        }
        let write = inThread {
            if inItsOwnTransaction {
                try db.writeWithoutTransaction { db in
                    try db.inTransaction {
                        try updates(db); return .commit
                    }
                }
            } else {
                try db.write { db in try updates(db) }
            }
        }
        try await eventually("the write runs") { began.value }
        let suspension = await db.suspend(deadline: .now + .milliseconds(30))
        guard case .held(let access) = suspension.outcome else {
            Issue.record("\(suspension)")
            return
        }
        #expect(access.kind == .write)
        if !inItsOwnTransaction {
            #expect(access.callSite?.hasPrefix("RoundtableCoreTests/SuspensionTests.swift:") == true)
        }
        #expect(!suspension.isReleased)
        mayContinue.change { $0 = true }
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.isSuspension == true, "\(String(describing: error))")
        #expect(!reachedEnd.value)
        #expect(await db.suspend(deadline: soon).isReleased)
        db.resume()
        #expect(try names(db) == [])
        try await db.write { try add("C", $0) }
    }

    /// Also after a transaction that could not begin: the next one has begun all the same.
    @Test(arguments: [false, true]) func aLongStatementIsInterrupted(afterAFailure: Bool) async throws {
        let db = try open {
            $0.process = .early()
            $0.busyMode = .immediateError
        }
        if afterAFailure {
            let stranger = try RawSQLite(url.path)
            try stranger.execute("BEGIN IMMEDIATE")
            let error = await #expect(throws: DatabaseError.self) { try await db.write { try add("B", $0) } }
            #expect(error?.resultCode == .SQLITE_BUSY)
            try stranger.execute("ROLLBACK")
        }
        let began = Shared(false)
        let write = inThread {
            try db.write { db in
                try add("A", db)
                began.change { $0 = true }
                try db.execute(
                    sql: """
                        INSERT INTO player (name) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000000)
                        SELECT 'x' FROM n
                        """
                )
            }
        }
        try await eventually("the write runs") { began.value }
        let suspension = await db.suspend(deadline: .now + .seconds(30))
        guard case .rolledBack(let access) = suspension.outcome else {
            Issue.record("\(suspension)")
            return
        }
        #expect(access.callSite?.contains("SuspensionTests.swift") == true)
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.isSuspension == true)
        #expect(error?.message?.contains("rolled back") == true)
        db.resume()
        #expect(try names(db) == [])
    }

    /// The closure catches everything, and continues.
    @Test func aStubbornClosureDoesNotCommit() async throws {
        let db = try open()
        let (began, mayContinue) = (Shared(false), Shared(false))
        let write = inThread {
            try db.write { db in
                try add("A", db)
                began.change { $0 = true }
                mayContinue.wait { $0 }
                for _ in 0..<10 { try? add("B", db) }
                _ = try? Player.fetchCount(db)
            }
        }
        try await eventually("the write runs") { began.value }
        _ = await db.suspend(deadline: .now + .milliseconds(10))
        mayContinue.change { $0 = true }
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.isSuspension == true)
        db.resume()
        #expect(try names(db) == [])
    }

    /// A transaction that is left open between two accesses holds its lock, and no closure is there to end it.
    @Test func aTransactionThatIsLeftOpenIsRolledBack() throws {
        let db = try open { options in
            options.configuration.allowsUnsafeTransactions = true
            options.process = .early()
        }
        try db.writeWithoutTransaction { db in
            try db.beginTransaction(.immediate)
            try add("A", db)
        }
        let suspension = db.suspend(deadline: .now + .seconds(30))
        guard case .rolledBack = suspension.outcome else {
            Issue.record("\(suspension)")
            return
        }
        db.resume()
        db.writeWithoutTransaction { #expect(!$0.isInsideTransaction) }
        // A transaction that continues is inside the gate until it ends.
        try db.writeWithoutTransaction { db in
            try db.beginTransaction(.immediate)
            try add("B", db)
        }
        // So is each access in between.
        try db.writeWithoutTransaction { try add("C", $0) }
        try db.writeWithoutTransaction { try $0.commit() }
        #expect(db.suspend(deadline: soon).outcome == .released)
        #expect(try names(db) == ["B", "C"])
    }

    @Test func waitingForTheTurnGoesBackOutside() async throws {
        let db = try open()
        let other = try open("other") { $0.process = ProcessSuspension() }
        let (began, mayEnd) = (Shared(false), Shared(false))
        let holder = inThread {
            try other.write { db in
                began.change { $0 = true }
                mayEnd.wait { $0 }
            }
        }
        try await eventually("the turn is taken") { began.value }
        let write = Task { try await db.write { try add("A", $0) } }
        try await eventually("the other waits in the queue") {
            try DatabaseStatus(ofDatabaseAt: url).participants.contains {
                $0.author == "app" && $0.waiting != nil
            }
        }
        #expect(await db.suspend(deadline: .now + .seconds(20)).outcome == .released)
        #expect(try DatabaseStatus(ofDatabaseAt: url).participants.allSatisfy { $0.waiting == nil })
        mayEnd.change { $0 = true }
        try await holder.value
        db.resume()
        try await write.value
        #expect(try names(db) == ["A"])
    }

    // MARK: The process

    @Test func allDatabasesOfAProcess() async throws {
        let db = try open()
        process.suspend(until: MonotonicClock.now + 100_000_000)
        #expect(db.isSuspended)
        // This database is opened meanwhile.
        let error = #expect(throws: DatabaseError.self) { try open("late") }
        #expect(error?.isSuspension == true)
        var options = SharedDatabase.Options()
        options.process = process
        let opening = Task { [options] in
            try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "later", options: options)
        }
        // A database can also be suspended by itself.
        _ = await db.suspend(deadline: soon)
        process.resume()
        #expect(db.isSuspended)
        let later = try await opening.value
        #expect(!later.isSuspended)
        db.resume()
        #expect(!db.isSuspended)
    }

    @Test func aMigrationIsInterruptedAndDoneAgain() async throws {
        let began = Shared(0)
        var migrator = migrator()
        migrator.registerMigration("long") { db in
            try db.execute(sql: "CREATE TABLE late(a)")
            began.change { $0 += 1 }
            if began.value > 1 { return }
            try db.execute(
                sql: """
                    INSERT INTO late WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000000) SELECT i FROM n
                    """
            )
        }
        var options = SharedDatabase.Options()
        let process = ProcessSuspension.early()
        options.process = process
        let opening = Task { [options, migrator] in
            try await SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "app", options: options)
        }
        try await eventually("it migrates") { began.value == 1 }
        let answer = await onThread { process.suspend(until: MonotonicClock.now + 30_000_000_000) }
        #expect(answer.map(\.isReleased) == [true], "\(answer)")
        #expect(answer.first?.description.contains("opening") == true)
        #expect(began.value == 1)
        process.resume()
        let db = try await opening.value
        #expect(began.value == 2)
        #expect(try await db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM late") } == 0)
    }

    @Test func closingWhileSuspended() throws {
        let db = try open()
        try db.write { try add("A", $0) }
        _ = db.suspend(deadline: soon)
        try db.close()
        #expect(db.suspend(deadline: soon).isReleased)
        db.resume()
        #expect(throws: DatabaseError.self) { try db.write { try add("B", $0) } }
    }

    @Test func statusShowsIt() throws {
        let db = try open()
        _ = db.suspend(deadline: soon)
        #expect(try DatabaseStatus(ofDatabaseAt: url).participants.map(\.state) == [.suspended])
        db.resume()
        #expect(try DatabaseStatus(ofDatabaseAt: url).participants.map(\.state) == [.present])
    }
}

extension Result {
    fileprivate var isSuspension: Bool {
        if case .failure(let error as DatabaseError) = self { error.isSuspension } else { false }
    }
}

/// Runs a long blocking call on a thread of its own.
func inThread<T: Sendable>(_ body: @escaping @Sendable () throws -> T) -> Task<T, any Error> {
    Task {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
        }
    }
}
