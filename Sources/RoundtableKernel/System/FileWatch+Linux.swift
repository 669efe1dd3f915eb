#if os(Linux)
    import Glibc

    /// Waits until a file is written to, by any process; while there is no such file, until something is created beside it.
    ///
    /// inotify(7), one event at a time: a file that is written all the time costs its writers one event per `arm`. For one thread,
    /// but for `interrupt`.
    package final class FileWatch: Sendable {
        package enum Outcome: Equatable, Sendable { case changed, interrupted, timedOut }

        private let path: String
        private let folder: String
        private let descriptor: Int32
        private let interrupter: Interrupter

        package init(path: String, folder: String) throws {
            self.path = path
            self.folder = folder
            interrupter = try Interrupter()
            descriptor = try System.perform(.inotify, path) { inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK)) }
        }

        deinit { close(descriptor) }

        /// Watches for the next write.
        ///
        /// - returns: whether there was one between the last wait and now, which will not be told.
        @discardableResult
        package func arm() throws -> Bool {
            let hadEvent = drain()
            let oneWrite = UInt32(IN_MODIFY) | UInt32(IN_MOVE_SELF) | UInt32(IN_DELETE_SELF) | inOneShot
            do {
                try System.perform(.inotify, path) { inotify_add_watch(descriptor, path, oneWrite) }
            } catch let error as SystemError where error.errno == ENOENT {
                let oneArrival = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO) | inOneShot
                try System.perform(.inotify, folder) { inotify_add_watch(descriptor, folder, oneArrival) }
            }
            return hadEvent
        }

        /// Sleeps until what `arm` watches for has happened.
        package func wait() throws -> Outcome { try wait(for: descriptor, timeout: nil) }

        /// The same, but not for longer than this.
        package func wait(upTo time: Nanoseconds) throws -> Outcome { try wait(for: descriptor, timeout: time) }

        /// Sleeps, whatever happens to the file.
        package func pause(_ time: Nanoseconds) throws -> Outcome { try wait(for: nil, timeout: time) }

        /// Ends all waits, for good. From any thread.
        package func interrupt() { interrupter.interrupt() }

        private func wait(for descriptor: Int32?, timeout: Nanoseconds?) throws -> Outcome {
            let (changed, interrupted) = try waitForInput(descriptor, interrupter, timeout: timeout)
            if changed { _ = drain() }
            return interrupted ? .interrupted : changed ? .changed : .timedOut
        }

        private func drain() -> Bool {
            var buffer = [UInt8](repeating: 0, count: 4096)
            var hadEvent = false
            while read(descriptor, &buffer, buffer.count) > 0 { hadEvent = true }
            return hadEvent
        }
    }

    /// A macro of its own form, which Swift does not import.
    private let inOneShot: UInt32 = 0x8000_0000
#endif
