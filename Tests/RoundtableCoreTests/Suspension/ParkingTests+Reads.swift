import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// Reads run, or come, while connections are closed.
extension ParkingTests {
    @Test func readsThatComeMeanwhile() async throws {
        let db = try open()
        try add("A", to: db)
        #expect(await park(db) == [])
        expectSuspended { _ = try db.read(Player.fetchCount) }
        expectSuspended { _ = try db.unsafeRead(Player.fetchCount) }
        expectSuspended { try db.barrierWriteWithoutTransaction { _ in } }
        let count = Task { try await db.read(Player.fetchCount) }
        let cancelled = Task { try await db.read(Player.fetchCount) }
        let later = Shared<Int?>(nil)
        db.asyncRead { result in
            let count = try? result.get().makeStatement(sql: "SELECT count(*) FROM player")
            let value = count.flatMap { try? Int.fetchOne($0) }
            later.change { $0 = value }
        }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(later.value == nil)
        db.unpark()
        #expect(try await count.value == 1)
        try await eventually("the read that was scheduled") { later.value == 1 }
    }

    /// There are more reads than connections: reads that wait in a blocked thread fail, and the other reads continue to wait.
    @Test func readsThatWaitForOtherReads() async throws {
        let db = try open { $0.maximumReaderCount = 1 }
        try add("A", to: db)
        let isReading = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let first = Task.detached {
            try await db.read { db in
                isReading.signal()
                mayEnd.wait()
                return try Player.fetchCount(db)
            }
        }
        await wait(isReading)
        let blocked = Shared<(any Error)?>(nil)
        let hasFailed = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            do { _ = try db.read(Player.fetchCount) } catch { blocked.change { $0 = error } }
            hasFailed.signal()
        }
        let waiting = Task.detached { try await db.read(Player.fetchCount) }
        let parked = Task.detached { await park(db) }
        await wait(hasFailed)
        #expect((blocked.value as? DatabaseError)?.isSuspension == true, "\(String(describing: blocked.value))")
        mayEnd.signal()
        #expect(try await first.value == 1)
        #expect(await parked.value == [])
        #expect(try openFiles == [])
        db.unpark()
        #expect(try await waiting.value == 1)
    }

    private func wait(_ semaphore: DispatchSemaphore) async {
        await onThread { semaphore.wait() }
    }

    private static let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    @Test func aLongReadIsInterrupted() async throws {
        let db = try open()
        let isReading = DispatchSemaphore(value: 0)
        let read = Task.detached {
            try await db.read { db in
                isReading.signal()
                // The first interruption ends only the first read.
                _ = try? Int.fetchOne(db, sql: Self.endless)
                return try Int.fetchOne(db, sql: Self.endless)
            }
        }
        await wait(isReading)
        let began = ContinuousClock.now
        #expect(await park(db, milliseconds: 1000) == [])
        #expect(ContinuousClock.now - began < .seconds(10))
        #expect(try openFiles == [])
        await #expect { try await read.value } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_INTERRUPT }
        db.unpark()
    }

    @Test func aReadThatComputesIsReported() async throws {
        let db = try open()
        let isReading = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let read = Task.detached {
            try await db.read { db in
                isReading.signal()
                mayEnd.wait()
                return try Player.fetchCount(db)
            }
        }
        await wait(isReading)
        #expect(await park(db, milliseconds: 500) == [HeldConnection(use: .reading)])
        #expect(try !openFiles.isEmpty)
        mayEnd.signal()
        #expect(try await read.value == 0)
        // The connection closes by itself, without any waiting thread.
        try await eventually("closed") { try openFiles.isEmpty }
        db.unpark()
        #expect(try await db.read(Player.fetchCount) == 0)
    }

    /// A read that runs when the database is resumed continues with its connection.
    @Test func resumedBeforeAReadHasEnded() async throws {
        let db = try open { $0.maximumReaderCount = 1 }
        let isReading = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let read = Task.detached {
            try await db.read { db in
                isReading.signal()
                mayEnd.wait()
                return try Player.fetchCount(db)
            }
        }
        await wait(isReading)
        let parked = Task.detached { await park(db) }
        try await eventually("parking") { db.parking.isParking }
        let began = ContinuousClock.now
        db.unpark()
        #expect(await !parked.value.isEmpty)
        #expect(ContinuousClock.now - began < .seconds(10))
        mayEnd.signal()
        #expect(try await read.value == 0)
        #expect(try await db.read(Player.fetchCount) == 0)
        try add("A", to: db)
    }
}
