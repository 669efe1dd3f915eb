import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

extension SharedCommitTests {
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
}
