import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles
@testable import RoundtableGate

/// Whose fault it is that a batch cannot be committed (rule X7), and what an owner does that has fallen behind (X4, X8, X11).
@Suite struct OutboxBlameTests {
    private func handlers(_ poison: @escaping @Sendable (Database) throws -> Void) -> OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.handle(AddEntry.self) { db, command in
            if command.text == "poison" { try poison(db) }
            try db.execute(sql: "INSERT INTO entry (text) VALUES (?)", arguments: [command.text])
        }
        return handlers
    }

    private static let poisons: [@Sendable (Database) throws -> Void] = [
        { _ in throw DatabaseError(resultCode: .SQLITE_CANTOPEN) },
        { db in try db.execute(sql: "DROP TABLE roundtable_outbox_applied") },
        { db in
            let cursor = try Row.fetchCursor(db, sql: "SELECT * FROM entry")
            _ = try cursor.next()
            defer { withExtendedLifetime(cursor) {} }
            try db.execute(sql: "DROP TABLE scratch")
        },
    ]

    /// The error looks like one of the database, and is the command's own. Other commands are applied, and this one is set aside in the end.
    @Test(arguments: poisons.indices)
    func errorsLikeTheDatabasesBlockNoOtherCommand(index: Int) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try db.write { db in
            try db.execute(sql: "CREATE TABLE scratch (x); INSERT INTO entry (text) VALUES ('1'), ('2')")
        }
        let clock = Shared(Date())
        var handlers = handlers(Self.poisons[index])
        handlers.retries.maximumAttempts = 2
        let drain = world.rounds(db, handlers.played(clock))
        for text in ["poison", "after"] { try world.outbox("evil").submit(AddEntry(text: text)) }
        for text in ["a", "b", "c"] { try world.outbox("good").submit(AddEntry(text: text)) }
        for _ in 0..<3 { _ = try? drain() }
        #expect(Array(try db.texts().dropFirst(2)) == ["a", "b", "c"])
        for _ in 0..<4 {
            clock.change { $0 += 61 }
            _ = try? drain()
        }
        #expect(try db.texts().last == "after")
        #expect(try db.outbox.deadLetters().map(\.attempts) == [2])
    }

    /// There is no other command that would show which one is to blame.
    @Test func oneThatIsAloneIsSetAsideToo() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = handlers { _ in throw DatabaseError(resultCode: .SQLITE_LOCKED) }
        handlers.retries.maximumAttempts = 1
        let drain = world.rounds(db, handlers)
        for text in ["poison", "after"] { try world.outbox("evil").submit(AddEntry(text: text)) }
        for _ in 0..<7 { #expect(throws: DatabaseError.self) { try drain() } }
        #expect(try drain().setAside == 1)
        #expect(try db.texts() == ["after"])
    }

    @Test func anInterruptedCommandLetsOthersRunFirst() async throws {
        let world = try OutboxWorld()
        let db = try world.open { $0.process = ProcessSuspension() }
        let isInside = DispatchSemaphore(value: 0)
        let (runs, others) = (Shared(0), Shared<Int?>(nil))
        let handlers = handlers { db in
            runs.change { $0 += 1 }
            others.change { [count = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM entry")] in $0 = count }
            guard runs.value == 1 else { return }
            isInside.signal()
            while true { try db.execute(sql: "UPDATE entry SET text = text") }
        }
        let drain = world.rounds(db, handlers)
        for (sender, text) in [("a", "poison"), ("b", "1"), ("c", "2")] {
            try await world.outbox(sender).submit(AddEntry(text: text))
        }
        async let first = onThread { Result { try drain() } }
        await onThread { isInside.wait() }
        _ = await db.suspend(deadline: .now + .milliseconds(100))
        let interrupted = await first
        #expect(throws: DatabaseError.self) { try interrupted.get() }
        db.resume()
        #expect(try await onThread { Result { try drain() } }.get().applied == 3)
        #expect(runs.value == 2 && others.value == 2)
        #expect(try await db.outbox.deadLetters().isEmpty)
    }

    private final class Veto: TransactionObserver {
        let isOn = Shared(false)
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseWillCommit() throws { if isOn.value { throw Refused() } }
        func databaseDidCommit(_ db: Database) {}
        func databaseDidRollback(_ db: Database) {}
    }

    @Test func theErrorOfAnObserverThatRefusesAllCommitsIsThrown() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let veto = Veto()
        db.add(transactionObserver: veto, extent: .observerLifetime)
        for sender in ["a", "b"] { try world.outbox(sender).submit(AddEntry(text: sender)) }
        let drain = world.rounds(db, .entries())
        veto.isOn.change { $0 = true }
        #expect(throws: Refused.self) { try drain() }
        veto.isOn.change { $0 = false }
        #expect(try drain().applied == 2)
    }

    // MARK: Behind

    @Test func aDatabaseThatWasReplacedGetsNothing() throws {
        let world = try OutboxWorld()
        let old = try world.open(as: "old")
        let drain = world.rounds(old, .entries())
        try drain()
        for ending in ["", "-wal", "-shm", ControlBlock.ending] {
            let path = world.url.path + ending
            guard FileManager.default.fileExists(atPath: path) else { continue }
            try FileManager.default.moveItem(atPath: path, toPath: world.folder.file("moved").path + ending)
        }
        let new = try world.open(as: "new")
        let submission = try world.outbox().submit(AddEntry(text: "a"))
        #expect { try drain() } throws: { isLoss($0, of: old) }
        #expect(try submission.outcome(within: .zero) == .waiting)
        #expect(throws: SharedDatabaseError.self) { try old.texts() }
        #expect(world.files().count == 1)
        #expect(try world.rounds(new, .entries())().applied == 1)
    }

    /// Calls once, after a commit.
    private final class AfterCommit: TransactionObserver {
        private let body: Mutex<(@Sendable () throws -> Void)?>
        init(_ body: @escaping @Sendable () throws -> Void) { self.body = Mutex(body) }
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidCommit(_ db: Database) {
            guard (try? Int.fetchOne(db, sql: "SELECT COUNT(*) FROM entry")) == 1 else { return }
            let body = body.withLock { body in
                defer { body = nil }
                return body
            }
            #expect(throws: Never.self) { try body?() }
        }
        func databaseDidRollback(_ db: Database) {}
    }

    ///     an owner                                another
    ///     reads the files of two commands
    ///     applies the first
    ///                                             applies the second, and removes its file
    ///                                             forgets the ids, 31 days later
    ///     reaches the second
    @Test func whatWasForgottenIsNotAppliedAgain() throws {
        let world = try OutboxWorld()
        let (slow, other) = (try world.open(as: "slow"), try world.open(as: "other"))
        for sender in ["a", "b"] { try world.outbox(sender).submit(AddEntry(text: sender)) }
        let observer = AfterCommit {
            #expect(try world.rounds(other, .entries())().applied == 1)
            try world.rounds(other, OutboxHandlers.entries().played(Shared(Date() + 31 * 24 * 3600)))()
        }
        slow.add(transactionObserver: observer, extent: .observerLifetime)
        // The second does not fit into the first one's transaction.
        let report = try world.rounds(slow, .entries { if $0.text == "a" { usleep(15_000) } })()
        #expect(report.applied == 1)
        #expect(try slow.texts() == ["a", "b"])
        #expect(try slow.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM roundtable_outbox_applied") } == 0)
    }

    @Test func anOlderOwnerLeavesWhatItDoesNotKnow() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date())
        var handlers = OutboxHandlers.entries().played(clock)
        handlers.gracePeriod = .seconds(10)
        let old = world.rounds(db, handlers)
        handlers.handle(AddEntry2.self) { db, command in
            try db.execute(sql: "INSERT INTO entry (text) VALUES (?)", arguments: [command.text])
        }
        let new = world.rounds(db, handlers)
        func submit(_ number: Int) throws {
            try world.outbox().submit(AddEntry2(text: "new\(number)", stars: 1))
            try world.outbox().submit(AddEntry(text: "old\(number)"))
        }
        try submit(1)
        let report = try old()
        #expect(report.nextTry.map { abs($0.timeIntervalSince(clock.value) - 10) < 0.001 } == true)
        #expect(try db.outbox.deadLetters().isEmpty)
        try new()
        #expect(try db.texts() == ["new1", "old1"])
        try submit(2)
        try old()
        clock.change { $0 += 10.1 }
        #expect(try old().setAside == 1)
        #expect(try db.texts() == ["new1", "old1", "old2"])
    }

    // MARK: Answers and events

    @Test func anAnswerThatIsNotSoAnyMoreIsTakenBack() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let submission = try world.outbox().submit(AddEntry2(text: "a", stars: 1))
        #expect(try submission.outcome(within: .zero) == .waiting)
        let old = world.rounds(db, .entries())
        try old()
        #expect(world.files("answers").count == 1)
        var handlers = OutboxHandlers.entries()
        handlers.handle(AddEntry2.self) { _, _ in }
        try world.rounds(db, handlers)()
        #expect(world.files("answers").isEmpty)
        #expect(try submission.outcome(within: .zero) == .waiting)
        try old()
        #expect(try submission.outcome(within: .zero) == .applied)
        // One that is to be tried again is not answered until then.
        let again = try world.outbox().submit(AddEntry2(text: "b", stars: 1))
        try old()
        try db.outbox.retry(again.id)
        try old()
        #expect(world.files("answers").isEmpty)
        #expect(try again.outcome(within: .zero) == .waiting)
        try db.outbox.drop(again.id)
        try old()
        #expect(try again.outcome(within: .zero) == .dropped)
    }

    @Test func aConsumerOfEventsMayDrain() throws {
        let world = try OutboxWorld()
        let box = Shared<HandDrain?>(nil)
        let reports = Shared<[OutboxReport]>([])
        let db = try world.open { options in
            options.follow { (_: OutboxEvent) in
                _ = try? world.outbox("b").submit(AddEntry(text: "b"))
                if let report = try? box.value?() { reports.change { $0.append(report) } }
            }
        }
        let drain = world.rounds(db, .entries())
        box.change { $0 = drain }
        defer { box.change { $0 = nil } }
        try world.outbox("a").submit(AddEntry2(text: "unknown", stars: 1))
        try drain()
        db.reporter.waitForDeliveries()
        #expect(reports.value.map(\.applied) == [1])
    }

    @Test func drainingInAHandlerTraps() async throws {
        // Removed by this process: the one that traps does not.
        let folder = try TemporaryFolder()
        setenv("ROUNDTABLE_TRAP_FOLDER", folder.url.path, 1)
        await #expect(processExitsWith: .failure) {
            let world = OutboxWorld(
                inFolder: try #require(ProcessInfo.processInfo.environment["ROUNDTABLE_TRAP_FOLDER"])
            )
            let db = try world.open()
            let box = Shared<HandDrain?>(nil)
            let drain = world.rounds(db, .entries { _ in try box.value?() })
            box.change { $0 = drain }
            try world.outbox().submit(AddEntry(text: "a"))
            // A second later it would still wait.
            alarm(30)
            signal(SIGALRM) { _ in _exit(0) }
            try drain()
            _exit(0)
        }
        #expect(FileManager.default.fileExists(atPath: folder.file("db.sqlite").path))
    }

    @Test func oneThreadWaitsForAllAnswers() async throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let outbox = try world.outbox()
        let folder = OutboxFolder(databasePath: db.path)
        try await withThrowingTaskGroup(of: OutboxOutcome.self) { group in
            for number in 0..<60 {
                let submission = try await outbox.submit(AddEntry(text: "\(number)"))
                group.addTask { try await submission.outcome(within: .seconds(60)) }
            }
            try await eventually("all wait") { FolderNews.count(of: folder.path(of: .answers)) == 60 }
            _ = try await onThread { Result { try world.rounds(db, .entries())() } }.get()
            for try await outcome in group { #expect(outcome == .applied) }
        }
        try await eventually("no sender waits") { FolderNews.count(of: folder.path(of: .answers)) == 0 }
    }

    /// Whatever has come while it failed: once all is well, the next command is applied at once.
    @Test func aDrainThatPausesListens() async throws {
        let world = try OutboxWorld()
        let isFull = Shared(true)
        let failures = Shared(0)
        let applied = Shared<ContinuousClock.Instant?>(nil)
        let handlers = OutboxHandlers.entries { command in
            if isFull.value { throw DatabaseError(resultCode: .SQLITE_FULL) }
            if command.text == "b" { applied.change { $0 = .now } }
        }
        let db = try world.open { options in
            options.follow { (event: OutboxEvent) in if case .failed = event { failures.change { $0 += 1 } } }
        }
        try db.outbox.drain(with: handlers)
        try await world.outbox("a").submit(AddEntry(text: "a"))
        // It pauses for 250 ms, 500 ms, 1 s, 2 s; the next is 4 s.
        try await eventually("it has failed often") { failures.value >= 5 }
        isFull.change { $0 = false }
        let began = ContinuousClock.now
        try await world.outbox("b").submit(AddEntry(text: "b"))
        try await eventually("it is applied") { applied.value != nil }
        #expect(try #require(applied.value) - began < .seconds(3))
        try db.close()
    }

    /// **Rule X8**: by the system's clock, which moves between two looks.
    @Test func unknownCommandsWaitForAnOwnerThatKnowsThem() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers()
        handlers.gracePeriod = .seconds(60)
        let rounds = world.rounds(db, handlers)
        for number in 1...20 {
            try world.outbox("\(number)").submit(AddEntry(text: "\(number)"))
            let report = try rounds()
            #expect(report.setAside == 0 && report.nextTry != nil)
        }
        #expect(try world.rounds(db, .entries())().applied == 20)
    }

    /// **Rule X8**: a command that has failed is known to an owner, and does not become unknown while that owner waits for the next try.
    @Test func ownersThatKnowDifferentCommands() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date())
        let mayApply = Shared(false)
        var knowing = OutboxHandlers.entries { _ in if !mayApply.value { throw Refused() } }.played(clock)
        knowing.retries.firstDelay = .seconds(30)
        var other = OutboxHandlers().played(clock)
        other.gracePeriod = .seconds(10)
        let (knows, knowsNot) = (world.rounds(db, knowing), world.rounds(db, other))
        try world.outbox().submit(AddEntry(text: "a"))
        #expect(try knows().failed == 1)
        #expect(try knowsNot().setAside == 0)
        clock.change { $0 += 31 }
        #expect(try knowsNot().setAside == 0)
        clock.change { $0 += 5 }
        #expect(try knowsNot().setAside == 0)
        mayApply.change { $0 = true }
        #expect(try knows().applied == 1)
        // No owner tries the next command again.
        mayApply.change { $0 = false }
        try world.outbox().submit(AddEntry(text: "b"))
        #expect(try knows().failed == 1)
        clock.change { $0 += 41 }
        #expect(try knowsNot().setAside == 0)
        clock.change { $0 += 10.1 }
        #expect(try knowsNot().setAside == 1)
    }
}
