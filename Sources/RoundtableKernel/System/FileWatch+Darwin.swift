#if canImport(Darwin)
    import Darwin
    import Synchronization

    /// Waits until any process writes to a file or, while the file does not exist, until its folder changes.
    ///
    /// It uses kqueue(2), one event at a time. One thread uses the object; `interrupt` is safe from any thread. The file must be one
    /// whose descriptors may be closed (rule G5), so neither the database nor `-shm`.
    package final class FileWatch: @unchecked Sendable {
        // @unchecked: `watched` is confined to the waiting thread.
        package enum Outcome: Equatable, Sendable { case changed, interrupted, timedOut }

        private struct Waiting {
            let queue: Int32
            let interrupter: Interrupter
        }
        private struct State {
            /// The queue; nil until the first `arm` or `wait` that gets descriptors from the system.
            var waiting: Waiting?
            var isInterrupted = false
        }

        private let path: String
        private let folder: String
        private let state = Mutex(State())
        private var watched: Int32 = -1

        /// - parameter others: files beside it, whose loss is not watched here: their descriptors must not be closed (rule G5).
        package init(path: String, folder: String, others: [String] = []) {
            self.path = path
            self.folder = folder
        }

        deinit {
            if watched >= 0 { close(watched) }
            if let queue = state.withLock({ $0.waiting?.queue }) { close(queue) }
        }

        /// Watches for the next write.
        ///
        /// - returns: whether there was a write since the last wait, which `wait` does not report any more.
        /// - throws: `SystemError`, for example when no descriptors are available. The caller tries again later.
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

        /// Sleeps until the event that `arm` watches for happens, or the time is over.
        package func wait(upTo time: Nanoseconds? = nil) throws -> Outcome {
            let waiting = try makeWaiting()
            // A kqueue can be polled like any descriptor.
            let (changed, interrupted) = try waitForInput(waiting.queue, waiting.interrupter, timeout: time)
            if changed {
                var event = Darwin.kevent()
                var none = timespec()
                try System.perform(.kqueue, path) { kevent(waiting.queue, nil, 0, &event, 1, &none) }
            }
            return interrupted ? .interrupted : changed ? .changed : .timedOut
        }

        /// Sleeps for the given time even if the file changes. An interrupt ends the sleep or, if the system has no descriptors, takes
        /// effect at its end.
        package func pause(_ time: Nanoseconds) -> Outcome {
            if let waiting = state.withLock({ $0.waiting }),
                let input = try? waitForInput(nil, waiting.interrupter, timeout: time)
            {
                return input.interrupt ? .interrupted : .timedOut
            }
            if !state.withLock({ $0.isInterrupted }) { MonotonicClock.sleep(time) }
            return state.withLock { $0.isInterrupted } ? .interrupted : .timedOut
        }

        /// Ends the running wait and all later ones. Safe from any thread.
        package func interrupt() {
            state.withLock { state in
                state.isInterrupted = true
                state.waiting?.interrupter.interrupt()
            }
        }
    }
#endif
