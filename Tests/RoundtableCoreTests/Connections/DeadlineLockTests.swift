import Foundation
import RoundtableGate
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import RoundtableCore

/// These tests lock with a deadline of the monotonic clock.
@Suite struct DeadlineLockTests {
    /// Foundation traps at dates that are too far away, and only when the lock is taken.
    @Test func withoutADeadline() throws {
        let lock = NSLock()
        #expect(lock.lock(until: .max))
        let thread = Mutex<SleepingThread?>(nil)
        let hasLocked = MonotonicSemaphore()
        Thread.detachNewThread {
            thread.withLock { $0 = .current }
            #expect(lock.lock(until: .max))
            lock.unlock()
            hasLocked.signal()
        }
        try eventually("it has begun") { thread.withLock { $0 != nil } }
        try thread.withLock { $0 }?.waitUntilItSleeps()
        lock.unlock()
        #expect(hasLocked.wait(upTo: 30_000_000_000))
    }

    @Test func aDeadlineThatIsOver() {
        let lock = NSLock()
        #expect(lock.lock(until: 0))
        #expect(!lock.lock(until: 0))
        #expect(!lock.lock(until: MonotonicClock.now + 1_000_000))
        lock.unlock()
        #expect(lock.lock(until: 0))
        lock.unlock()
    }
}
