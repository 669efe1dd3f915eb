import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import RoundtableCore

/// The lock that the threads of one raw handle wait for (rule U2).
@Suite struct TurnstileTests {
    private struct Refused: Error {}

    private func deadline(in time: Nanoseconds) -> Nanoseconds { MonotonicClock.now + time }

    /// A thread that got the turnstile, and stops waiting before it sees that, hands it on.
    @Test(.timeLimit(.minutes(1))) func aThreadThatStopsWaitingHandsItOn() throws {
        let turnstile = Turnstile()
        #expect(try turnstile.pass(until: deadline(in: 0), limit: nil) {})
        let checks = Atomic(0)
        let isOver = MonotonicSemaphore()
        let thread = Mutex<SleepingThread?>(nil)
        Thread {
            thread.withLock { $0 = .current }
            // The first check comes before the wait; the second one after the turnstile was handed over.
            let refused = #expect(throws: Refused.self) {
                try turnstile.pass(until: deadline(in: 30_000_000_000), limit: nil) {
                    if checks.add(1, ordering: .sequentiallyConsistent).newValue > 1 { throw Refused() }
                }
            }
            _ = refused
            isOver.signal()
        }
        .start()
        try eventually("the second thread waits") { checks.load(ordering: .sequentiallyConsistent) == 1 }
        // Before it sleeps, it would see the turnstile without a second check.
        try thread.withLock { $0 }?.waitUntilItSleeps()
        turnstile.leave()
        #expect(isOver.wait(upTo: 20_000_000_000))
        #expect(try turnstile.pass(until: deadline(in: 10_000_000_000), limit: nil) {})
        turnstile.leave()
    }

    /// A thread that stops waiting leaves the line.
    @Test(.timeLimit(.minutes(1))) func aLateThreadLeavesTheLine() throws {
        let turnstile = Turnstile()
        #expect(try turnstile.pass(until: deadline(in: 0), limit: nil) {})
        #expect(try !turnstile.pass(until: deadline(in: 20_000_000), limit: nil) {})
        turnstile.leave()
        #expect(try turnstile.pass(until: deadline(in: 10_000_000_000), limit: nil) {})
        turnstile.leave()
    }
}
