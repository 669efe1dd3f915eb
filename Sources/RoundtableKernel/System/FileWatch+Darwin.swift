#if canImport(Darwin)
    import Darwin
    import Synchronization

    /// Waits until a file is written to, by any process; while there is no such file, until its folder changes.
    ///
    /// kqueue(2), one event at a time. For one thread, but for `interrupt`. Only for files whose descriptors may be closed (rule
    /// G5): not the database, not `-shm`.
    package final class FileWatch: @unchecked Sendable {
        // @unchecked: `watched` is confined to the waiting thread.
        package enum Outcome: Equatable, Sendable { case changed, interrupted, timedOut }

        private struct Waiting {
            let queue: Int32
            let interrupter: Interrupter
        }
        private struct State {
            /// Made by the first `arm` that the system has descriptors for.
            var waiting: Waiting?
            var isInterrupted = false
        }

        private let path: String
        private let folder: String
        private let state = Mutex(State())
        private var watched: Int32 = -1

        package init(path: String, folder: String) {
            self.path = path
            self.folder = folder
        }

        deinit {
            if watched >= 0 { close(watched) }
            if let queue = state.withLock({ $0.waiting?.queue }) { close(queue) }
        }

        /// Watches for the next write.
        ///
        /// - returns: whether there was one between the last wait and now, which `wait` does not report.
        /// - throws: `SystemError`, when the system has no descriptors to give. The caller tries again later.
        @discardableResult
        package func arm() throws -> Bool {
            let waiting = try makeWaiting()
            let hadEvent = try waitForInput(waiting.queue, waiting.interrupter, timeout: 0).input
            // Closing the descriptor removes its events from the queue.
            if watched >= 0 { close(watched) }
            watched = -1
            do {
                watched = try System.perform(.open, path) { open(path, O_EVTONLY | O_CLOEXEC) }
            } catch let error as SystemError where error.errno == ENOENT {
                watched = try System.perform(.open, folder) { open(folder, O_EVTONLY | O_CLOEXEC) }
            }
            var event = Darwin.kevent(
                ident: UInt(watched),
                filter: Int16(EVFILT_VNODE),
                flags: UInt16(EV_ADD | EV_CLEAR | EV_ONESHOT),
                fflags: UInt32(NOTE_WRITE | NOTE_EXTEND | NOTE_DELETE | NOTE_RENAME),
                data: 0,
                udata: nil
            )
            try System.perform(.kqueue, path) { kevent(waiting.queue, &event, 1, nil, 0, nil) }
            return hadEvent
        }

        private func makeWaiting() throws -> Waiting {
            try state.withLock { state in
                if let waiting = state.waiting { return waiting }
                let interrupter = try Interrupter()
                let queue = try System.perform(.kqueue, path) { kqueue() }
                let waiting = Waiting(queue: queue, interrupter: interrupter)
                if state.isInterrupted { interrupter.interrupt() }
                state.waiting = waiting
                return waiting
            }
        }

        /// Sleeps until what `arm` watches for has happened.
        package func wait() throws -> Outcome { try wait(timeout: nil) }

        /// Sleeps until what `arm` watches for has happened, or the time is over.
        package func wait(upTo time: Nanoseconds) throws -> Outcome { try wait(timeout: time) }

        /// Sleeps, whatever happens to the file. An interrupt ends it, or, where the system has no descriptors, is noticed at its end.
        package func pause(_ time: Nanoseconds) -> Outcome {
            if let waiting = state.withLock({ $0.waiting }),
                let input = try? waitForInput(nil, waiting.interrupter, timeout: time)
            {
                return input.interrupt ? .interrupted : .timedOut
            }
            if !state.withLock({ $0.isInterrupted }) { MonotonicClock.sleep(time) }
            return state.withLock { $0.isInterrupted } ? .interrupted : .timedOut
        }

        /// Ends all waits, for good. From any thread.
        package func interrupt() {
            state.withLock { state in
                state.isInterrupted = true
                state.waiting?.interrupter.interrupt()
            }
        }

        private func wait(timeout: Nanoseconds?) throws -> Outcome {
            let waiting = try makeWaiting()
            // A kqueue can be polled like any descriptor.
            let (changed, interrupted) = try waitForInput(waiting.queue, waiting.interrupter, timeout: timeout)
            if changed {
                var event = Darwin.kevent()
                var none = timespec()
                try System.perform(.kqueue, path) { kevent(waiting.queue, nil, 0, &event, 1, &none) }
            }
            return interrupted ? .interrupted : changed ? .changed : .timedOut
        }
    }
#endif
