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

/// Submitting, and what the owner makes of it (rules X1 to X8, X11, X13).
@Suite struct OutboxTests {
    // MARK: Order

    @Test func commandsOfASenderAreAppliedInOrder() throws {
        let world = try OutboxWorld()
        // Before there is a database; by two streams, one after the other.
        let first = try world.outbox()
        for number in 1...12 { try first.submit(AddEntry(text: "\(number)")) }
        let second = try world.outbox()
        for number in 13...20 { try second.submit(AddEntry(text: "\(number)")) }
        let db = try world.open()
        let report = try world.rounds(db, .entries())()
        #expect(report.applied == 20)
        #expect(try db.texts() == (1...20).map(String.init))
        #expect(world.files().isEmpty)
        #expect(world.files("new").isEmpty)
    }

    /// Rule X6: a listing that has missed an older file, because files came meanwhile.
    @Test func aListingThatMissesAFileDoesNotChangeTheOrder() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox()
        for number in 1...3 { try outbox.submit(AddEntry(text: "\(number)")) }
        let db = try world.open()
        var handlers = OutboxHandlers.entries()
        let calls = Shared(0)
        handlers.environment.names = { path in
            let names = try System.names(inFolder: path)
            guard path.hasSuffix("commands") else { return names }
            calls.change { $0 += 1 }
            // The first sees the second and not the first command; the second all.
            let numbers: [Int] = calls.value == 1 ? [2] : [1, 2, 3]
            return names?.filter { name in numbers.contains { name.hasSuffix("\($0).command") } }
        }
        #expect(try world.rounds(db, handlers)().applied == 3)
        #expect(try db.texts() == ["1", "2", "3"])

        // Nothing is taken that comes after what only the second sees: something before it may be missing there.
        let folder = try OutboxFolder(databasePath: db.path).open(.commands)
        let isSecond = Shared(false)
        func name(_ number: UInt64) throws -> CommandFileName {
            try #require(CommandFileName(sender: "a", epoch: 1, stream: 7, number: number))
        }
        func listing(_ first: [UInt64], _ second: [UInt64]) throws -> OutboxListing {
            isSecond.change { $0 = false }
            return try OutboxListing(folder) { _ in
                defer { isSecond.change { $0 = true } }
                return try (isSecond.value ? second : first).map { try name($0).description }
            }
        }
        #expect(try listing([2, 1], [4, 2, 1]).commands["a"] == [name(1), name(2)])
        #expect(try !listing([2, 1], [4, 2, 1]).isCut)
        #expect(try listing([2], [4, 2, 1]).commands.isEmpty)
        #expect(try listing([2], [4, 2, 1]).isCut)
    }

    /// **Rule X6**: of two processes of one name, the one that began first continues.
    @Test func aListingThatMissesAFileOfAnotherProcess() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try world.outbox("other").submit(AddEntry(text: "0"))
        try world.rounds(db, .entries())()
        @Sendable func put(_ text: String, epoch: UInt64, _ number: UInt64) throws {
            let kind = OutboxCommandKind(name: AddEntry.name, version: AddEntry.version)
            let payload = try AddEntry(text: text).encoded()
            let file = CommandFile(id: UUID(), kind: kind, sender: "a", time: 1, payload: payload)
            let name = try #require(CommandFileName(sender: "a", epoch: epoch, stream: 7, number: number))
            let path = world.commands.appendingPathComponent("\(name)").path
            try System.makeFile(at: path, file.bytes, isDurable: false)
        }
        try put("later", epoch: 2, 1)
        let lists = Shared(0)
        var handlers = OutboxHandlers.entries()
        handlers.environment.names = { path in
            guard path.hasSuffix("commands") else { return try System.names(inFolder: path) }
            lists.change { $0 += 1 }
            guard lists.value == 2 else { return try System.names(inFolder: path) }
            // While it is read. It has passed the place of the first already.
            try put("1", epoch: 1, 1)
            try put("2", epoch: 1, 2)
            return try System.names(inFolder: path)?.filter { !$0.contains(".0000000001.00000007.000000000001.") }
        }
        try world.rounds(db, handlers)()
        #expect(try db.texts() == ["0", "1", "2", "later"])
    }

    @Test func namesAreInTheOrderOfTheirCommands() throws {
        let orders: [(UInt64, UInt32, UInt64)] = [
            (1, 0, 9), (1, 0, 10), (1, 0xA, 1), (1, .max, 1), (2, 0, 1), (10, 0, 1),
        ]
        let names = try orders.map { order in
            try #require(CommandFileName(sender: "Grüße / 1.2", epoch: order.0, stream: order.1, number: order.2))
        }
        #expect(names.sorted() == names)
        #expect(names.map(\.epoch) == orders.map(\.0))
        #expect(names.allSatisfy { CommandFileName($0.description) == $0 && $0.sender == "Grüße / 1.2" })
        let good = "a.0000000001.0000000f.000000000001.command"
        #expect(CommandFileName(good) != nil)
        for bad in [
            "", "a", good + "x", "." + good, good.uppercased(), "ä" + good, "a." + good, String(good.dropFirst(2)),
        ] {
            #expect(CommandFileName(bad) == nil, "\(bad)")
        }
    }

    @Test func sendersTakeTurns() throws {
        let world = try OutboxWorld()
        for sender in ["a", "b"] {
            let outbox = try world.outbox(sender)
            for number in 1...3 { try outbox.submit(AddEntry(text: "\(sender)\(number)")) }
        }
        let db = try world.open()
        try world.rounds(db, .entries())()
        #expect(try db.texts() == ["a1", "b1", "a2", "b2", "a3", "b3"])
    }

    // MARK: Once

    @Test func anIDIsAppliedOnce() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let drain = world.rounds(db, .entries())
        let id = UUID()
        let outbox = try world.outbox()
        try outbox.submit(AddEntry(text: "a"), id: id)
        try outbox.submit(AddEntry(text: "a"), id: id)
        #expect(try drain() == OutboxReport(applied: 1, known: 1))
        try outbox.submit(AddEntry(text: "a"), id: id)
        #expect(try drain() == OutboxReport(known: 1))
        #expect(try db.texts() == ["a"])
        #expect(world.files().isEmpty)
        #expect(try outbox.outcome(of: id, within: .zero) == .waiting)
        try drain()
        #expect(try outbox.outcome(of: id, within: .zero) == .applied)
    }

    /// Two owners at work on the same files: each command once, in order (rules X4 to X7).
    @Test func twoOwnersApplyEachOnce() async throws {
        let world = try OutboxWorld()
        let clock = Shared(Date())
        let attempts = Shared<[String: Int]>([:])
        let handlers = OutboxHandlers.entries { command in
            attempts.change { $0[command.text, default: 0] += 1 }
            // Some fail at first, in every process.
            if command.text.hasSuffix("7"), attempts.value[command.text] == 1 { throw Refused() }
        }
        var owners: [SharedDatabase] = []
        for name in ["one", "two"] { owners.append(try world.open(as: name)) }
        for owner in owners { try owner.outbox.drain(with: handlers.played(clock)) }
        await onThread {
            for sender in ["a", "b", "c"] {
                let outbox = try? world.outbox(sender)
                for number in 100..<200 { _ = try? outbox?.submit(AddEntry(text: "\(sender)\(number)")) }
            }
        }
        try await eventually("all are applied") {
            clock.change { $0 += 1 }
            return try owners[0].texts().count == 300
        }
        let texts = try owners[0].texts()
        for sender in ["a", "b", "c"] {
            #expect(texts.filter { $0.hasPrefix(sender) } == (100..<200).map { "\(sender)\($0)" })
        }
        try owners.forEach { try $0.close() }
    }

    @Test func idsAreForgottenWhenNoFileWaits() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date())
        let outbox = try world.outbox()
        try outbox.submit(AddEntry(text: "a"))
        try world.rounds(db, OutboxHandlers.entries().played(clock))()
        func ids() throws -> Int? {
            try db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM roundtable_outbox_applied") }
        }
        clock.change { $0 += 29 * 24 * 3600 }
        try world.rounds(db, OutboxHandlers.entries().played(clock))()
        #expect(try ids() == 1)
        clock.change { $0 += 2 * 24 * 3600 }
        try world.rounds(db, OutboxHandlers.entries().played(clock))()
        #expect(try ids() == 0)
    }

    // MARK: Failing

    @Test func aCommandThatFailsIsTriedAgainAndThenSetAside() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date())
        let events = Shared<[String]>([])
        var handlers = OutboxHandlers.entries { if $0.text == "bad" { throw Refused() } }
        handlers.retries.maximumAttempts = 3
        let drain = world.rounds(db, handlers.played(clock, events: events))
        let bad = try world.outbox("a").submit(AddEntry(text: "bad"))
        try world.outbox("a").submit(AddEntry(text: "after"))
        try world.outbox("b").submit(AddEntry(text: "other"))

        var report = try drain()
        #expect(report.failed == 1 && report.applied == 1)
        #expect(try db.texts() == ["other"])
        let next = try #require(report.nextTry)
        #expect(abs(next.timeIntervalSince(clock.value) - 0.1) < 0.001)
        // It is not tried before its time, whichever owner looks.
        #expect(try world.rounds(db, handlers.played(clock))().failed == 0)
        clock.change { $0 += 0.11 }
        report = try drain()
        #expect(report.failed == 1)
        #expect(abs(try #require(report.nextTry).timeIntervalSince(clock.value) - 0.2) < 0.001)
        clock.change { $0 += 0.21 }
        report = try drain()
        #expect(report.setAside == 1 && report.applied == 1 && report.nextTry == nil)
        #expect(try db.texts() == ["other", "after"])
        #expect(events.value == ["attempt 1 failed: Refused()", "attempt 2 failed: Refused()", "set aside failed"])
        let letter = try #require(try db.outbox.deadLetters().first)
        #expect(letter.id == bad.id && letter.attempts == 3 && letter.error.contains("Refused"))
        #expect(try AddEntry.decoded(from: letter.payload) == AddEntry(text: "bad"))
        #expect(try bad.outcome(within: .zero) == .waiting)
        try drain()
        #expect(try bad.outcome(within: .zero) == .setAside(.failed, error: letter.error))
    }

    @Test func aDeadLetterIsRetriedOrDropped() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let isBad = Shared(true)
        var handlers = OutboxHandlers.entries { _ in if isBad.value { throw Refused() } }
        handlers.retries.maximumAttempts = 1
        let drain = world.rounds(db, handlers)
        let outbox = try world.outbox()
        let (one, two) = (try outbox.submit(AddEntry(text: "1")), try outbox.submit(AddEntry(text: "2")))
        #expect(try drain().setAside == 2)
        try db.outbox.retry(one.id)
        #expect(try db.outbox.deadLetters().map(\.isToBeRetried) == [true, false])
        #expect(try drain().setAside == 1)
        #expect(try db.outbox.deadLetters().count == 2)
        isBad.change { $0 = false }
        // No process has requested it.
        #expect(try drain().applied == 0)
        try db.outbox.retry(one.id)
        #expect(try drain().applied == 1)
        try db.outbox.drop(two.id)
        #expect(try db.outbox.deadLetters().isEmpty)
        #expect(try db.texts() == ["1"])
        // It stays dropped.
        try outbox.submit(AddEntry(text: "2"), id: two.id)
        #expect(try drain().known == 1)
        #expect(throws: OutboxError.noSuchDeadLetter(path: db.path, id: two.id)) { try db.outbox.retry(two.id) }
    }

    @Test func anUnknownCommandIsKeptForAnOwnerThatKnowsIt() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let outbox = try world.outbox()
        try outbox.submit(AddEntry2(text: "new", stars: 5))
        try outbox.submit(AddEntry(text: "old"))
        var report = try world.rounds(db, .entries())()
        #expect(report.setAside == 1 && report.applied == 1)
        #expect(try db.outbox.deadLetters().first?.reason == .unknown)
        try outbox.submit(AddEntry(text: "waits"))
        var handlers = OutboxHandlers.entries()
        handlers.handle(AddEntry2.self) { db, command in
            try db.execute(sql: "INSERT INTO entry (text) VALUES (?)", arguments: [command.text])
        }
        report = try world.rounds(db, handlers)()
        #expect(report.applied == 2)
        #expect(try db.texts() == ["old", "new", "waits"])
        #expect(try db.outbox.deadLetters().isEmpty)
    }

    @Test func aPayloadOfAnotherTypeIsSetAsideAtOnce() throws {
        struct Other: OutboxCommand {
            static let name = "add-entry"
            static let version = 1
            var number: Int
        }
        let world = try OutboxWorld()
        let db = try world.open()
        try world.outbox().submit(Other(number: 1))
        #expect(try world.rounds(db, .entries())().setAside == 1)
        #expect(try db.outbox.deadLetters().first?.reason == .undecodable)
    }

    /// A handler that takes the transaction with it, or a deferred constraint that fails at the commit: only that command suffers.
    @Test(arguments: [
        "INSERT OR ROLLBACK INTO entry (id, text) VALUES (1, 'x'), (1, 'y')", "ROLLBACK",
        "INSERT INTO child VALUES (77)", "ROLLBACK TO roundtable_part; RELEASE roundtable_part",
        "ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT roundtable_part",
    ])
    func aCommandThatTakesTheTransactionWithIt(sql: String) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try db.write { db in
            try db.execute(
                sql: "CREATE TABLE child (parent REFERENCES entry DEFERRABLE INITIALLY DEFERRED)"
            )
        }
        var handlers = OutboxHandlers()
        handlers.retries.maximumAttempts = 1
        handlers.handle(AddEntry.self) { db, command in
            if command.text == "bad" { try db.execute(sql: sql) }
            try db.execute(sql: "INSERT INTO entry (text) VALUES (?)", arguments: [command.text])
        }
        for (sender, text) in [("a", "1"), ("b", "bad"), ("c", "2"), ("b", "3"), ("a", "4")] {
            try world.outbox(sender).submit(AddEntry(text: text))
        }
        let report = try world.rounds(db, handlers)()
        #expect(report.applied == 4 && report.setAside == 1)
        #expect(Set(try db.texts()) == ["1", "2", "3", "4"])
        #expect(try db.outbox.deadLetters().map(\.sender) == ["b"])
    }

    /// The answer that a command was set aside does not hold any more when it is to be tried again, and the owner is asked.
    @Test func aRetryWithdrawsTheAnswer() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers.entries { _ in throw Refused() }
        handlers.retries.maximumAttempts = 1
        try world.outbox().submit(AddEntry(text: "a"))
        #expect(try world.rounds(db, handlers)().setAside == 1)
        let id = try #require(try db.outbox.deadLetters().first).id
        let answers = URL(fileURLWithPath: db.outboxFolder.path(of: .answers))
        try FileManager.default.createDirectory(at: answers, withIntermediateDirectories: true)
        try Data("set aside".utf8).write(to: answers.appendingPathComponent(id.uuidString))
        try db.outbox.retry(id)
        #expect(try db.outboxFolder.names(in: .answers) == [])
        #expect(try db.outboxFolder.names(in: .questions) == [id.uuidString])
    }

    @Test func anErrorOfTheDatabaseIsNoTry() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let isFull = Shared(true)
        var handlers = OutboxHandlers.entries { _ in
            if isFull.value { throw DatabaseError(resultCode: .SQLITE_FULL) }
        }
        handlers.retries.maximumAttempts = 1
        let drain = world.rounds(db, handlers)
        try world.outbox().submit(AddEntry(text: "a"))
        for _ in 0..<3 { #expect(throws: DatabaseError.self) { try drain() } }
        isFull.change { $0 = false }
        #expect(try drain().applied == 1)
    }

    /// Errors of a full disk stay those of SQLite, and say what failed, where, in which program, and what to do next.
    @Test func anErrorOfAFullDiskSaysWhatNext() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers.entries()
        handlers.gracePeriod = .zero
        try world.outbox().submit(AddEntry2(text: "unknown", stars: 1))
        let drain = world.rounds(db, handlers)
        #expect(try drain().setAside == 1)
        try db.outbox.drain(with: handlers).cancel()
        // Whatever is changed takes room.
        try db.write { db in
            for change in ["UPDATE", "DELETE"] {
                try db.execute(
                    sql: """
                        CREATE TRIGGER on_\(change) AFTER \(change) ON roundtable_outbox_dead BEGIN
                            INSERT INTO entry (text) VALUES (hex(zeroblob(50000)));
                        END
                        """
                )
            }
        }
        func fill(_ isFull: Bool) throws {
            try db.write { db in
                let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
                try db.execute(sql: "PRAGMA max_page_count = \(isFull ? pages : 1 << 30)")
            }
        }
        func expectFull(_ consequence: String, _ body: () throws -> Void) {
            #expect {
                try body()
            } throws: { error in
                let text = "\(error)"
                return (error as? DatabaseError)?.resultCode == .SQLITE_FULL && text.contains(consequence)
                    && text.contains("\(db.path): no room to write (database or disk is full)")
                    && text.contains("Free space")
            }
        }
        let large = AddEntry(text: String(repeating: "x", count: 100_000))
        let submission = try world.outbox().submit(large)
        try fill(true)
        let name =
            "'add-entry' version 1 from 'widget' (\(submission.id)) is not applied. What waits in \(db.path)-outbox is kept"
        for _ in 0..<3 { expectFull(name) { _ = try drain() } }
        #expect(try db.outbox.contents().waiting.map(\.attempts) == [0])
        expectFull(") was neither applied nor submitted: perform it again") { _ = try db.perform(large) }
        let letter = try #require(try db.outbox.deadLetters().first).id
        expectFull("Nothing was changed: try again") { try db.outbox.retry(letter) }
        expectFull("Nothing was changed: try again") { try db.outbox.drop(letter) }
        try fill(false)
        #expect(try drain().applied == 1)
        try db.outbox.drop(letter)
        #expect(try db.outbox.deadLetters().isEmpty)
    }

    // MARK: The drain

    @Test func whatWaitedIsAppliedBeforeOpeningReturns() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox()
        for number in 1...250 { try outbox.submit(AddEntry(text: "\(number)")) }
        let db = try world.open { $0.outbox = .entries() }
        #expect(try db.texts().count == 250)
        try db.close()
    }

    @Test func whatComesIsAppliedAndAnswered() async throws {
        let world = try OutboxWorld()
        let db = try world.open { $0.outbox = .entries() }
        for number in 1...20 {
            let submission = try await world.outbox().submit(AddEntry(text: "\(number)"))
            #expect(try await submission.outcome(within: .seconds(20)) == .applied)
        }
        #expect(try await db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") } == 20)
        // The folder is taken away under it, and made again by the process that comes first.
        try FileManager.default.moveItem(at: world.folder.file("db.sqlite-outbox"), to: world.folder.file("away"))
        let submission = try await world.outbox().submit(AddEntry(text: "again"))
        #expect(try await submission.outcome(within: .seconds(20)) == .applied)
        try db.close()
    }

    @Test func aDrainKeepsNothingOpen() async throws {
        let world = try OutboxWorld()
        var db: SharedDatabase? = try world.open { $0.outbox = .entries() }
        weak let seen = db
        db = nil
        try await eventually("the database is released") { seen == nil }
        let closed = try world.open { $0.outbox = .entries() }
        try closed.close()
        try await world.outbox().submit(AddEntry(text: "a"))
        let other = try world.open { $0.outbox = .entries() }
        #expect(try other.texts() == ["a"])
        try other.close()
    }

    @Test func aDrainPausesWhileSuspended() async throws {
        let world = try OutboxWorld()
        let events = Shared<[String]>([])
        let db = try world.open {
            $0.process = ProcessSuspension()
            $0.outbox = OutboxHandlers.entries().played(events: events)
        }
        _ = await db.suspend(deadline: .now + .seconds(1))
        let submission = try await world.outbox().submit(AddEntry(text: "a"))
        #expect(try await submission.outcome(within: .milliseconds(200)) == .waiting)
        db.resume()
        #expect(try await submission.outcome(within: .seconds(20)) == .applied)
        // Closing does not wait for a drain that waits.
        _ = await db.suspend(deadline: .now + .seconds(1))
        try await world.outbox().submit(AddEntry(text: "b"))
        try db.close()
    }

    @Test func changesOfOwnTablesAreNotReported() async throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let drain = world.rounds(db, .entries())
        let outbox = try world.outbox()
        try await outbox.submit(AddEntry(text: "a"))
        _ = try await onThread { Result { try drain() } }.get()
        let changes = Shared<[DatabaseChange]>([])
        let observation = try db.observeChanges(in: .fullDatabase, on: DispatchQueue(label: "changes")) { change in
            changes.change { $0.append(change) }
        }
        defer { observation.cancel() }
        try await outbox.submit(AddEntry(text: "b"))
        _ = try await onThread { Result { try drain() } }.get()
        try await eventually("it is reported") { !changes.value.isEmpty }
        #expect(changes.value.map(\.tableNames) == [["entry"]])
    }
}

extension OutboxReport {
    init(applied: Int = 0, known: Int = 0) {
        self.init()
        self.applied = applied
        self.known = known
    }
}
