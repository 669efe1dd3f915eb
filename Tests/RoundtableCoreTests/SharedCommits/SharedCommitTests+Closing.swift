import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// These tests suspend or close the database.
extension SharedCommitTests {
    /// Rule M6: writes of a suspended database wait for the gate, or fail.
    @Test func suspendedWritesWaitOrFail() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        world.insert("a")
        world.add(whileSuspended: .fail) { _ in 0 }
        // The access that keeps the writer busy is inside of the gate until it is released.
        let suspending = Task.detached { world.process.suspend(until: MonotonicClock.now + 20_000_000_000) }
        try await eventually("the gate is closed") { world.db.gate.isClosed }
        world.release()
        _ = await suspending.value
        #expect(try world.names == [])
        #expect(throws: DatabaseError.self) { try world.tasks[2].wait().get() }
        world.process.resume()
        _ = try await world.tasks[1].value
        #expect(try world.names == ["a"])
    }

    /// Rule M5: the gate aborts a transaction that takes too long. Its writes fail with that error; the writes that have not begun run when it opens.
    @Test(arguments: [false, true]) func theRestOfAnAbortedGroupRunsWhenTheGateOpens(isComputing: Bool) async throws {
        let world = try SharedCommitWorld(.early())
        world.keepWriterBusy()
        let isRunning = Shared(false)
        world.insert("a")
        world.add { db in
            isRunning.change { $0 = true }
            try db.execute(sql: "INSERT INTO player (name) VALUES ('long')")
            if isComputing {
                // No statement is interrupted, so the closure succeeds.
                while !world.db.gate.isAborted { usleep(1_000) }
                return 0
            }
            return try Int.fetchOne(
                db,
                sql:
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000000) SELECT max(i) FROM n"
            )!
        }
        world.insert("b")
        world.release()
        isRunning.wait { $0 }
        let suspensions = world.process.suspend(until: MonotonicClock.now + 30_000_000_000)
        #expect(suspensions.allSatisfy { $0.isReleased })
        guard case .rolledBack(let access)? = suspensions.first?.outcome else {
            Issue.record("\(suspensions)")
            return
        }
        #expect(access.kind == .write)
        #expect(try world.names == [])
        world.process.resume()
        let results = await world.results()
        for result in results[0...1] {
            let error = #expect(throws: DatabaseError.self) { try result.get() }
            #expect(error?.isSuspension == true)
        }
        _ = try results[2].get()
        #expect(try world.names == ["b"])
    }

    /// Rule M5: a write that comes while the gate aborts a transaction has not begun. It does not fail, and runs when the gate opens.
    @Test func aWriteThatComesBeforeTheAbort() async throws {
        let world = try SharedCommitWorld(.early()) { $0.slice = .seconds(60) }
        world.keepWriterBusy()
        let isRunning = Shared(false)
        // No other write waits when it begins, so it has no savepoint.
        world.add { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('aborted')")
            isRunning.change { $0 = true }
            waitUntil("the gate aborts it") { world.db.gate.isAborted }
            return 0
        }
        world.release()
        isRunning.wait { $0 }
        world.insert("a")
        let suspensions = world.process.suspend(until: MonotonicClock.now + 30_000_000_000)
        #expect(suspensions.allSatisfy { $0.isReleased }, "\(suspensions)")
        #expect(try world.names == [])
        world.process.resume()
        let results = await world.results()
        let error = #expect(throws: DatabaseError.self) { try results[0].get() }
        #expect(error?.isSuspension == true)
        #expect(throws: Never.self) { try results[1].get() }
        #expect(try world.names == ["a"])
    }

    /// Writes that wait when the database is closed are committed, or fail because it is closed.
    @Test func closing() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        for number in 1...10 { world.insert("\(number)") }
        let closing = Task.detached { try world.db.close() }
        world.release()
        try await closing.value
        var count = 0
        for result in await world.results() {
            switch result {
            case .success: count += 1
            case .failure(let error as DatabaseError): #expect(error.resultCode == .SQLITE_MISUSE)
            case .failure(let error): throw error
            }
        }
        let queue = try DatabaseQueue(path: world.db.path)
        #expect(try queue.inDatabase { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM player") } == count)
    }

    /// The queue of the writer may be the last that uses a database which its owner has dropped without closing it. SQLite must then be used
    /// by one thread at a time: otherwise, this crashes in about one of six runs.
    @Test func droppingWithoutClosing() async throws {
        for _ in 0..<300 {
            let world = try SharedCommitWorld()
            world.keepWriterBusy()
            for name in ["a", "b", "c"] { world.insert(name) }
            world.release()
            for result in await world.results() { _ = try result.get() }
        }
    }
}
