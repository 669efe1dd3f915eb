import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles

/// The largest and smallest limits, times and counts that their types have: each means what it says, and none traps.
@Suite struct OutboxExtremesTests {
    private static let longest = Duration.seconds(Int64.max)
    private static let shortest = Duration.seconds(Int64.min)

    @Test func limitsOfSenders() throws {
        let world = try OutboxWorld()
        for limit in [Int.max, Int.max - 1] {
            let outbox = try world.outbox {
                $0.maximumCommandSize = limit
                $0.maximumCount = limit
                $0.maximumBytes = limit
            }
            for text in ["a", "b"] { try outbox.submit(AddEntry(text: text)) }
        }
        #expect(world.files().count == 4)
        for limit in [0, -1, Int.min] {
            #expect(throws: OutboxError.self) {
                try world.outbox { $0.maximumCommandSize = limit }.submit(AddEntry(text: "a"))
            }
            #expect(throws: OutboxError.self) {
                try world.outbox { $0.maximumCount = limit }.submit(AddEntry(text: "a"))
            }
            #expect(throws: OutboxError.self) {
                try world.outbox { $0.maximumBytes = limit }.submit(AddEntry(text: "a"))
            }
        }
        #expect(world.files().count == 4)
    }

    /// Rule X7. A pause that is longer than any clock can show is still a pause, and later commands wait for it.
    @Test func pausesWithoutEnd() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date())
        let isBad = Shared(true)
        var handlers = OutboxHandlers.entries { _ in if isBad.value { throw Refused() } }
        handlers.retries.maximumAttempts = .max
        handlers.retries.firstDelay = Self.longest
        handlers.retries.maximumDelay = Self.longest
        handlers.gracePeriod = Self.longest
        let descriptions = Shared<[String]>([])
        var played = handlers.played(clock)
        played.environment.note = { event in descriptions.change { $0.append("\(event)") } }
        let drain = world.rounds(db, played)
        try world.outbox("a").submit(AddEntry(text: "bad"))
        try world.outbox("b").submit(AddEntry2(text: "unknown", stars: 1))
        let report = try drain()
        #expect(report.failed == 1 && report.setAside == 0)
        #expect(report.description.hasPrefix("1 failed, next try "))
        #expect(descriptions.value.count == 1 && descriptions.value[0].hasPrefix("try 1 of "))
        let waiting = try db.outbox.contents().waiting
        #expect(waiting.map(\.waitsFor) == [.nextTry, .owner] && "\(waiting[0])".contains("has failed 1 times"))
        clock.change { $0 += 1e9 }
        #expect(try drain().failed == 0)
        // Owners with the usual pauses take that time for one of a clock that was set back.
        isBad.change { $0 = false }
        handlers.retries = OutboxHandlers.Retries()
        handlers.gracePeriod = .zero
        let last = try world.rounds(db, handlers.played(clock))()
        #expect(last.applied == 1 && last.setAside == 1)
    }

    @Test func pausesBelowZero() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let clock = Shared(Date())
        var handlers = OutboxHandlers.entries { _ in throw Refused() }
        handlers.retries.maximumAttempts = 3
        handlers.retries.firstDelay = Self.shortest
        handlers.retries.maximumDelay = Self.shortest
        handlers.gracePeriod = Self.shortest
        try world.outbox("a").submit(AddEntry(text: "bad"))
        try world.outbox("b").submit(AddEntry2(text: "unknown", stars: 1))
        let drain = world.rounds(db, handlers.played(clock))
        let rounds = try (0..<3).map { _ in
            // The time of the next try is stored in seconds since 1970, which may round it up.
            clock.change { $0 += 0.001 }
            return try drain()
        }
        #expect(rounds.map(\.setAside) == [1, 0, 1], "\(rounds)")
        handlers.retries.maximumAttempts = .min
        try world.outbox("a").submit(AddEntry(text: "bad"))
        #expect(try world.rounds(db, handlers.played(clock))().setAside == 1)
    }

    /// A stranger has written into the table.
    @Test(arguments: [Int.max, Int.max - 1, -1, Int.min], ["0", "9e18", "-9e18", "9e999", "-9e999"])
    func countsAndTimesThatAreNeverReached(attempts: Int, next: String) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers.entries { _ in throw Refused() }
        let submission = try world.outbox().submit(AddEntry(text: "bad"))
        try world.rounds(db, handlers)()
        try db.write {
            try $0.execute(sql: "UPDATE roundtable_outbox_retries SET attempts = \(attempts), next = \(next)")
        }
        #expect(try db.outbox.contents().waiting.map(\.attempts) == [attempts])
        #expect(try db.outbox.contents().waiting.allSatisfy { "\($0)".contains("has failed") })
        handlers.retries.maximumAttempts = .max
        let report = try world.rounds(db, handlers)()
        #expect(report.failed + report.setAside == 1)
        #expect(try db.outbox.contents().waiting.first?.attempts == (attempts > 0 ? nil : 1))
        #expect(try db.outbox.deadLetters().map(\.id) == (attempts > 0 ? [submission.id] : []))
    }

    @Test func waitsWithoutEnd() async throws {
        let world = try OutboxWorld()
        let db = try world.open {
            $0.outbox = .entries()
            $0.drainOnOpenLimit = Self.longest
        }
        let outbox = try world.outbox()
        let submission = try await outbox.submit(AddEntry(text: "a"))
        #expect(try await submission.outcome(within: Self.longest) == .applied)
        let blocking = try await onThread { Result { try submission.outcome(within: Self.longest) } }.get()
        #expect(blocking == .applied)
        #expect(try await outbox.outcome(of: UUID(), within: Self.shortest) == .waiting)
        #expect(try await db.perform(AddEntry(text: "b"), patience: Self.longest).isApplied)
        _ = try await db.perform(AddEntry(text: "c"), patience: Self.shortest)
        try await eventually("all are applied") { try db.texts().count == 3 }
        try db.close()
    }

    @Test func timesAndVersionsOfFiles() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try world.outbox("other").submit(AddEntry(text: "0"))
        try world.rounds(db, .entries())()
        for (number, time) in [UInt64.max, 0].enumerated() {
            let kind = OutboxCommandKind(name: "none", version: .max)
            let file = CommandFile(id: UUID(), kind: kind, sender: "a", time: time, payload: Data())
            let name = try #require(CommandFileName(sender: "a", epoch: 1, stream: 1, number: UInt64(number + 1)))
            try System.makeFile(at: world.commands.path + "/\(name)", file.bytes, isDurable: false)
        }
        #expect(try db.outbox.contents().waiting.allSatisfy { "\($0)".contains("version \(Int.max) ") })
        #expect(try world.rounds(db, .entries())().setAside == 2)
        let letters = try db.outbox.deadLetters()
        try #require(letters.count == 2)
        #expect(letters[0].command.time > .max / 2 && letters[1].command.time == 0)
        #expect(letters.map(\.version) == [.max, .max])
    }
}
