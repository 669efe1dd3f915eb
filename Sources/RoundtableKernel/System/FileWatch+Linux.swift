#if os(Linux)
    import Glibc

    /// Waits until a file is written to, by any process; while there is no such file, until something is created beside it.
    ///
    /// inotify(7), one event at a time: a file that is written all the time costs its writers one event per `arm`. For one thread,
    /// but for `interrupt`. All of a process share one instance (`WatchHub`).
    package final class FileWatch: Sendable {
        package enum Outcome: Equatable, Sendable { case changed, interrupted, timedOut }

        private let path: String
        private let folder: String
        private let hub = WatchHub.shared
        private let mailbox = WatchMailbox()

        private static let write = UInt32(IN_MODIFY) | UInt32(IN_MOVE_SELF) | UInt32(IN_DELETE_SELF)
        private static let arrival = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO)

        package init(path: String, folder: String) {
            self.path = path
            self.folder = folder
        }

        deinit { hub.leave(mailbox) }

        /// Watches for the next write.
        ///
        /// - returns: whether there was one between the last wait and now, which `wait` does not report.
        /// - throws: `SystemError`, when the system has no watch to give. The caller tries again later.
        @discardableResult
        package func arm() throws -> Bool {
            try hub.armOnce(mailbox, file: (path, Self.write), folder: (folder, Self.arrival))
        }

        /// Sleeps until what `arm` watches for has happened.
        package func wait() throws -> Outcome { wait(timeout: nil) }

        /// Sleeps until what `arm` watches for has happened, or the time is over.
        package func wait(upTo time: Nanoseconds) throws -> Outcome { wait(timeout: time) }

        /// Sleeps, whatever happens to the file.
        package func pause(_ time: Nanoseconds) -> Outcome { mailbox.pause(time) ? .interrupted : .timedOut }

        /// Ends all waits, for good. From any thread.
        package func interrupt() { mailbox.interrupt() }

        private func wait(timeout: Nanoseconds?) -> Outcome {
            let contents = mailbox.wait(upTo: timeout)
            return contents.isInterrupted ? .interrupted : contents.events != 0 ? .changed : .timedOut
        }
    }
#endif
