#if !canImport(os)
    import Dispatch
    import Glibc
    import RoundtableCore

    /// Standard error. The rate of lines is limited for the process, and not for a database: a program that opens one again and again has no
    /// more of them.
    enum SystemEventLog {
        private static let log = LineLog(later: later, write: { StandardError.write($0 + "\n") })

        static func write(_ event: SharedDatabase.Event) { log.note(event) }

        @Sendable private static func later(_ time: Duration, _ body: @escaping @Sendable () -> Void) {
            let seconds = Double(time.components.seconds) + 1
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + seconds, execute: body)
        }
    }

    /// Writing to standard error, which may be a pipe that its reader has closed.
    enum StandardError {
        /// Writes a text in one call if the system allows it, so that lines of several threads do not mix. Errors are ignored, because
        /// there is no place to report them.
        ///
        /// A write to a closed pipe sends SIGPIPE to the thread, which ends a process that does not handle it. A program must not end
        /// because of a log that it has not asked for, so the signal is blocked meanwhile, and taken back.
        static func write(_ text: String) {
            var pipe = sigset_t()
            sigemptyset(&pipe)
            sigaddset(&pipe, SIGPIPE)
            var before = sigset_t()
            var pending = sigset_t()
            guard pthread_sigmask(SIG_BLOCK, &pipe, &before) == 0 else { return }
            defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
            sigpending(&pending)
            let wasPending = sigismember(&pending, SIGPIPE) == 1
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty {
                let count = bytes.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
                if count > 0 {
                    bytes = bytes.dropFirst(count)
                } else if count == 0 || errno != EINTR {
                    break
                }
            }
            if wasPending { return }
            var none = timespec()
            while sigtimedwait(&pipe, nil, &none) == -1, errno == EINTR {}
        }
    }
#endif
