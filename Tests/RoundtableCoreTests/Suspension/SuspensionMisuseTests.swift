import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

/// Attacks on the gate have found these cases: each of them lied, leaked, crashed or kept a lock before.
@Suite struct SuspensionMisuseTests {
    private let folder: TemporaryFolder
    private let url: URL
    private let process = ProcessSuspension()

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func options(_ change: (inout SharedDatabase.Options) -> Void = { _ in }) -> SharedDatabase.Options {
        var options = SharedDatabase.Options()
        options.process = process
        change(&options)
        return options
    }

    private func open(_ change: (inout SharedDatabase.Options) -> Void = { _ in }) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app", options: options(change))
    }

    @discardableResult
    private func suspend(milliseconds: UInt64 = 100) -> [SuspensionReport] {
        process.suspend(until: MonotonicClock.now + milliseconds * 1_000_000)
    }

    private func add(_ db: Database) throws { _ = try Player(name: "A").inserted(db) }

    private func count(_ db: SharedDatabase) throws -> Int { try db.read { try Player.fetchCount($0) } }

    // MARK: Behind a closed gate

    /// These calls ask SQLite, and run no statement.
    @Test func callsThatAreNoStatements() throws {
        let db = try open()
        suspend()
        let calls: [(Database) throws -> Void] = [
            { _ = $0.changesCount }, { _ = $0.totalChangesCount }, { _ = $0.lastInsertedRowID },
            { $0.add(function: DatabaseFunction("f", argumentCount: 0) { _ in 1 }) },
            { $0.add(collation: DatabaseCollation("c") { _, _ in .orderedSame }) },
            { _ = try $0.checkpoint() },
        ]
        for call in calls {
            try? db.writeWithoutTransaction { try call($0) }
            try? db.unsafeReentrantWrite { try call($0) }
        }
        let error = #expect(throws: DatabaseError.self) {
            try db.writeWithoutTransaction { db in
                do { try add(db) } catch DatabaseError.SQLITE_INTERRUPT {
                    throw DatabaseError(resultCode: .SQLITE_INTERRUPT)
                }
            }
        }
        #expect(error?.isSuspension == true)
    }

    @Test func closingWakesWaitingWrites() async throws {
        let db = try open()
        await onThread { suspend() }
        let write = Task { try await db.write { try add($0) } }
        try db.close()
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.resultCode == .SQLITE_MISUSE)
    }

    @Test func withoutWALReadersReleaseTheirLocksToo() throws {
        let queue = try DatabaseQueue(path: url.path)
        try migrator().migrate(queue)
        try queue.close()
        guard
            case .available(let db) = try SharedDatabase.openReadOnly(
                at: url,
                schema: SharedSchema(migrator()),
                as: "widget",
                options: options()
            )
        else {
            Issue.record("not available")
            return
        }
        #expect(try count(db) == 0)
        #expect(suspend(milliseconds: 5000).map(\.outcome) == [.released])
        #expect(throws: DatabaseError.self) { try count(db) }
        process.resume()
        #expect(try count(db) == 0)
    }

    // MARK: Races at the gate

    /// The gate is closed while a database is being opened: what belongs to closing must not come before the database is there.
    @Test func suspendedWhileOpening() async throws {
        let isArmed = Shared(true)
        let suspended = Shared<[SuspensionReport]>([])
        let process = process
        let opened = Shared(0)
        let db = try await onThread {
            Result {
                try open { options in
                    options.suspensionPolicy = .everything
                    options.observation = .always
                    options.configuration.prepareDatabase { _ in
                        opened.change { $0 += 1 }
                        guard opened.value == 2, isArmed.value else { return }
                        isArmed.change { $0 = false }
                        Thread.detachNewThread {
                            let answer = process.suspend(until: MonotonicClock.now + 100_000_000)
                            suspended.change { $0 = answer }
                        }
                        waitUntil("the gate is closed") { process.isSuspended }
                    }
                }
            }
        }.get()
        try await eventually("it was suspended") { !suspended.value.isEmpty }
        #expect(await onThread { suspend(milliseconds: 10_000) }.map(\.outcome) == [.released])
        try await eventually("its connections are closed") { openFiles() == 0 }
        process.resume()
        try await db.write { try add($0) }
    }

    /// Descriptors of the database's own file.
    private func openFiles() -> Int {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.filter {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)) == url.path
        }.count
    }

    /// The last write inside leaves at about the deadline.
    @Test func leavingAtTheDeadline() async throws {
        let db = try open()
        for round in 0..<60 {
            let (began, mayEnd) = (Shared(false), Shared(Nanoseconds.max))
            let write = inThread {
                try? db.write { db in
                    try add(db)
                    began.change { $0 = true }
                    while MonotonicClock.now < mayEnd.value {}
                }
            }
            try await eventually("it writes") { began.value }
            await onThread {
                let deadline = MonotonicClock.now + 3_000_000
                mayEnd.change { $0 = deadline - 100_000 + Nanoseconds(round) * 4_000 }
                process.suspend(until: deadline)
            }
            try await write.value
            try await eventually("round \(round): the state is shown") {
                try DatabaseStatus(ofDatabaseAt: url).participants.first?.state == .suspended
            }
            process.resume()
        }
    }

    /// Resuming opens connections, which does not end here before the database is suspended again. (Nor much later: the tests beside this one
    /// wait for it.)
    @Test func aSlowResumeDoesNotPreventSuspending() async throws {
        let isHeldUp = Shared(false)
        let mayContinue = DispatchSemaphore(value: 0)
        let db = try open { options in
            options.suspensionPolicy = .everything
            options.configuration.prepareDatabase { _ in
                if isHeldUp.value, mayContinue.wait(timeout: .now() + 5) == .success { mayContinue.signal() }
            }
        }
        defer { mayContinue.signal() }
        let cancellable = try db.observeChanges(on: DispatchQueue(label: "log")) { _ in }
        await onThread { suspend(milliseconds: 5000) }
        isHeldUp.change { $0 = true }
        let hasResumed = Shared(false)
        let resumed = inThread {
            process.resume()
            hasResumed.change { $0 = true }
        }
        let waitedForIt = await onThread {
            waitUntil("the gate is open") { !process.isSuspended }
            suspend(milliseconds: 20)
            return hasResumed.value
        }
        #expect(!waitedForIt)
        #expect(db.isSuspended)
        mayContinue.signal()
        try await resumed.value
        try await eventually("its connections are closed") { openFiles() == 0 }
        cancellable.cancel()
    }

    /// A write that has to open its connection gets an error for a lock, and then the gate is closed: it waits for the gate, as does a write that
    /// gets this error before its turn (rule F2).
    @Test(.long()) func suspendedWhileReopening() async throws {
        let isWaiting = Shared(false)
        let db = try open { options in
            options.suspensionPolicy = .everything
            options.busyMode = .callback { _ in
                isWaiting.change { $0 = true }
                return true
            }
        }
        let reader = try open { options in
            options.suspensionPolicy = .everything
            options.busyMode = .immediateError
        }
        #expect(await onThread { suspend(milliseconds: 5000) }.map(\.outcome) == [.released, .released])
        var stranger: DatabaseQueue? = try DatabaseQueue(path: url.path)
        try await stranger?.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT")
        }
        process.resume()
        // A read waits no longer than its busy mode says, and says what for.
        let error = await #expect(throws: DatabaseError.self) { try await reader.read(Player.fetchCount) }
        #expect(error?.message?.hasPrefix("\(url.path): database is locked: ") == true, "\(String(describing: error))")
        let write = Task { try await db.write(add) }
        try await eventually("waits") { isWaiting.value }
        #expect(await onThread { suspend(milliseconds: 5000) }.map(\.outcome) == [.released, .released])
        stranger = nil
        process.resume()
        try await write.value
        #expect(try count(db) == 1)
    }

    // MARK: Protection

    @Test func protectionThatNothingBacksEndsWithASuspension() throws {
        let db = try open()
        try db.withProtectedAccess("one") {
            #expect(suspend().map(\.outcome) == [.released])
            #expect(throws: DatabaseError.self) { try db.write { try add($0) } }
        }
    }

    @Test func aStopIsNotTakenBackByResuming() throws {
        let db = try open()
        process.stop(until: MonotonicClock.now + 50_000_000)
        process.resume()
        #expect(db.isSuspended)
        #expect(throws: DatabaseError.self) { try db.withProtectedAccess { try db.write { try add($0) } } }
        suspend()
        process.endStop()
        // A suspension by another caller stays.
        #expect(db.isSuspended)
        process.resume()
        #expect(!db.isSuspended)
    }

    /// The time of an assertion is up before it is known to have been granted.
    private final class Early: SuspensionAssertions {
        struct Granted: SuspensionAssertion { func end() {} }
        func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
            onExpiry(.milliseconds(20))
            return Granted()
        }
    }

    @Test func expiryBeforeTheGrantIsKnown() async throws {
        let db = try open()
        suspend()
        process.assertions.provider = Early()
        #expect(throws: SharedDatabaseError.assertionRefused(name: "push")) { try db.withProtectedAccess("push") {} }
        #expect(db.isSuspended)
        // Without a provider, no assertion is granted any more.
        process.assertions.provider = nil
        process.resume()
        #expect(!db.isSuspended)
    }

    // MARK: What is reported

    /// A wait for a stranger's lock that ends because of the gate is no SQLITE_BUSY.
    @Test func waitingForAStranger() async throws {
        // This is longer than a busy machine takes for the rest.
        let db = try open { $0.busyTimeout = .seconds(60) }
        let stranger = try DatabaseQueue(path: url.path)
        let (began, mayEnd) = (Shared(false), Shared(false))
        let lock = inThread {
            try stranger.inTransaction(.immediate) { _ in
                began.change { $0 = true }
                mayEnd.wait { $0 }
                return .rollback
            }
        }
        try await eventually("the stranger holds the lock") { began.value }
        let waits = inThread { try db.write(whileSuspended: .wait) { try add($0) } }
        try await eventually("it waits") {
            try DatabaseStatus(ofDatabaseAt: url).participants.contains { $0.writing != nil }
        }
        #expect(await onThread { suspend(milliseconds: 5000) }.map(\.outcome) == [.released])
        process.resume()
        let fails = inThread { try db.writeWithoutTransaction { try add($0) } }
        try await eventually("another waits") {
            try DatabaseStatus(ofDatabaseAt: url).participants.contains { $0.writing != nil }
        }
        await onThread { suspend(milliseconds: 100) }
        process.resume()
        mayEnd.change { $0 = true }
        try await lock.value
        try await waits.value
        do {
            try await fails.value
        } catch let error as DatabaseError {
            #expect(error.isSuspension, "\(error)")
        }
    }

    /// Statements that were commits of their own are not rolled back.
    @Test func whatWasCommittedIsNotReportedAsRolledBack() async throws {
        let process = ProcessSuspension.early()
        let db = try open { $0.process = process }
        let began = Shared(false)
        let write = inThread {
            try db.writeWithoutTransaction { db in
                while true {
                    try add(db)
                    began.change { $0 = true }
                }
            }
        }
        try await eventually("it writes") { began.value }
        let answer = await onThread { process.suspend(until: MonotonicClock.now + 30_000_000_000) }
        guard case .interrupted? = answer.first?.outcome else {
            Issue.record("\(answer)")
            return
        }
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.message?.contains("is kept") == true)
        #expect(try count(db) > 0)
    }

    /// The write has committed: its observers are not interrupted.
    @Test func observersOfACommitAreNotInterrupted() async throws {
        let db = try open()
        let (isNotified, mayEnd) = (Shared(false), Shared(false))
        let values = Shared<[Int]>([])
        final class Observer: TransactionObserver {
            let body: (Database) throws -> Void
            init(_ body: @escaping (Database) throws -> Void) { self.body = body }
            func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
            func databaseDidChange(with event: DatabaseEvent) {}
            func databaseDidRollback(_ db: Database) {}
            func databaseDidCommit(_ db: Database) {
                do { try body(db) } catch { Issue.record(error) }
            }
        }
        db.add(
            transactionObserver: Observer { db in
                isNotified.change { $0 = true }
                mayEnd.wait { $0 }
                let fetched = try Player.fetchCount(db)
                values.change { $0.append(fetched) }
            },
            extent: .databaseLifetime
        )
        let write = inThread { try db.write { try add($0) } }
        try await eventually("the observer is notified") { isNotified.value }
        #expect(await onThread { suspend(milliseconds: 60) }.map(\.outcome) == [.released])
        mayEnd.change { $0 = true }
        try await write.value
        #expect(values.value == [1])
    }

    /// A statement that outlives its access holds the lock.
    @Test func anUnfinishedStatementIsHeld() throws {
        let db = try open()
        // The cursor is used by blocking accesses of this thread alone.
        nonisolated(unsafe) var cursor: RowCursor?
        try db.writeWithoutTransaction { db in
            cursor = try Row.fetchCursor(db, sql: "INSERT INTO player (name) VALUES ('A'), ('B') RETURNING id")
            _ = try cursor?.next()
        }
        guard case .held? = suspend(milliseconds: 50).first?.outcome else {
            Issue.record("not reported")
            return
        }
        process.resume()
        db.writeWithoutTransaction { _ in cursor = nil }
        #expect(suspend(milliseconds: 50).first?.outcome == .released)
    }
}
