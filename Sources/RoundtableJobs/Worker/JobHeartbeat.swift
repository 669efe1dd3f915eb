import Foundation
import RoundtableKernel
import Synchronization

/// Calls a closure at intervals while there is work, on a thread of its own: handlers may block all threads of Swift's tasks.
final class JobHeartbeat: Sendable {
    private let semaphore = MonotonicSemaphore()
    private let hasEnded = Atomic(false)
    /// Whether the thread waits without a deadline for `begin()`.
    private let isResting = Atomic(false)

    /// - Parameters:
    ///   - interval: in ms.
    ///   - hasWork: whether there is anything to do. If not, the thread sleeps until `begin()`.
    init(every interval: Int64, hasWork: @escaping @Sendable () -> Bool, _ beat: @escaping @Sendable () -> Void) {
        let interval = UInt64(max(1, interval)) * 1_000_000
        let thread = Thread { [semaphore, self] in
            while !hasEnded.load(ordering: .sequentiallyConsistent) {
                isResting.store(true, ordering: .sequentiallyConsistent)
                // Work that begins after this look finds the thread resting.
                if hasWork() {
                    isResting.store(false, ordering: .sequentiallyConsistent)
                } else {
                    semaphore.wait()
                }
                // A signal that is left from a look makes this beat come early.
                _ = semaphore.wait(until: MonotonicClock.now.addingSaturating(interval))
                if !hasEnded.load(ordering: .sequentiallyConsistent) { beat() }
            }
        }
        thread.name = "roundtable.jobs"
        thread.start()
    }

    /// Call it when there is work.
    func begin() {
        if isResting.exchange(false, ordering: .sequentiallyConsistent) { semaphore.signal() }
    }

    /// Ends the thread, after the beat that runs.
    func end() {
        hasEnded.store(true, ordering: .sequentiallyConsistent)
        // One for each wait of a round.
        semaphore.signal()
        semaphore.signal()
    }
}
