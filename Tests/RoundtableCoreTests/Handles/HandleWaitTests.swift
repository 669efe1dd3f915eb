import Dispatch
import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

/// Threads that wait for the turn of one handle, and what ends their waits (rule U3).
@Suite struct HandleWaitTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func open(
        _ author: String = "app",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = ProcessSuspension()
        change(&options)
        let url = folder.file("players.sqlite")
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    /// Runs `body` while another thread holds the turn of a handle.
    private func whileTaken(_ handle: SharedDatabase.RawHandle, _ body: () async throws -> Void) async throws {
        let release = DispatchSemaphore(value: 0)
        let holder = Task {
            await onThread { Result { try handle.turn { release.wait() } } }
        }
        try await eventually("it has the turn") { handle.isInTurn }
        do { try await body() } catch {
            release.signal()
            _ = await holder.value
            throw error
        }
        release.signal()
        try await holder.value.get()
    }

    @Test func timeoutsNameTheHolderOfTheTurn() async throws {
        let db = try open()
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        try await whileTaken(handle) {
            let outcome = await onThread { Result { try handle.beginTurn(timeout: .milliseconds(300)) } }
            let error = #expect(throws: DatabaseError.self) { try outcome.get() }
            #expect(error?.resultCode == .SQLITE_BUSY)
            let message = error?.message ?? ""
            #expect(message.contains(/no turn within \d+\.\d s: another thread/), "\(message)")
        }
    }

    /// A request that has failed keeps no suspension waiting.
    @Test(.timeLimit(.minutes(1))) func aRequestThatFailsLeavesTheGate() async throws {
        let db = try open()
        let other = try open("other")
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        try await other.whileWriting {
            let outcome = await onThread { Result { try handle.beginTurn(timeout: .milliseconds(50)) } }
            #expect(throws: DatabaseError.self) { try outcome.get() }
        }
        #expect(await db.suspend(deadline: .now + .seconds(10)).outcome == .released)
        db.resume()
        try handle.turn { try raw.insert("A") }
    }

    @Test func cancellationEndsTheWaitForAnotherThread() async throws {
        let db = try open { $0.busyTimeout = .seconds(600) }
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        try await whileTaken(handle) {
            let waiting = Task { try await handle.withTurn {} }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
        try handle.turn { try raw.insert("A") }
    }

    @Test func cancellationEndsTheWaitForAnotherTask() async throws {
        let db = try open { $0.busyTimeout = .seconds(600) }
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        let release = DispatchSemaphore(value: 0)
        let holder = Task { try await handle.withTurn { release.wait() } }
        try await eventually("it has the turn") { handle.isInTurn }
        let waiting = Task { try await handle.withTurn {} }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(handle.isInTurn)
        release.signal()
        try await holder.value
    }

    @Test func busyCallbackEndsTheWaitForAnotherThread() async throws {
        let tries = Shared<[Int]>([])
        let db = try open { options in
            options.busyMode = .callback { wait in
                tries.change { $0.append(wait.tries) }
                return wait.tries < 2
            }
        }
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        try await whileTaken(handle) {
            let outcome = await onThread { Result { try handle.beginTurn() } }
            let error = #expect(throws: DatabaseError.self) { try outcome.get() }
            #expect(error?.resultCode == .SQLITE_BUSY)
            #expect(tries.value == [0, 1, 2])
        }
    }

    /// No thread waits for a turn that was kept, because its owner may never end it (rule U7).
    @Test func keptTurnsAreNotWaitedFor() async throws {
        let db = try open { $0.busyTimeout = .seconds(600) }
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        let mayContinue = DispatchSemaphore(value: 0)
        let keeping = Task {
            await onThread {
                Result {
                    try handle.turn {
                        try raw.execute("BEGIN IMMEDIATE")
                        mayContinue.wait()
                    }
                }
            }
        }
        try await eventually("it has the turn") { handle.isInTurn }
        let isWaiting = Shared(false)
        let waiting = Task {
            await onThread {
                isWaiting.change { $0 = true }
                return Result { try handle.beginTurn() }
            }
        }
        try await eventually("another thread wants it") { isWaiting.value }
        mayContinue.signal()
        let kept = await keeping.value
        #expect(throws: RawHandleError.transactionLeftOpen(path: db.path, after: nil)) { try kept.get() }
        let waited = await waiting.value
        let later = await onThread { Result { try handle.beginTurn() } }
        for outcome in [waited, later] {
            let error = #expect(throws: RawHandleError.self) { try outcome.get() }
            guard case .turnKept(db.path, let site?) = error else {
                Issue.record("\(error as Any)")
                continue
            }
            #expect(site.hasPrefix("RoundtableCoreTests/HandleWaitTests.swift:") || site.contains("RawSQLite.swift:"))
            #expect(
                "\(error!)".contains("has not ended, because its transaction was left open: COMMIT or ROLLBACK")
            )
        }
        try raw.execute("ROLLBACK")
        try handle.endTurn()
        try handle.turn { try raw.insert("A") }
    }

    /// The closure has ended its turn, and another thread holds one when it returns.
    @Test func closuresMayEndTheirTurn() async throws {
        let db = try open()
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        let isEnded = DispatchSemaphore(value: 0)
        let hasBegun = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let other = Task {
            await onThread {
                Result {
                    isEnded.wait()
                    try handle.turn {
                        hasBegun.signal()
                        mayEnd.wait()
                    }
                }
            }
        }
        let outcome = await onThread {
            Result {
                try handle.turn {
                    try raw.insert("A")
                    try handle.endTurn()
                    isEnded.signal()
                    hasBegun.wait()
                    return 7
                }
            }
        }
        #expect(handle.isInTurn)
        mayEnd.signal()
        try await other.value.get()
        #expect(try outcome.get() == 7)
    }

    // MARK: Detaching and closing

    /// A thread that waits for the turn of another participant gets the error at once.
    @Test func closingEndsWaits() async throws {
        let other = try open("other")
        let db = try open { $0.busyTimeout = .seconds(600) }
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        let release = DispatchSemaphore(value: 0)
        let isWriting = Shared(false)
        let writing = Task {
            await onThread {
                Result {
                    try other.writeWithoutTransaction { db in
                        try db.execute(sql: "BEGIN IMMEDIATE")
                        isWriting.change { $0 = true }
                        release.wait()
                        try db.execute(sql: "ROLLBACK")
                    }
                }
            }
        }
        try await eventually("the other one writes") { isWriting.value }
        let waiting = (0..<3).map { _ in Task { await onThread { Result { try handle.beginTurn() } } } }
        try await eventually("one waits for the turn") {
            try ControlBlock.open(forDatabaseAt: db.path, writable: false).participants().contains { $0.waiting != nil }
        }
        // Both close at once: neither undoes what the other has done.
        async let first = onThread { Result { try handle.detach() } }
        async let second = onThread { Result { try handle.detach() } }
        try await first.get()
        try await second.get()
        for outcome in waiting {
            let result = await outcome.value
            #expect(throws: RawHandleError.detached(path: db.path)) { try result.get() }
        }
        release.signal()
        try await writing.value.get()
        #expect(throws: RawHandleError.detached(path: db.path)) { try handle.beginTurn() }
        try db.close()
    }

    /// A handle that waits for a suspended database is not in the way of closing it.
    @Test func closingWhileAHandleWaitsAtTheGate() async throws {
        let db = try open()
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        #expect(await onThread { db.suspend(deadline: .now + .milliseconds(200)) }.outcome == .released)
        let isWaiting = Shared(false)
        let waiting = Task {
            await onThread {
                isWaiting.change { $0 = true }
                return Result { try handle.beginTurn(whileSuspended: .wait) }
            }
        }
        try await eventually("it is about to wait") { isWaiting.value }
        let began = ContinuousClock.now
        try await onThread { Result { try db.close() } }.get()
        #expect(ContinuousClock.now - began < .seconds(3))
        let outcome = await waiting.value
        #expect(throws: (any Error).self) { try outcome.get() }
        #expect(!handle.isInTurn)
    }
}
