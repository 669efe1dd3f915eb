import Foundation
import GRDB
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles
@testable import RoundtableGate

/// Rule X13.
@Suite struct PerformTests {
    /// No thread drains: what is submitted stays to be seen.
    private func world(
        _ handlers: OutboxHandlers = .entries(),
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> (OutboxWorld, SharedDatabase) {
        let world = try OutboxWorld()
        let db = try world.open { options in
            options.process = ProcessSuspension()
            change(&options)
        }
        db.drains.add(OutboxDrain(unattended: db, handlers: handlers))
        return (world, db)
    }

    @Test func whatCanBeDoneIsDone() async throws {
        let (world, db) = try world()
        #expect(try await db.perform(AddEntry(text: "a")).isApplied)
        let id = UUID()
        #expect(try await db.perform(AddEntry(text: "b"), id: id).isApplied)
        #expect(try await db.perform(AddEntry(text: "b"), id: id).isApplied)
        #expect(try await db.read { try String.fetchAll($0, sql: "SELECT text FROM entry") } == ["a", "b"])
        #expect(world.files().isEmpty)
    }

    @Test func anErrorOfTheHandlerIsThrown() async throws {
        let (world, db) = try world(.entries { _ in throw Refused() })
        await #expect(throws: Refused()) { try await db.perform(AddEntry(text: "a")) }
        #expect(try await db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") } == 0)
        #expect(world.files().isEmpty)
    }

    @Test func whileSuspendedItIsSubmitted() async throws {
        let (world, db) = try world()
        _ = await db.suspend(deadline: .now + .seconds(1))
        #expect(try await !db.perform(AddEntry(text: "a")).isApplied)
        #expect(world.files().count == 1)
        db.resume()
        // An earlier one waits: the order is kept.
        #expect(try await !db.perform(AddEntry(text: "b")).isApplied)
        let texts = try await onThread {
            Result { () -> [String] in
                try world.rounds(db, .entries())()
                return try db.texts()
            }
        }.get()
        #expect(texts == ["a", "b"])
        #expect(try await db.perform(AddEntry(text: "c")).isApplied)
    }

    @Test(arguments: [false, true])
    func interruptedItIsSubmittedUnderTheSameID(swallows: Bool) async throws {
        let isInside = DispatchSemaphore(value: 0)
        var handlers = OutboxHandlers()
        let runs = Shared(0)
        handlers.handle(AddEntry.self) { db, command in
            runs.change { $0 += 1 }
            try db.execute(sql: "INSERT INTO entry (text) VALUES (?)", arguments: [command.text])
            guard runs.value == 1 else { return }
            isInside.signal()
            do {
                // Until it is interrupted.
                while true { try db.execute(sql: "UPDATE entry SET text = text") }
            } catch {
                if swallows { throw Refused() }
                throw error
            }
        }
        let known = handlers
        let (world, db) = try world(known)
        let id = UUID()
        async let performance = db.perform(AddEntry(text: "a"), id: id)
        await onThread { isInside.wait() }
        _ = await db.suspend(deadline: .now + .milliseconds(100))
        let performed = try await performance
        guard case .submitted(let submission) = performed else { return #expect(Bool(false), "\(performed)") }
        #expect(submission.id == id)
        db.resume()
        let texts = try await onThread {
            Result { () -> [String] in
                try world.rounds(db, known)()
                return try db.texts()
            }
        }.get()
        #expect(texts == ["a"])
    }

    /// Another participant holds the turn; another thread holds the connection; a stranger holds the lock.
    @Test(arguments: ["participant", "thread", "stranger"])
    func withoutATurnItIsSubmitted(holder: String) async throws {
        let (world, db) = try world()
        let other = try world.open(as: "other")
        let stranger = try DatabaseQueue(path: world.url.path)
        let (isIn, mayGo) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let hold: @Sendable (Database) -> Void = { _ in
            isIn.signal()
            mayGo.wait()
        }
        async let holding: Void = onThread {
            switch holder {
            case "participant": try? other.write(hold)
            case "thread": try? db.write(hold)
            default:
                try? stranger.inTransaction(.immediate) {
                    hold($0); return .commit
                }
            }
        }
        await onThread { isIn.wait() }
        let began = ContinuousClock.now
        let performed = try await db.perform(AddEntry(text: "a"), patience: .milliseconds(50))
        #expect(!performed.isApplied)
        #expect(ContinuousClock.now - began < .seconds(3))
        mayGo.signal()
        await holding
        #expect(world.files().count == 1)
        // The abandoned attempt is not made later.
        #expect(try await db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") } == 0)
    }

    @Test func aProcessThatMayNotOrCannotWriteSubmits() async throws {
        let (world, db) = try world()
        #expect(try await !db.perform(AddEntry2(text: "a", stars: 1)).isApplied)
        let answer = try await SharedDatabase.openReadOnly(at: world.url, schema: .unmanaged, as: "reader")
        guard case .available(let reader) = answer else { return #expect(Bool(false), "\(answer)") }
        #expect(try await !reader.perform(AddEntry(text: "b")).isApplied)
        #expect(world.files().count == 2)
        #expect(throws: OutboxError.readOnly(path: reader.path)) { try reader.outbox.drain(with: .entries()) }
        withExtendedLifetime(db) {}
    }

    @Test func whatWasDecidedOtherwiseIsAnError() async throws {
        let (world, db) = try world()
        let id = UUID()
        try await world.outbox().submit(AddEntry2(text: "a", stars: 1), id: id)
        try await onThread { Result { _ = try world.rounds(db, .entries())() } }.get()
        await #expect(throws: OutboxError.self) { try await db.perform(AddEntry(text: "a"), id: id) }
        try await db.outbox.drop(id)
        await #expect(throws: OutboxError.decidedBefore(path: db.path, id: id, outcome: .dropped)) {
            try await db.perform(AddEntry(text: "a"), id: id)
        }
    }
}
