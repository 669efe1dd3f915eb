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
        /// Signaled with the first pending event, and with an interrupt. The waiting thread looks before it sleeps, so a signal that is left
        /// costs it one more look.
        private let changed = MonotonicSemaphore()

        func tell(_ events: UInt32) {
            let isFirst = contents.withLock { contents in
                defer { contents.events |= events }
                return contents.events == 0
            }
            if isFirst { changed.signal() }
        }

        /// Ends the running wait, and all later ones.
        func interrupt() {
            contents.withLock { $0.isInterrupted = true }
            changed.signal()
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
            let end = time.map { MonotonicClock.now.addingSaturating($0) } ?? .max
            repeat {
                if let found = found() { return found }
            } while changed.wait(until: end)
            return found()
        }
    }
#endif
