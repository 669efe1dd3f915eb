#if os(Linux)
    import Synchronization

    /// The pending events of one watch. Any thread delivers events; one thread waits for them.
    final class WatchMailbox: Sendable {
        struct Contents {
            /// The inotify(7) bits of all events since the last `take()`.
            var events: UInt32 = 0
            var isInterrupted = false
        }

        private let contents = Mutex(Contents())
        /// The number of deliveries. The waiting thread sleeps on it.
        ///
        /// nonisolated(unsafe): the pointer is set once, and freed when the last reference to this object ends.
        nonisolated(unsafe) private let count: UnsafeMutablePointer<Atomic<UInt32>>

        /// The pause after a failed futex wait, in ns. It keeps the waiting thread from spinning.
        private static let pauseAfterFailure: Nanoseconds = 10_000_000

        init() {
            count = .allocate(capacity: 1)
            count.initialize(to: Atomic(0))
        }

        deinit {
            count.deinitialize(count: 1)
            count.deallocate()
        }

        func tell(_ events: UInt32) { change { $0.events |= events } }

        /// Ends the running wait, and all later ones.
        func interrupt() { change { $0.isInterrupted = true } }

        private func change(_ body: (inout Contents) -> Void) {
            contents.withLock { body(&$0) }
            count.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
            Futex.wake(count, all: true)
        }

        /// Returns the pending events and clears them.
        func take() -> Contents {
            contents.withLock { contents in
                defer { contents.events = 0 }
                return contents
            }
        }

        /// Sleeps until an event or an interrupt is pending, and takes it. The result has neither when the time is over.
        func wait(upTo time: Nanoseconds?) -> Contents {
            sleep(upTo: time) {
                let contents = take()
                return contents.events != 0 || contents.isInterrupted ? contents : nil
            } ?? Contents()
        }

        /// Sleeps for the given time even if events arrive. An interrupt ends the sleep.
        ///
        /// - returns: whether it was interrupted.
        func pause(_ time: Nanoseconds) -> Bool {
            sleep(upTo: time) { contents.withLock { $0.isInterrupted ? true : nil } } ?? false
        }

        private func sleep<T>(upTo time: Nanoseconds?, until found: () -> T?) -> T? {
            let end = time.map { MonotonicClock.now.addingSaturating($0) }
            while true {
                let seen = count.pointee.load(ordering: .sequentiallyConsistent)
                if let found = found() { return found }
                let rest = end.map { $0.subtractingSaturating(MonotonicClock.now) } ?? .max
                if rest == 0 { return nil }
                if case .failed = Futex.wait(on: count, while: seen, timeout: rest) {
                    MonotonicClock.sleep(min(rest, Self.pauseAfterFailure))
                }
            }
        }
    }
#endif
