#if canImport(Darwin)
    import Darwin

    /// Waits until a file is written to, by any process; while there is no such file, until its folder changes.
    ///
    /// kqueue(2), one event at a time. For one thread, but for `interrupt`. Only for files whose descriptors may be closed (rule
    /// G5): not the database, not `-shm`.
    package final class FileWatch: @unchecked Sendable {
        // @unchecked: `watched` is confined to the waiting thread.
        package enum Outcome: Equatable, Sendable { case changed, interrupted, timedOut }

        private let path: String
        private let folder: String
        private let queue: Int32
        private let interrupter: Interrupter
        private var watched: Int32 = -1

        package init(path: String, folder: String) throws {
            self.path = path
            self.folder = folder
            interrupter = try Interrupter()
            queue = try System.perform(.kqueue, path) { kqueue() }
        }

        deinit {
            if watched >= 0 { close(watched) }
            close(queue)
        }

        /// Watches for the next write.
        ///
        /// - returns: whether there was one between the last wait and now, which will not be told.
        @discardableResult
        package func arm() throws -> Bool {
            let hadEvent = try waitForInput(queue, interrupter, timeout: 0).input
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
            try System.perform(.kqueue, path) { kevent(queue, &event, 1, nil, 0, nil) }
            return hadEvent
        }

        /// Sleeps until what `arm` watches for has happened.
        package func wait() throws -> Outcome { try wait(timeout: nil) }

        /// The same, but not for longer than this.
        package func wait(upTo time: Nanoseconds) throws -> Outcome { try wait(timeout: time) }

        /// Sleeps, whatever happens to the file.
        package func pause(_ time: Nanoseconds) throws -> Outcome {
            try waitForInput(nil, interrupter, timeout: time).interrupt ? .interrupted : .timedOut
        }

        /// Ends all waits, for good. From any thread.
        package func interrupt() { interrupter.interrupt() }

        private func wait(timeout: Nanoseconds?) throws -> Outcome {
            // A kqueue can be polled like any descriptor.
            let (changed, interrupted) = try waitForInput(queue, interrupter, timeout: timeout)
            if changed {
                var event = Darwin.kevent()
                var none = timespec()
                try System.perform(.kqueue, path) { kevent(queue, nil, 0, &event, 1, &none) }
            }
            return interrupted ? .interrupted : changed ? .changed : .timedOut
        }
    }
#endif
