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
        #expect(throws: RawHandleError.transactionOpen(path: db.path)) { try handle.beginTurn() }
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

    /// The turn is kept, and nothing is rolled back, until the owner has ended the transaction (rule U7).
    @Test func transactionLeftOpenKeepsTheTurn() async throws {
        struct Refused: Error {}
        let db = try open()
        let other = try open("other", busyTimeout: .milliseconds(300))
        let (raw, handle) = try attach(db)
        #expect(throws: RawHandleError.transactionLeftOpen(path: db.path, after: nil)) {
            try handle.turn { try raw.execute("BEGIN IMMEDIATE; INSERT INTO player (name) VALUES ('A')") }
        }
        #expect(handle.isInTurn)
        let error = #expect(throws: DatabaseError.self) { try other.insert("B") }
        #expect(error?.resultCode == .SQLITE_BUSY)
        #expect(error?.message?.contains("'app'") == true, "\(error as Any)")
        #expect(throws: RawHandleError.transactionLeftOpen(path: db.path, after: nil)) { try handle.endTurn() }
        try raw.execute("COMMIT")
        // The closure's thread may have ended.
        let ended = await onThread { Result { try handle.endTurn() } }
        try ended.get()
        try other.insert("B")
        // The error of the closure is reported, too.
        let thrown = #expect(throws: RawHandleError.self) {
            try handle.turn {
                try raw.execute("BEGIN IMMEDIATE")
                throw Refused()
            }
        }
        #expect(thrown == .transactionLeftOpen(path: db.path, after: "Refused()"))
        #expect("\(thrown!)".contains("COMMIT or ROLLBACK, then call endTurn()"))
        try raw.execute("ROLLBACK")
        try handle.endTurn()
        #expect(throws: Refused.self) { try handle.turn { throw Refused() } }
        #expect(try db.names() == ["A", "B"])
    }

    @Test func turnsEndOnceAndOnTheirThread() async throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        #expect(throws: RawHandleError.noTurn(path: db.path)) { try handle.endTurn() }
        let thread = OneThread()
        try await thread.run { try handle.beginTurn() }
        #expect(throws: RawHandleError.wrongThread(path: db.path)) { try handle.endTurn() }
        try await thread.run {
            #expect(throws: RawHandleError.nestedTurn(path: db.path)) { try handle.beginTurn() }
            #expect(throws: RawHandleError.nestedTurn(path: db.path)) { try handle.turn {} }
            #expect(throws: RawHandleError.detachedInTurn(path: db.path)) { try handle.detach() }
            try raw.insert("A")
            try handle.endTurn(tables: ["player"])
            #expect(throws: RawHandleError.noTurn(path: db.path)) { try handle.endTurn() }
        }
        try nestInWrite(db, handle)
        try handle.detach()
        try handle.detach()
        #expect(throws: RawHandleError.detached(path: db.path)) { try handle.beginTurn() }
        #expect(try db.names() == ["A"])
    }

    private func nestInWrite(_ db: SharedDatabase, _ handle: SharedDatabase.RawHandle) throws {
        try db.write { _ in
            #expect(throws: RawHandleError.nestedTurn(path: db.path)) { try handle.beginTurn() }
            return
        }
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

    /// A handle that is released in its turn delays no other participant.
    @Test func deallocationWithinATurn() async throws {
        let db = try open()
        let raw = try RawSQLite(db.path)
        let seen = Shared<[DatabaseChange]>([])
        let cancellable = try db.observeChanges(on: nil) { change in seen.change { $0.append(change) } }
        do {
            let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
            try handle.beginTurn(tables: ["player"])
            try raw.insert("A")
        }
        let began = ContinuousClock.now
        try db.insert("B")
        #expect(ContinuousClock.now - began < .seconds(1))
        try await eventually("the unannounced commit is reported") { seen.value.count >= 2 }
        #expect(seen.value.first?.tables == .fullDatabase)
        cancellable.cancel()
    }

    // MARK: Closing

    @Test func closingDetaches() throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        try handle.beginTurn()
        let error = #expect(throws: DatabaseError.self) { try db.close() }
        #expect(error?.resultCode == .SQLITE_BUSY)
        #expect(
            error?.message?.contains("a raw handle holds the turn, since RoundtableCoreTests/HandleTurnTests.swift:")
                == true
        )
        try raw.insert("A")
        try handle.endTurn()
        #expect(try db.names() == ["A"])
        try db.close()
        #expect(throws: DatabaseError.self) { try handle.beginTurn() }
        #expect(throws: DatabaseError.self) { try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db) }
        // The connection continues, as a stranger's.
        try raw.insert("B")
    }

    // MARK: Waiting

    @Test func timeoutNamesTheHolder() throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        let other = try open("sync")
        let error = try other.write { _ -> DatabaseError? in
            #expect(throws: DatabaseError.self) { try handle.beginTurn(timeout: .milliseconds(200)) }
        }
        #expect(error?.resultCode == .SQLITE_BUSY)
        #expect(error?.message?.contains("'sync'") == true, "\(error as Any)")
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

    /// The owner's transactions outside of turns, on another thread, keep their lock while turns begin and end (rule U4).
    @Test func transactionsOfOtherThreadsKeepTheirLock() async throws {
        let db = try open()
        let (raw, handle) = try attach(db)
        let isOver = Shared(false)
        let turning = Task {
            await onThread {
                while !isOver.value {
                    guard (try? handle.beginTurn(timeout: .milliseconds(200))) != nil else { continue }
                    // This checks the lock again, while a transaction is open.
                    while (try? handle.endTurn()) == nil {}
                }
            }
        }
        let stranger = try RawSQLite(db.path)
        sqlite3_busy_timeout(stranger.pointer, 0)
        let lost = await onThread {
            var lost = 0
            for _ in 0..<4000 {
                guard (try? raw.execute("BEGIN IMMEDIATE; DELETE FROM player")) != nil else { continue }
                if (try? stranger.execute("BEGIN IMMEDIATE")) != nil {
                    lost += 1
                    try? stranger.execute("ROLLBACK")
                }
                if (try? raw.execute("COMMIT")) == nil { try? raw.execute("ROLLBACK") }
            }
            return lost
        }
        isOver.change { $0 = true }
        await turning.value
        #expect(lost == 0)
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

    /// At the deadline, the statement that runs is interrupted; only its owner can end the transaction (rule U3).
    @Test func turnsAreInterruptedAtTheDeadline() async throws {
        let db = try open(process: .early())
        let (raw, handle) = try attach(db)
        let isWriting = Shared(false)
        let long = Task {
            await onThread {
                Result {
                    try handle.turn(tables: ["player"]) {
                        try raw.execute("BEGIN IMMEDIATE")
                        isWriting.change { $0 = true }
                        do {
                            try raw.execute(
                                """
                                INSERT INTO player (name) WITH RECURSIVE n (i) AS
                                (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT 'x' FROM n
                                """
                            )
                        } catch let error as RawSQLite.Failure {
                            if sqlite3_get_autocommit(raw.pointer) == 0 { try raw.execute("ROLLBACK") }
                            throw error
                        }
                    }
                }
            }
        }
        try await eventually("it writes") { isWriting.value }
        let suspension = await onThread { db.suspend(deadline: .now + .seconds(30)) }
        #expect(suspension.isReleased, "\(suspension)")
        guard case .interrupted(let access) = suspension.outcome else {
            Issue.record("\(suspension)")
            return
        }
        #expect(access.kind == .turn)
        let failure = await #expect(throws: RawSQLite.Failure.self) { try await long.value.get() }
        #expect(failure?.code == SQLITE_INTERRUPT)
        db.resume()
        try handle.turn { try raw.insert("A") }
        #expect(try db.names() == ["A"])
    }
}

/// Runs closures on one thread, one after the other.
private final class OneThread: Sendable {
    private struct State {
        var next: (@Sendable () -> Void)?
        var isOver = false
    }
    private let state = Shared(State())
    private let isWanted = DispatchSemaphore(value: 0)

    init() {
        Thread.detachNewThread { [state, isWanted] in
            while true {
                isWanted.wait()
                if state.value.isOver { return }
                state.value.next?()
            }
        }
    }

    deinit {
        state.change { $0.isOver = true }
        isWanted.signal()
    }

    func run(_ body: @escaping @Sendable () throws -> Void) async throws {
        try await withCheckedThrowingContinuation { continuation in
            state.change { $0.next = { continuation.resume(with: Result(catching: body)) } }
            isWanted.signal()
        }
    }
}
