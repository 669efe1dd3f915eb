import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// The steps of a write after its commit, and those that it leaves to other participants, while the gate closes (rules F2, F4, K6, K10).
@Suite struct SuspensionStepTests {
    /// Three times this makes a writer checkpoint by itself; more than four times, and it leaves that to other participants.
    private static let threshold = 50

    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func open(_ change: (inout SharedDatabase.Options) -> Void = { _ in }) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = ProcessSuspension()
        options.checkpointing = .automatic(threshold: Self.threshold)
        change(&options)
        let url = folder.file("players.sqlite")
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app", options: options)
    }

    /// Each row has a page of its own.
    private func add(pages: Int, _ db: Database) throws {
        let name = String(repeating: "x", count: 3500)
        for _ in 0..<pages { _ = try Player(name: name).inserted(db) }
    }

    private func count(_ counter: ControlBlock.Counter, _ db: SharedDatabase) throws -> Int {
        Int(try #require(db.seat.participant).block.value(of: counter))
    }

    private func suspend(_ db: SharedDatabase, milliseconds: Int) async -> SuspensionReport {
        await onThread { db.suspend(deadline: .now + .milliseconds(milliseconds)) }
    }

    /// Blocks each commit's observers until `body` says that they may continue.
    private final class Observer: TransactionObserver {
        let body: () -> Void
        init(_ body: @escaping () -> Void) { self.body = body }
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidRollback(_ db: Database) {}
        func databaseDidCommit(_ db: Database) { body() }
    }

    /// **F2**: a writer in need makes a step after its commit, which takes WRITE. The write is inside the gate, however far it has come.
    @Test func aStepAfterTheCommitIsInside() async throws {
        let (isHeldUp, isInStep) = (Shared(false), Shared(false))
        let mayContinue = DispatchSemaphore(value: 0)
        let db = try open { options in
            options.configuration.prepareDatabase { _ in
                guard isHeldUp.value else { return }
                isInStep.change { $0 = true }
                if mayContinue.wait(timeout: .now() + 60) == .success { mayContinue.signal() }
            }
        }
        defer { mayContinue.signal() }
        // The opening runs on one thread and is short, because looks at any database of this process wait for it.
        let (write, suspension) = await onThread {
            isHeldUp.change { $0 = true }
            let write = inOwnThread { try db.write { try add(pages: 3 * Self.threshold + 10, $0) } }
            isInStep.wait { $0 }
            let suspension = db.suspend(deadline: .now + .milliseconds(50))
            isHeldUp.change { $0 = false }
            mayContinue.signal()
            return (write, suspension)
        }
        try await write.value
        guard case .held(let access) = suspension.outcome else {
            Issue.record("the write is about to take WRITE, and the gate says: \(suspension)")
            return
        }
        #expect(access.kind == .write)
        #expect(await suspend(db, milliseconds: 5000).outcome == .released)
        db.resume()
        #expect(try await db.read { try Player.fetchCount($0) } == 3 * Self.threshold + 10, "it has committed")
    }

    /// **F4**: a write that has committed when the gate closes makes no step, and the step is made later (**K10**).
    @Test func noStepBeginsBehindTheGate() async throws {
        let db = try open()
        let (isNotified, mayEnd) = (Shared(false), Shared(false))
        let observer = Observer {
            isNotified.change { $0 = true }
            mayEnd.wait { $0 }
        }
        db.add(transactionObserver: observer, extent: .observerLifetime)
        let write = inThread { try db.write { try add(pages: 3 * Self.threshold + 10, $0) } }
        try await eventually("its observer is notified") { isNotified.value }
        #expect(await suspend(db, milliseconds: 60_000).outcome == .released)
        mayEnd.change { $0 = true }
        try await write.value
        #expect(try count(.checkpointsByWriters, db) == 0)
        #expect(try count(.walRestarts, db) == 0)
        #expect(db.writer.checkpointer?.link.isOpen == false)
        db.resume()
        try await eventually("it is made later, without a commit") { try count(.checkpoints, db) > 0 }
    }

    /// **K10**: a commit behind the closing gate wants a checkpoint in the background, which begins when the gate opens, without another commit.
    @Test func whatWasMissedIsMadeUpFor() async throws {
        let db = try open()
        let began = Shared(false)
        let write = inThread {
            try db.write { connection in
                try add(pages: Self.threshold + 10, connection)
                began.change { $0 = true }
                waitUntil("the gate is closed") { db.gate.isClosed }
            }
        }
        try await eventually("it writes") { began.value }
        #expect(await suspend(db, milliseconds: 60_000).outcome == .released)
        try await write.value
        #expect(try count(.checkpoints, db) == 0)
        #expect(db.writer.checkpointer?.isIdle == true)
        db.resume()
        try await eventually("a checkpoint is made") { try count(.checkpoints, db) > 0 }
    }

    /// **F3**: the suspension waits for the commit, and not for its observers. While they run, other participants have the answer.
    @Test func theAnswerComesAtTheCommit() async throws {
        let db = try open()
        let (began, isAnswered, wasAnswered) = (Shared(false), Shared(false), Shared(false))
        let observer = Observer {
            // This is far from the deadline of the suspension.
            let isInTime = isAnswered.wait(within: .seconds(20)) { $0 }
            wasAnswered.change { $0 = isInTime }
        }
        db.add(transactionObserver: observer, extent: .observerLifetime)
        let write = inThread {
            try db.write { connection in
                try add(pages: 1, connection)
                began.change { $0 = true }
                waitUntil("the gate is closed") { db.gate.isClosed }
            }
        }
        try await eventually("it writes") { began.value }
        #expect(await suspend(db, milliseconds: 60_000).outcome == .released)
        isAnswered.change { $0 = true }
        try await write.value
        #expect(wasAnswered.value, "the answer comes while the observer runs")
    }
}
