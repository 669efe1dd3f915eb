import Foundation
import RoundtableGate
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import RoundtableCore

@Suite struct MonotonicSemaphoreTests {
    @Test func signalsAreCounted() {
        let semaphore = MonotonicSemaphore()
        #expect(!semaphore.wait(upTo: 0))
        semaphore.signal()
        semaphore.signal()
        semaphore.wait()
        #expect(semaphore.wait(upTo: 0))
        #expect(!semaphore.wait(until: MonotonicClock.now))
    }

    @Test func theDeadline() {
        let semaphore = MonotonicSemaphore()
        let began = MonotonicClock.now
        #expect(!semaphore.wait(upTo: 20_000_000))
        #expect(MonotonicClock.now - began >= 20_000_000)
    }

    /// Each signal ends one wait, and none is lost.
    @Test(.timeLimit(.minutes(1))) func manyThreads() {
        let semaphore = MonotonicSemaphore()
        let taken = Atomic(0)
        let group = DispatchGroup()
        for number in 0..<4 {
            group.enter()
            Thread.detachNewThread {
                for _ in 0..<1000 {
                    if number % 2 == 0 {
                        semaphore.signal()
                    } else {
                        while !semaphore.wait(upTo: 1_000_000) {}
                        taken.wrappingAdd(1, ordering: .relaxed)
                    }
                }
                group.leave()
            }
        }
        group.wait()
        #expect(taken.load(ordering: .relaxed) == 2000)
        #expect(!semaphore.wait(upTo: 0))
    }

    #if os(Linux)
        /// No wait with a deadline waits for a time of the system's clock: if that were set back, the wait would be longer.
        @Test(arguments: [true, false]) func theSystemsClockDoesNotMatter(isSemaphore: Bool) throws {
            let semaphore = MonotonicSemaphore()
            let lock = NSLock()
            lock.lock()
            let thread = Mutex<String?>(nil)
            let end = MonotonicSemaphore()
            Thread.detachNewThread {
                let folder = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
                thread.withLock { $0 = folder }
                let time: Nanoseconds = 60_000_000_000
                #expect(isSemaphore ? semaphore.wait(upTo: time) : lock.lock(until: MonotonicClock.now + time))
                end.signal()
            }
            #if arch(x86_64)
                let futex = 202
            #else
                let futex = 98
            #endif
            // The system calls in which the thread was seen, and how many of them were waits for a futex.
            var (calls, waits) = (0, 0)
            try eventually("the wait is seen", within: .seconds(30)) {
                guard let folder = thread.withLock({ $0 }),
                    let text = try? String(contentsOfFile: "/proc/\(folder)/syscall", encoding: .utf8)
                else { return false }
                // The number of the call, and its arguments; `running` outside of a call. The operation of a futex(2) is its second argument.
                let words = text.split(separator: " ")
                guard words.count > 2, let call = Int(words[0]) else { return false }
                calls += 1
                if call == futex, let operation = Int(words[2].dropFirst(2), radix: 16) {
                    waits += 1
                    #expect(operation & 256 == 0, "FUTEX_CLOCK_REALTIME")
                }
                return (isSemaphore ? waits : calls) >= 20
            }
            if isSemaphore { semaphore.signal() } else { lock.unlock() }
            #expect(end.wait(upTo: 30_000_000_000))
        }
    #endif
}
