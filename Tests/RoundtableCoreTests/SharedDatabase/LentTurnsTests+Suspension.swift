import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// What a suspension of one database is for the other.
extension LentTurnsTests {
    /// A database that begins to take turns while the first one of a chain is suspended or resumed ends as the others.
    @Test func requestsDuringAnOpening() async throws {
        for suspends in [true, false] {
            for _ in 0..<3_000 {
                let gates = (0..<3).map { SuspensionGate(path: "/\($0)", policy: .writeLocks, process: process) }
                gates[0].add(dependent: gates[1])
                if !suspends { gates[0].change { $0.own.isSuspended = true } }
                async let added: Void = gates[1].add(dependent: gates[2])
                gates[0].change { $0.own.isSuspended = suspends }
                await added
                #expect(gates.map(\.isClosed) == [suspends, suspends, suspends])
            }
        }
    }

    private var soon: ContinuousClock.Instant { .now + .milliseconds(200) }

    /// Both are suspended with the first, and resumed with it.
    @Test func suspendedTogether() async throws {
        let side = own.side
        #expect(await own.main.suspend(deadline: soon).outcome == .released)
        #expect(side.isSuspended && !other.side.isSuspended)
        let error = #expect(throws: DatabaseError.self) { try run(Self.insert, in: side) }
        #expect(error?.isSuspension == true)
        let waiting = Task { try await side.write { try $0.execute(sql: Self.insert) } }
        let hasWritten = Shared(false)
        side.asyncWriteWithoutTransaction { db in
            hasWritten.change { $0 = (try? db.execute(sql: Self.insert)) != nil }
        }
        try run(Self.insert, in: other.side)
        own.main.resume()
        #expect(!side.isSuspended)
        try await waiting.value
        try await eventually("the write that was requested meanwhile") { hasWritten.value }
        #expect(try count(side) == 3)
        // So is another one that takes these turns.
        let third = try await openThird(turnsOf: own.main)
        #expect(await own.main.suspend(deadline: soon).outcome == .released)
        #expect(side.isSuspended && third.isSuspended)
        own.main.resume()
        #expect(!side.isSuspended && !third.isSuspended)
        // The second can be suspended alone.
        #expect(await side.suspend(deadline: soon).outcome == .released)
        #expect(!own.main.isSuspended)
        try own.main.insert("A")
        side.resume()
        try run(Self.insert, in: side)
    }

    /// A running write of the second is rolled back when the first is suspended.
    @Test func aRunningWriteIsRolledBack() async throws {
        let (side, main) = (own.side, own.main)
        let hasBegun = Shared(false)
        let task = Task.detached {
            try await side.write(sharesCommit: false) { db in
                try db.execute(sql: Self.insert)
                hasBegun.change { $0 = true }
                let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
                _ = try Int.fetchOne(db, sql: sql)
            }
        }
        try await eventually("it runs") { hasBegun.value }
        let report = await main.suspend(deadline: .now + .seconds(20))
        guard case .rolledBack(let access) = report.outcome else { return #expect(Bool(false), "\(report)") }
        #expect(access.kind == .write && access.callSite?.contains("LentTurnsTests") == true)
        #expect(report.path == side.path)
        let error = await #expect(throws: DatabaseError.self) { try await task.value }
        #expect(error?.isSuspension == true)
        main.resume()
        #expect(try count(side) == 0)
    }

    /// A protected access of the second one can write while the first one is suspended. What it has committed is announced when that one is
    /// resumed.
    @Test func aProtectedAccessOfTheSecond() async throws {
        let (main, side) = (own.main, own.side)
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        _ = await main.suspend(deadline: soon)
        try await side.withProtectedAccess {
            #expect(!side.isSuspended && main.isSuspended)
            try await side.write { try $0.execute(sql: Self.insert) }
        }
        #expect(try count(side) == 1)
        #expect(changes.value.isEmpty)
        main.resume()
        try await eventually("it is announced") { changes.value == [.some(["note"])] }
        withExtendedLifetime(observation) {}
    }

    /// A protected access of the first one protects the second one, also if that is opened within it.
    @Test func openedInAProtectedAccess() async throws {
        let main = own.main
        _ = await main.suspend(deadline: soon)
        let third = try await main.withProtectedAccess {
            let third = try await openThird(turnsOf: main)
            try await third.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
            return third
        }
        #expect(third.isSuspended)
        #expect(try third.names() == ["A"])
    }

    /// A database that is opened while the other one is suspended is suspended, too.
    @Test func openedWhileTheFirstIsSuspended() async throws {
        let main = own.main
        _ = await main.suspend(deadline: soon)
        let opening = Task { try await openThird(turnsOf: main) }
        main.resume()
        let third = try await opening.value
        try await third.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
        #expect(try third.names() == ["A"])
    }

    /// An observer of the second one that takes long delays neither a suspension of the first nor its announcement nor its turn.
    @Test func aSlowObserverOfTheSecond() async throws {
        let (main, side) = (own.main, own.side)
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        let (hasBegun, mayEnd) = (Shared(false), Shared(false))
        let writing = Task.detached {
            try await side.write(sharesCommit: false) { db in
                try db.execute(sql: Self.insert)
                db.afterNextTransaction { _ in
                    hasBegun.change { $0 = true }
                    mayEnd.wait { $0 }
                }
            }
        }
        try await eventually("it has committed") { hasBegun.value }
        try await other.main.write { try $0.execute(sql: Self.attachedInsert) }
        let report = await main.suspend(deadline: .now + .seconds(20))
        #expect(report.outcome == .released && report.duration < .seconds(10))
        main.resume()
        mayEnd.change { $0 = true }
        try await writing.value
        try await eventually("it is announced") { changes.value.contains(.some(["note"])) && changes.value.count == 2 }
        withExtendedLifetime(observation) {}
    }

    /// The suspension of the first one names a write of the second that still holds its lock.
    @Test func aLockOfTheSecondIsReported() async throws {
        let (hasBegun, mayEnd) = (Shared(false), Shared(false))
        own.side.asyncWrite { db in
            try db.execute(sql: Self.insert)
            hasBegun.change { $0 = true }
            mayEnd.wait { $0 }
        } completion: { _, _ in
        }
        try await eventually("it runs") { hasBegun.value }
        let report = await own.main.suspend(deadline: .now + .milliseconds(50))
        mayEnd.change { $0 = true }
        guard case .held(let access) = report.outcome else { return #expect(Bool(false), "\(report)") }
        #expect(access.callSite?.contains("LentTurnsTests") == true)
        own.main.resume()
    }

    /// The end of a protected access of the first one ends what the second one still does.
    @Test func theEndOfAProtectedAccess() async throws {
        let (side, main) = (own.side, own.main)
        _ = await main.suspend(deadline: soon)
        let outcome = Shared<Result<Void, any Error>?>(nil)
        try await main.withProtectedAccess {
            #expect(!side.isSuspended)
            let hasBegun = Shared(false)
            side.asyncWrite { db in
                try db.execute(sql: Self.insert)
                hasBegun.change { $0 = true }
                let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
                _ = try Int.fetchOne(db, sql: sql)
            } completion: { _, result in
                outcome.change { $0 = result }
            }
            try await eventually("it runs") { hasBegun.value }
        }
        #expect(side.isSuspended)
        try await eventually("it was ended") { outcome.value != nil }
        #expect(throws: DatabaseError.self) { try outcome.value?.get() }
        main.resume()
        #expect(try count(side) == 0)
    }
}
