import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles

/// What is reported about commands that are not applied: why they wait, why they were set aside, that they were dropped.
@Suite struct OutboxContentsTests {
    /// Rule X7: a command that a handler refuses for good is not tried again.
    @Test func aRefusalIsForGood() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let events = Shared<[String]>([])
        let handlers = OutboxHandlers.entries { command in
            if command.text == "taken" { throw OutboxRefusal("seat 7 is taken") }
        }
        let drain = world.rounds(db, handlers.played(events: events))
        let refused = try world.outbox().submit(AddEntry(text: "taken"))
        try world.outbox().submit(AddEntry(text: "after"))
        let report = try drain()
        #expect(report.setAside == 1 && report.applied == 1 && report.failed == 0)
        #expect(events.value == ["set aside refused"])
        let letter = try #require(try db.outbox.deadLetters().first)
        #expect(letter.reason == .refused && letter.attempts == 1 && letter.error == "seat 7 is taken")
        #expect(try db.texts() == ["after"])
        #expect(try refused.outcome(within: .zero) == .waiting)
        try drain()
        #expect(try refused.outcome(within: .zero) == .setAside(.refused, error: "seat 7 is taken"))
    }

    /// Also one that takes the transaction with it.
    @Test func aRefusalWithoutATransactionIsForGood() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers()
        handlers.handle(AddEntry.self) { db, _ in
            try db.execute(sql: "ROLLBACK")
            throw OutboxRefusal("no")
        }
        try world.outbox().submit(AddEntry(text: "a"))
        #expect(try world.rounds(db, handlers)().setAside == 1)
        #expect(try db.outbox.deadLetters().map(\.reason) == [.refused])
    }

    @Test func aRefusalIsThrownByPerform() async throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try db.outbox.drain(with: .entries { _ in throw OutboxRefusal("no") })
        await #expect(throws: OutboxRefusal("no")) { try await db.perform(AddEntry(text: "a")) }
        #expect(world.files().isEmpty)
        try db.close()
    }

    @Test func eachReasonIsReported() throws {
        struct Other: OutboxCommand {
            static let name = "add-entry"
            static let version = 1
            var number: Int
        }
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers.entries { _ in throw Refused() }
        handlers.retries.maximumAttempts = 1
        let outbox = try world.outbox()
        let submissions = [
            try outbox.submit(AddEntry(text: "a")), try outbox.submit(AddEntry2(text: "b", stars: 1)),
            try outbox.submit(Other(number: 1)),
        ]
        for submission in submissions { #expect(try submission.outcome(within: .zero) == .waiting) }
        try world.rounds(db, handlers)()
        let reasons = try submissions.map { submission -> DeadLetter.Reason? in
            guard case .setAside(let reason, _) = try submission.outcome(within: .zero) else { return nil }
            return reason
        }
        #expect(reasons == [.failed, .unknown, .undecodable])
    }

    // MARK: Waiting

    @Test func whyACommandWaits() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date(timeIntervalSince1970: 2_000_000_000))
        let bad = try world.outbox("a").submit(AddEntry(text: "bad"))
        try world.outbox("a").submit(AddEntry(text: "after"))
        let drain = world.rounds(db, OutboxHandlers.entries { _ in throw Refused() }.played(clock))
        var contents = try db.outbox.contents()
        #expect(contents.waiting.map(\.waitsFor) == [.owner, .owner])
        #expect(contents.waiting.map(\.attempts) == [0, 0])
        try drain()
        clock.change { $0 += 1 }
        try drain()
        contents = try db.outbox.contents()
        let first = try #require(contents.waiting.first)
        #expect(first.waitsFor == .nextTry && first.attempts == 2 && first.lastError == "Refused()")
        #expect(abs(try #require(first.nextTry).timeIntervalSince(clock.value) - 0.2) < 0.001)
        let second = try #require(contents.waiting.last)
        #expect(second.waitsFor == .earlierCommand(bad.id) && second.attempts == 0 && second.nextTry == nil)
        // Files do not show this.
        let files = try CommandOutbox.contents(forDatabaseAt: world.url).waiting
        #expect(files.map(\.waitsFor) == [.owner, .owner] && files.map(\.attempts) == [nil, nil])
        // As it is while its owner is about to remove it.
        try db.write { try OutboxTables.record(bad.id, .applied, at: Date(), $0) }
        contents = try db.outbox.contents()
        #expect(contents.waiting.map(\.waitsFor) == [.removal(.applied), .owner])
    }

    @Test func aNewerFileIsInTheWayOfItsSender() throws {
        let world = try OutboxWorld()
        try world.outbox("a").submit(AddEntry(text: "1"))
        try world.outbox("b").submit(AddEntry(text: "1"))
        let path = try #require(try CommandOutbox.contents(forDatabaseAt: world.url).waiting.first).path
        var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        bytes[8] = 2
        bytes.replaceSubrange(
            120..<128,
            with: withUnsafeBytes(of: Checksum.fnv1a(bytes[..<120]).littleEndian, Array.init)
        )
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        try world.outbox("a").submit(AddEntry(text: "2"))
        let contents = try CommandOutbox.contents(forDatabaseAt: world.url)
        #expect(contents.unreadable.count == 1)
        #expect(contents.waiting.map(\.waitsFor) == [.earlierFile(path: path), .owner])
    }

    /// Rule X7: the new tries of a dead letter are counted from zero, and reported beside the old ones.
    @Test func theNewTriesOfADeadLetter() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date(timeIntervalSince1970: 2_000_000_000))
        let reason = Shared("first")
        var handlers = OutboxHandlers.entries { _ in throw OutboxRefusal(reason.value) }
        let id = try world.outbox().submit(AddEntry(text: "a")).id
        try world.rounds(db, handlers.played(clock))()
        var letter = try #require(try db.outbox.deadLetters().first)
        #expect(letter.attempts == 1 && letter.newAttempts == 0 && letter.nextTry == nil && letter.newError == nil)

        handlers = .entries { _ in throw Refused() }
        let drain = world.rounds(db, handlers.played(clock))
        try db.outbox.retry(id)
        try drain()
        clock.change { $0 += 1 }
        try drain()
        letter = try #require(try db.outbox.deadLetters().first)
        #expect(letter.isToBeRetried && letter.attempts == 1 && letter.error == "first")
        #expect(letter.newAttempts == 2 && letter.newError == "Refused()")
        #expect(abs(try #require(letter.nextTry).timeIntervalSince(clock.value) - 0.2) < 0.001)
        // Set aside again, they are the old ones.
        reason.change { $0 = "second" }
        clock.change { $0 += 1 }
        try world.rounds(db, OutboxHandlers.entries { _ in throw OutboxRefusal(reason.value) }.played(clock))()
        letter = try #require(try db.outbox.deadLetters().first)
        #expect(!letter.isToBeRetried && letter.attempts == 3 && letter.error == "second")
        #expect(letter.newAttempts == 0 && letter.nextTry == nil && letter.newError == nil)
    }

    /// When dead letters are tried again at different times, the owner wakes up for the first.
    @Test func theEarliestOfTwoDeadLetters() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date(timeIntervalSince1970: 2_000_000_000))
        for sender in ["a", "b"] { try world.outbox(sender).submit(AddEntry(text: sender)) }
        try world.rounds(db, OutboxHandlers.entries { _ in throw OutboxRefusal("no") }.played(clock))()
        let drain = world.rounds(db, OutboxHandlers.entries { _ in throw Refused() }.played(clock))
        for letter in try db.outbox.deadLetters() {
            try db.outbox.retry(letter.id)
            try drain()
            clock.change { $0 += 0.02 }
        }
        let dates = try db.outbox.deadLetters().map { try #require($0.nextTry) }
        #expect(dates.count == 2 && dates[0] < dates[1])
        #expect(try drain().nextTry == dates[0])
    }

    // MARK: Dropping

    /// No owner drains: the process that drops the letter reports it.
    @Test func theSenderLearnsThatALetterWasDropped() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers.entries { _ in throw Refused() }
        handlers.retries.maximumAttempts = 1
        let submission = try world.outbox().submit(AddEntry(text: "a"))
        try world.rounds(db, handlers)()
        // One that is to be tried again is not answered.
        try db.outbox.retry(submission.id)
        #expect(try submission.outcome(within: .zero) == .waiting)
        try db.outbox.drop(submission.id)
        #expect(try submission.outcome(within: .zero) == .dropped)
        #expect(world.files("questions").isEmpty && world.files("answers").isEmpty)
    }

    @Test func theSenderLearnsThatACommandWasDropped() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox()
        let (one, two) = (try outbox.submit(AddEntry(text: "1")), try outbox.submit(AddEntry(text: "2")))
        for submission in [one, two] { #expect(try submission.outcome(within: .zero) == world.noDatabase) }
        var waiting = try CommandOutbox.contents(forDatabaseAt: world.url).waiting
        // Before there is a database.
        #expect(try outbox.drop(waiting[0], forAbsentDatabaseAt: world.url) == .dropped)
        #expect(try outbox.drop(waiting[0], forAbsentDatabaseAt: world.url) == .gone)
        #expect(try one.outcome(within: .zero) == .dropped)
        let db = try world.open()
        waiting = try db.outbox.contents().waiting
        #expect(waiting.map(\.id) == [two.id])
        // What was decided is in the database alone.
        #expect(try outbox.drop(waiting[0], forAbsentDatabaseAt: world.url) == .databaseExists)
        #expect(world.files().count == 1)
        #expect(try db.outbox.dropWaiting(waiting[0]) == .dropped)
        #expect(try two.outcome(within: .zero) == .dropped)
        #expect(world.files().isEmpty && world.files("questions").isEmpty && world.files("answers").isEmpty)
        #expect(try world.rounds(db, .entries())() == OutboxReport())
    }
}
