import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore
@testable import RoundtableGate

/// A write that waits for its turn: what its error says when it has waited too long, and how it is cancelled.
@Suite struct TurnWaitTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    /// The cancellation of a write ends its own waits for SQLite's locks, and none that comes after its turn.
    @Test func aCancellationEndsWithItsTurn() {
        let handler = BusyHandler(path: url.path, options: SharedDatabase.Options(), gate: nil)
        let busy = DatabaseError(resultCode: .SQLITE_BUSY)
        let cancellation = WaitCancellation()
        _ = handler.begin(requested: MonotonicClock.now, deadline: nil, cancellation: cancellation)
        #expect(handler.next(tries: 0))
        cancellation.cancel()
        #expect(!handler.next(tries: 1))
        #expect(handler.named(busy) is CancellationError)
        handler.end()
        // Reopening the connection waits for locks outside of any turn.
        handler.forgetWaits()
        #expect(handler.next(tries: 0))
        #expect(handler.named(busy) is DatabaseError)
    }

    /// A program that takes no turns holds the write lock: the wait for it is shown like a wait for the turn.
    @Test func aWaitForAStranger() async throws {
        let db = try open("app")
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: url.path, configuration: configuration)
        try stranger.inDatabase { try $0.beginTransaction(.immediate) }
        let writing = Task { try await db.write { try $0.execute(sql: "DELETE FROM player") } }
        func longestWait() throws -> Duration {
            try #require(try DatabaseStatus(ofDatabaseAt: url).participants.first).longestWait
        }
        try await eventually("the wait is shown") { try longestWait() >= .milliseconds(100) }
        try stranger.inDatabase { try $0.rollback() }
        try await writing.value
        #expect(try longestWait() >= .milliseconds(100))
    }

    /// The error of a timeout contains the author, the pid, the duration, and the line of code.
    @Test func busyHasAName() async throws {
        let holder = try open("holder")
        let other = try open("other") { $0.busyTimeout = .milliseconds(150) }
        let line: UInt = #line
        func check(_ body: () async throws -> Void) async {
            do {
                try await body()
                Issue.record("no error says that the database is locked")
            } catch let error as DatabaseError {
                #expect(error.resultCode == .SQLITE_BUSY)
                let message = error.message ?? ""
                let holder = "'holder' (pid \(getpid()), this process)"
                #expect(message.hasPrefix("database is locked: \(holder) has been writing for"))
                #expect(message.contains("TurnWaitTests.swift:\(line)"), "\(message)")
            } catch {
                Issue.record(error)
            }
        }
        try await holder.whileWriting(line: line) {
            await check { try await other.write { try $0.execute(sql: "DELETE FROM player") } }
            await check { try await other.writeWithoutTransaction { try $0.execute(sql: "DELETE FROM player") } }
            await check {
                try await withCheckedThrowingContinuation { continuation in
                    other.asyncWrite {
                        try $0.execute(sql: "DELETE FROM player")
                    } completion: { _, result in
                        continuation.resume(with: result)
                    }
                }
            }
            // Reads do not wait for writers.
            let count = try await other.read { try Player.fetchCount($0) }
            #expect(count == 0)
        }
    }

    /// A cancelled task does not wait for its turn.
    @Test func cancellationEndsTheWaitForTheTurn() async throws {
        let holder = try open("holder")
        let other = try open("other") { $0.busyTimeout = .seconds(60) }
        try await holder.whileWriting {
            let task = Task { try await other.write { try $0.execute(sql: "DELETE FROM player") } }
            let block = try ControlBlock.open(forDatabaseAt: other.path, writable: true)
            try await eventually("the other waits") { block.participants().contains { $0.waiting != nil } }
            task.cancel()
            let began = ContinuousClock.now
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(ContinuousClock.now - began < .seconds(5))
        }
    }
}
