import Dispatch
import RoundtableKernel
import Synchronization

/// The publishers of a database.
final class SnapshotPublishers: Sendable {
    private let all = Mutex<[ObjectIdentifier: SnapshotPublishing]>([:])

    private var present: [SnapshotPublishing] { all.withLock { Array($0.values) } }

    func add(_ publishing: SnapshotPublishing) { all.withLock { $0[ObjectIdentifier(publishing)] = publishing } }

    func remove(_ publishing: SnapshotPublishing) {
        // It may be the last reference to it, and to the database: not under the lock.
        let removed = all.withLock { $0.removeValue(forKey: ObjectIdentifier(publishing)) }
        withExtendedLifetime(removed) {}
    }

    /// The database is about to be closed.
    func flush() { for publishing in present { publishing.flush() } }

    func end() { for publishing in present { publishing.end() } }

    /// All files hold the present state, and whoever follows that was told, when this returns.
    ///
    /// - throws: the first of the publishers' errors, after all have had their try.
    func publishNow() throws {
        var first: (any Error)?
        for publishing in present {
            do {
                _ = try publishing.publishTelling()
                publishing.waitForTelling()
            } catch SnapshotFileError.publishingEnded {
                // It has ended meanwhile.
            } catch {
                first = first ?? error
            }
        }
        if let first { throw first }
    }

    /// All publish, each on a thread of its own (rule V9).
    ///
    /// - Parameters:
    ///   - deadline: when to return at the latest, or soon after. Whoever has not come so far writes nothing any more.
    ///   - isCalledOff: asked now and then.
    func suspend(until deadline: Nanoseconds, isCalledOff: () -> Bool) {
        let publishers = present
        if publishers.isEmpty { return }
        let done = DispatchSemaphore(value: 0)
        let isOver = Flag()
        for publishing in publishers {
            publishing.suspend(isAllowed: { !isOver.isRaised && MonotonicClock.now < deadline }) { done.signal() }
        }
        var remaining = publishers.count
        while remaining > 0, !isCalledOff() {
            let time = deadline.subtractingSaturating(MonotonicClock.now)
            if time == 0 { break }
            let pause = DispatchTimeInterval.nanoseconds(Int(min(time, Self.interval)))
            if done.wait(timeout: .now() + pause) == .success { remaining -= 1 }
        }
        isOver.raise()
    }

    private static let interval: Nanoseconds = 10_000_000

    func resume() { for publishing in present { publishing.resume() } }

    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isRaised: Bool { value.load(ordering: .acquiring) }
        func raise() { value.store(true, ordering: .releasing) }
    }
}
