import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

/// Turns of raw handles, and how they can go wrong (rules U).
@Suite struct HandleTurnTests {
    let folder: TemporaryFolder
    let url: URL
    let process = ProcessSuspension()
    /// These databases stay open as long as the test runs.
    private let connections = Shared<[RawSQLite]>([])

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String = "app",
        busyTimeout: Duration = .seconds(5),
        process: ProcessSuspension? = nil
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.busyTimeout = busyTimeout
        options.process = process ?? self.process
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func attach(_ db: SharedDatabase) throws -> (RawSQLite, SharedDatabase.RawHandle) {
        let raw = try RawSQLite(db.path)
        connections.change { $0.append(raw) }
        return (raw, try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db))
    }

    // MARK: Attaching

    @Test func onlyTheSameFileIsAttached() throws {
        let db = try open()
        let other = folder.file("other.sqlite").path
        let stranger = try RawSQLite(other)
        try stranger.execute("PRAGMA journal_mode = wal; CREATE TABLE t (a)")
        #expect(throws: RawHandleError.otherDatabase(attached: other, shared: db.path)) {
            try SharedDatabase.RawHandle(attachedTo: stranger.pointer, of: db)
        }
        let memory = try RawSQLite(":memory:")
        #expect(throws: RawHandleError.notAFile(shared: db.path)) {
            try SharedDatabase.RawHandle(attachedTo: memory.pointer, of: db)
        }
        // The file is the same under another name.
        let link = folder.file("link.sqlite").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: db.path)
        let linked = try RawSQLite(link)
        let handle = try SharedDatabase.RawHandle(attachedTo: linked.pointer, of: db)
        try handle.turn { try linked.insert("A") }
        #expect(try db.names() == ["A"])
    }

    @Test func readOnlyIsRefused() throws {
        let db = try open()
        let reader = try RawSQLite(db.path, flags: SQLITE_OPEN_READONLY)
        #expect(throws: RawHandleError.readOnly(path: db.path)) {
            try SharedDatabase.RawHandle(attachedTo: reader.pointer, of: db)
        }
        let answer = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "widget")
        guard case .available(let widget) = answer else {
            Issue.record("\(answer)")
            return
        }
        let raw = try RawSQLite(db.path)
        #expect(throws: RawHandleError.readOnly(path: db.path)) {
            try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: widget)
        }
    }

    @Test func transactionsAreNotAttached() throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        try raw.execute("BEGIN")
        #expect(throws: RawHandleError.transactionOpen(path: db.path)) { try handle.turn {} }
        #expect(throws: RawHandleError.transactionOpen(path: db.path)) {
            try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        }
        try raw.execute("COMMIT")
        // No thread waits for a turn that was not held.
        try db.insert("A")
        try handle.turn { try raw.insert("B") }
        #expect(try db.names() == ["A", "B"])
    }

    // MARK: Ending

    /// What a closure leaves open is rolled back, because all other writers wait for it (rule U7).
    @Test func transactionsThatAreLeftOpenAreRolledBack() throws {
        struct Refused: Error {}
        let db = try open()
        let other = try open("other", busyTimeout: .milliseconds(300))
        let (raw, handle) = try attach(db)
        #expect(throws: RawHandleError.transactionLeftOpen(path: db.path)) {
            try handle.turn { try raw.execute("BEGIN IMMEDIATE; INSERT INTO player (name) VALUES ('A')") }
        }
        try other.insert("B")
        // The error of the closure says more.
        #expect(throws: Refused.self) {
            try handle.turn {
                try raw.execute("BEGIN IMMEDIATE; INSERT INTO player (name) VALUES ('C')")
                throw Refused()
            }
        }
        try other.insert("D")
        #expect(throws: Refused.self) { try handle.turn { throw Refused() } }
        try handle.turn { try raw.insert("E") }
        #expect(try db.names() == ["B", "D", "E"])
    }

    /// A statement that still writes keeps SQLite's lock. It is reset, which commits it.
    @Test func statementsThatAreLeftRunning() throws {
        let db = try open()
        let other = try open("other", busyTimeout: .milliseconds(300))
        let (raw, handle) = try attach(db)
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        try handle.turn {
            let sql = "INSERT INTO player (name) VALUES ('A'), ('B') RETURNING name"
            #expect(sqlite3_prepare_v2(raw.pointer, sql, -1, &statement, nil) == SQLITE_OK)
            #expect(sqlite3_step(statement) == SQLITE_ROW)
        }
        try other.insert("C")
        #expect(try db.names() == ["A", "B", "C"])
    }

    /// A transaction that only reads is in no writer's way. The next turn is refused at once, before it waits.
    @Test func readsThatAreLeftOpen() throws {
        let db = try open()
        let other = try open("other", busyTimeout: .milliseconds(300))
        let (raw, handle) = try attach(db)
        try handle.turn {
            try raw.insert("A")
            try raw.execute("BEGIN; SELECT * FROM player")
        }
        #expect(sqlite3_get_autocommit(raw.pointer) == 0)
        try other.write { _ in
            _ = #expect(throws: RawHandleError.transactionOpen(path: db.path)) { try handle.turn {} }
        }
        try raw.execute("COMMIT")
        try handle.turn { try raw.insert("B") }
        #expect(try db.names() == ["A", "B"])
    }

    @Test func turnsDoNotNest() throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        try handle.turn {
            _ = #expect(throws: RawHandleError.nestedTurn(path: db.path)) { try handle.turn {} }
            #expect(throws: RawHandleError.detachedInTurn(path: db.path)) { try handle.detach() }
            #expect(handle.isInTurn)
            try raw.insert("A")
        }
        #expect(!handle.isInTurn)
        try db.write { _ in
            _ = #expect(throws: RawHandleError.nestedTurn(path: db.path)) { try handle.turn {} }
        }
        try handle.detach()
        try handle.detach()
        #expect(throws: RawHandleError.detached(path: db.path)) { try handle.turn {} }
        // Nothing of a refused turn is left.
        try db.insert("B")
        #expect(try db.names() == ["A", "B"])
    }

    @Test func nestedTurnsOfTwoHandlesAreRefused() throws {
        let db = try open()
        let (_, first) = try attach(db)
        let (raw, second) = try attach(db)
        try first.turn {
            _ = #expect(throws: RawHandleError.nestedTurn(path: db.path)) { try second.turn {} }
        }
        try second.turn { try raw.insert("A") }
    }

    // MARK: Closing

    @Test func closing() throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        try handle.turn {
            let error = #expect(throws: DatabaseError.self) { try db.close() }
            #expect(error?.resultCode == .SQLITE_BUSY)
            #expect(error?.message?.contains("a raw handle has the turn") == true, "\(error as Any)")
            try raw.insert("A")
        }
        #expect(try db.names() == ["A"])
        try db.close()
        #expect(throws: DatabaseError.self) { try handle.turn {} }
        #expect(throws: DatabaseError.self) { try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db) }
        // The connection continues, as a stranger's.
        try raw.insert("B")
        try handle.detach()
    }

    /// A handle that waits for a suspended database is not in the way of closing it.
    @Test(.timeLimit(.minutes(1))) func closingWhileAHandleWaitsAtTheGate() async throws {
        let db = try open()
        let (_, handle) = try attach(db)
        #expect(await onThread { db.suspend(deadline: .now + .milliseconds(200)) }.outcome == .released)
        let isWaiting = Shared(false)
        let waiting = Task {
            await onThread {
                isWaiting.change { $0 = true }
                return Result { try handle.withTurn(whileSuspended: .wait) {} }
            }
        }
        try await eventually("it is about to wait") { isWaiting.value }
        try await onThread { Result { try db.close() } }.get()
        let outcome = await waiting.value
        #expect(throws: (any Error).self) { try outcome.get() }
        #expect(!handle.isInTurn)
    }

    // MARK: Waiting

    @Test func timeoutNamesTheHolder() throws {
        let db = try open(busyTimeout: .milliseconds(200))
        let (raw, handle) = try attach(db)
        let other = try open("sync")
        let error = try other.write { _ -> DatabaseError? in
            #expect(throws: DatabaseError.self) { try handle.turn { Issue.record("it has no turn") } }
        }
        #expect(error?.resultCode == .SQLITE_BUSY)
        #expect(error?.message?.contains("'sync'") == true, "\(error as Any)")
        try handle.turn { try raw.insert("A") }
    }

    /// A program that takes no turns is waited for, and named, before the closure runs.
    @Test func strangersAreWaitedFor() async throws {
        let db = try open(busyTimeout: .milliseconds(200))
        let (raw, handle) = try attach(db)
        let stranger = try RawSQLite(db.path)
        try stranger.execute("BEGIN IMMEDIATE")
        let error = #expect(throws: DatabaseError.self) { try handle.turn { Issue.record("it has no lock") } }
        #expect(error?.resultCode == .SQLITE_BUSY)
        #expect(error?.message?.contains("another connection of this process") == true, "\(error as Any)")
        let patient = try open("patient", busyTimeout: .seconds(60))
        let (other, second) = try attach(patient)
        let writing = Task { try await second.withTurn { try other.insert("A") } }
        try await eventually("it has the turn") {
            try ControlBlock.open(forDatabaseAt: db.path, writable: false).participants()
                .contains { $0.hasTurn && $0.author == "patient" }
        }
        try stranger.execute("COMMIT")
        try await writing.value
        try handle.turn { try raw.insert("B") }
        #expect(try db.names() == ["A", "B"])
    }

    /// A request that has failed keeps no suspension waiting.
    @Test(.timeLimit(.minutes(1))) func aRequestThatFailsLeavesTheGate() async throws {
        let db = try open(busyTimeout: .milliseconds(50))
        let other = try open("other", process: ProcessSuspension())
        let (raw, handle) = try attach(db)
        try await other.whileWriting {
            let outcome = await onThread { Result { try handle.turn {} } }
            #expect(throws: DatabaseError.self) { try outcome.get() }
        }
        #expect(await db.suspend(deadline: .now + .seconds(10)).outcome == .released)
        db.resume()
        try handle.turn { try raw.insert("A") }
    }

    /// Turns of one handle run one after the other, whichever thread asks.
    @Test func manyThreads() async throws {
        let db = try open(busyTimeout: .seconds(60))
        let (raw, handle) = try attach(db)
        let other = try open("other", busyTimeout: .seconds(60))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<8 {
                group.addTask {
                    let outcome = await onThread {
                        Result {
                            for number in 0..<25 {
                                try handle.turn(tables: ["player"]) { try raw.insert("\(thread)-\(number)") }
                            }
                        }
                    }
                    try outcome.get()
                }
            }
            for task in 0..<4 {
                group.addTask {
                    for number in 0..<25 {
                        try await handle.withTurn(tables: ["player"]) { try raw.insert("task \(task)-\(number)") }
                        let insert = "INSERT INTO player (name) VALUES ('other \(task)-\(number)')"
                        try await other.write { try $0.execute(sql: insert) }
                    }
                }
            }
            try await group.waitForAll()
        }
        let names = Set(try db.names())
        #expect(names.count == 400)
    }

    /// The owner's transactions outside of turns, on another thread, keep their lock while turns begin (rule U4). One that is open when a turn
    /// ends is rolled back.
    @Test func transactionsOfOtherThreadsKeepTheirLock() async throws {
        let db = try open(busyTimeout: .milliseconds(200))
        let (raw, handle) = try attach(db)
        let isOver = Shared(false)
        let turning = Task {
            await onThread { while !isOver.value { try? handle.turn {} } }
        }
        let stranger = try RawSQLite(db.path)
        sqlite3_busy_timeout(stranger.pointer, 0)
        let (lost, kept) = await onThread {
            var (lost, kept) = (0, 0)
            for _ in 0..<4000 {
                guard (try? raw.execute("BEGIN IMMEDIATE; DELETE FROM player")) != nil else { continue }
                let isFree = (try? stranger.execute("BEGIN IMMEDIATE")) != nil
                // If it was not rolled back, it has the lock. A rollback that is running has released the lock, and holds the mutex.
                let mutex = sqlite3_db_mutex(raw.pointer)
                sqlite3_mutex_enter(mutex)
                if sqlite3_get_autocommit(raw.pointer) == 0 { if isFree { lost += 1 } else { kept += 1 } }
                sqlite3_mutex_leave(mutex)
                if isFree { try? stranger.execute("ROLLBACK") }
                if (try? raw.execute("COMMIT")) == nil { try? raw.execute("ROLLBACK") }
            }
            return (lost, kept)
        }
        isOver.change { $0 = true }
        await turning.value
        #expect(lost == 0)
        #expect(kept > 100)
    }

    @Test func cancelledTasksDoNotWait() async throws {
        let db = try open(busyTimeout: .seconds(60))
        let (_, handle) = try attach(db)
        let other = try open("other")
        let isHolding = Shared(false)
        let release = DispatchSemaphore(value: 0)
        defer { release.signal() }
        let holder = Task {
            await onThread {
                try? other.writeWithoutTransaction { db in
                    try db.execute(sql: "BEGIN IMMEDIATE")
                    isHolding.change { $0 = true }
                    release.wait()
                    try db.execute(sql: "ROLLBACK")
                }
            }
        }
        try await eventually("the other one writes") { isHolding.value }
        let waiting = Task { try await handle.withTurn {} }
        try await eventually("it waits for the turn") {
            try ControlBlock.open(forDatabaseAt: db.path, writable: false).participants().contains { $0.waiting != nil }
        }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        release.signal()
        await holder.value
        try handle.turn {}
    }

    // MARK: Suspension

    @Test func suspendedHandlesWaitOrFail() async throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        let suspension = await onThread { db.suspend(deadline: .now + .milliseconds(200)) }
        #expect(suspension.outcome == .released)
        let error = #expect(throws: DatabaseError.self) { try handle.turn { try raw.insert("A") } }
        #expect(error?.isSuspension == true)
        let waiting = Task { try await handle.withTurn { try raw.insert("B") } }
        db.resume()
        try await waiting.value
        #expect(try db.names() == ["B"])
    }

    /// A turn that waits for a program without turns goes back outside when the gate closes, and waits until it opens (rule F2).
    @Test(.timeLimit(.minutes(1))) func suspendedWhileItWaitsForAStranger() async throws {
        let db = try open(busyTimeout: .seconds(60))
        let (raw, handle) = try attach(db)
        let stranger = try RawSQLite(db.path)
        try stranger.execute("BEGIN IMMEDIATE")
        let writing = Task { try await handle.withTurn { try raw.insert("A") } }
        try await eventually("it waits for the lock") {
            let block = try ControlBlock.open(forDatabaseAt: db.path, writable: false)
            return block.participants().contains { $0.hasTurn } && handle.isInTurn
        }
        let suspension = await onThread { db.suspend(deadline: .now + .seconds(30)) }
        #expect(suspension.outcome == .released, "\(suspension)")
        #expect(!handle.isInTurn)
        try stranger.execute("COMMIT")
        db.resume()
        try await writing.value
        #expect(try db.names() == ["A"])
    }

    /// An interruption lasts while a statement runs, and would end the rollback, too (rule U7).
    @Test func anInterruptedTurnThatReadsIsRolledBack() async throws {
        let db = try open(process: .early())
        let other = try open("other", busyTimeout: .milliseconds(300), process: .early())
        let (raw, handle) = try attach(db)
        let isWriting = Shared(false)
        let turn = Task {
            await onThread {
                Result {
                    var reading: OpaquePointer?
                    defer { sqlite3_finalize(reading) }
                    try handle.turn {
                        try raw.execute("BEGIN IMMEDIATE; INSERT INTO player (name) VALUES ('A'), ('B')")
                        sqlite3_prepare_v2(raw.pointer, "SELECT * FROM player", -1, &reading, nil)
                        #expect(sqlite3_step(reading) == SQLITE_ROW)
                        isWriting.change { $0 = true }
                        // Each statement fails once the gate has interrupted.
                        while (try? raw.integer("SELECT 1")) != nil {}
                    }
                }
            }
        }
        try await eventually("it writes") { isWriting.value }
        let suspension = await onThread { db.suspend(deadline: .now + .seconds(30)) }
        #expect(suspension.isReleased, "\(suspension)")
        try other.insert("C")
        let outcome = await turn.value
        #expect(throws: RawHandleError.transactionLeftOpen(path: db.path)) { try outcome.get() }
        db.resume()
        try handle.turn { try raw.insert("D") }
        #expect(try db.names() == ["C", "D"])
    }

    /// At the deadline, the statement that runs is interrupted (rule U1). What the turn has committed before stays, and the report says so.
    @Test(arguments: [false, true]) func turnsAreInterruptedAtTheDeadline(afterACommit: Bool) async throws {
        let db = try open(process: .early())
        let (raw, handle) = try attach(db)
        let isWriting = Shared(false)
        let long = Task {
            await onThread {
                Result {
                    try handle.turn(tables: ["player"]) {
                        if afterACommit { try raw.insert("before") }
                        try raw.execute("BEGIN IMMEDIATE")
                        isWriting.change { $0 = true }
                        try raw.execute(
                            """
                            INSERT INTO player (name) WITH RECURSIVE n (i) AS
                            (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT 'x' FROM n
                            """
                        )
                    }
                }
            }
        }
        try await eventually("it writes") { isWriting.value }
        let suspension = await onThread { db.suspend(deadline: .now + .seconds(30)) }
        #expect(suspension.isReleased, "\(suspension)")
        switch suspension.outcome {
        case .rolledBack(let access) where !afterACommit: #expect(access.kind == .write)
        case .interrupted(let access) where afterACommit: #expect(access.kind == .write)
        default: Issue.record("\(suspension)")
        }
        let failure = await #expect(throws: RawSQLite.Failure.self) { try await long.value.get() }
        #expect(failure?.code == SQLITE_INTERRUPT)
        db.resume()
        try handle.turn { try raw.insert("A") }
        #expect(try db.names() == (afterACommit ? ["before", "A"] : ["A"]))
    }
}
