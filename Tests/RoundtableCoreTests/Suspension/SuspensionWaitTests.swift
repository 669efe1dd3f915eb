import Dispatch
import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// The waits of a suspension, and the waits after it.
@Suite struct SuspensionWaitTests {
    let folder: TemporaryFolder
    /// Other tests use other instances.
    let process = ProcessSuspension()

    init() throws { folder = try TemporaryFolder() }

    private var url: URL { folder.file("players.sqlite") }

    private func open(
        _ author: String = "app",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = process
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func suspend(_ db: SharedDatabase, milliseconds: Int = 5000) async -> SuspensionReport {
        await onThread { db.suspend(deadline: .now + .milliseconds(milliseconds)) }
    }

    /// A write after resuming waits for its turn in the queue, with one ticket, as any other does.
    @Test func aWriteWaitsInTheQueueAfterResuming() async throws {
        let (db, other) = (try open(), try open("other"))
        #expect(await suspend(db).outcome == .released)
        db.resume()
        let (isHeld, mayEnd) = (Shared(false), Shared(false))
        let holding = inThread {
            try other.write { connection in
                _ = try Player(name: "A").inserted(connection)
                isHeld.change { $0 = true }
                mayEnd.wait { $0 }
            }
        }
        defer { mayEnd.change { $0 = true } }
        try await eventually("the other one has the turn") { isHeld.value }
        let write = Task { try await db.write { _ = try Player(name: "B").inserted($0) } }
        try await eventually("it waits, and does not begin to wait again and again") {
            let block = try #require(db.seat.participant).block
            return block.participants().contains { $0.author == "app" && $0.waiting ?? 0 > 100_000_000 }
        }
        mayEnd.change { $0 = true }
        try await holding.value
        try await write.value
        #expect(try await db.read { try Player.fetchCount($0) } == 2)
    }

    /// The deadline interrupts what runs, also while another thread opens the writer connection again: that may take long, for example because a key
    /// must be derived.
    @Test func aSuspensionDoesNotWaitForAnOpening() async throws {
        let (isHeldUp, isOpening) = (Shared(false), Shared(false))
        let mayContinue = DispatchSemaphore(value: 0)
        let db = try open { options in
            options.suspensionPolicy = .everything
            options.configuration.prepareDatabase { _ in
                guard isHeldUp.value else { return }
                isOpening.change { $0 = true }
                if mayContinue.wait(timeout: .now() + 20) == .success { mayContinue.signal() }
            }
        }
        defer { mayContinue.signal() }
        #expect(await suspend(db).outcome == .released)
        // The opening runs on one thread and is short, because looks at any database of this process wait for it.
        let (write, suspension, time) = await onThread {
            isHeldUp.change { $0 = true }
            db.resume()
            let write = inOwnThread { try db.write { _ = try Player(name: "A").inserted($0) } }
            isOpening.wait { $0 }
            let visit = db.gate.enter(.closing, at: nil, isRunning: true)
            let began = ContinuousClock.now
            let suspension = db.suspend(deadline: .now + .milliseconds(100))
            let time = ContinuousClock.now - began
            if let visit { db.gate.leave(visit) }
            isHeldUp.change { $0 = false }
            mayContinue.signal()
            return (write, suspension, time)
        }
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.isSuspension == true, "\(error as Any)")
        #expect(time < .seconds(10))
        guard case .held(let access) = suspension.outcome else {
            Issue.record("\(suspension)")
            return
        }
        #expect(access.kind == .closing)
        #expect(await suspend(db).outcome == .released)
        db.resume()
    }

    /// A raw handle's turn is being ended, which waits for the connection's mutex: for a statement that another thread runs. A suspension interrupts
    /// that statement, and does not wait for it.
    @Test func aSuspensionDoesNotWaitForTheMutexOfAHandle() async throws {
        let db = try open { $0.process = .early() }
        let raw = try RawSQLite(db.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
        let (hasTurn, isRunning, isEnding) = (Shared(false), Shared(false), Shared(false))
        let turn = inThread {
            try handle.turn {
                hasTurn.change { $0 = true }
                isRunning.wait { $0 }
                isEnding.change { $0 = true }
            }
        }
        try await eventually("it has the turn") { hasTurn.value }
        let statement = inThread {
            let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
            try raw.execute(endless)
        }
        // Whatever fails here, the threads end.
        defer { sqlite3_interrupt(raw.pointer) }
        let mutex = sqlite3_db_mutex(raw.pointer)
        try await eventually("the statement runs") {
            if sqlite3_mutex_try(mutex) != SQLITE_OK { return true }
            sqlite3_mutex_leave(mutex)
            return false
        }
        isRunning.change { $0 = true }
        try await eventually("the turn is being ended") { isEnding.value }
        let answer = Shared<SuspensionReport?>(nil)
        let suspending = inThread {
            let suspension = db.suspend(deadline: .now + .seconds(30))
            answer.change { $0 = suspension }
        }
        try await eventually("the suspension has an answer", within: .seconds(10)) { answer.value != nil }
        try await suspending.value
        let failure = await #expect(throws: RawSQLite.Failure.self) { try await statement.value }
        #expect(failure?.code == SQLITE_INTERRUPT)
        try await turn.value
        #expect(answer.value?.isReleased == true, "\(answer.value as Any)")
        db.resume()
        try handle.turn { try raw.insert("A") }
        try handle.detach()
    }

    /// A place that was lost in a long sleep is taken again when the gate opens, and not on the queue of a connection that was closed: the next write
    /// opens another connection, and takes its turn there, while jobs on the old queue may run at any time.
    @Test func theSeatIsNotUsedOnAClosedQueue() async throws {
        let db = try open { $0.suspensionPolicy = .everything }
        let opened = MonotonicClock.now
        let old = db.writer.queue
        #expect(await suspend(db).outcome == .released)
        let release = DispatchSemaphore(value: 0)
        defer { release.signal() }
        old.asyncWriteWithoutTransaction { _ in release.wait() }
        // The place is lost as in a long sleep.
        try #require(db.seat.participant).leave()
        try await eventually("the seat may be taken again") { MonotonicClock.now - opened > 200_000_000 }
        #expect(db.seat.participant?.isSeated == false)
        db.resume()
        #expect(db.seat.participant?.isSeated == true)
        try await db.write { _ = try Player(name: "A").inserted($0) }
        #expect(db.writer.queue !== old)
    }
}
