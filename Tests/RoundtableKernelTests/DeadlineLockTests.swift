import Foundation
import RoundtableKernel
import Testing

/// A lock that is waited for until a time of the monotonic clock.
@Suite struct DeadlineLockTests {
    /// Foundation traps at dates that are too far away, and only when the lock is taken.
    @Test func withoutADeadline() async {
        let lock = NSLock()
        #expect(lock.lock(until: .max))
        await confirmation { confirm in
            await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    #expect(lock.lock(until: .max))
                    lock.unlock()
                    continuation.resume()
                }
                Thread.detachNewThread {
                    // The other one is most likely waiting by now: if not, this test says less, and is as right.
                    Thread.sleep(forTimeInterval: 0.05)
                    lock.unlock()
                }
            }
            confirm()
        }
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
