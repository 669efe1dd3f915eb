import CRoundtableShims

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension System {
    /// Whether this process ignores a signal. It inherits that from the program that started it.
    package static func ignoresSignal(_ number: Int32) -> Bool { rt_signal_is_ignored(number) != 0 }
}

/// Handles the signals that stop a process and can be handled: SIGTSTP (Ctrl-Z), SIGTTIN and SIGTTOU (a background job that uses the
/// terminal). It also handles SIGCONT, which resumes the process.
///
/// The handlers forward these signals to one thread, which blocks them, and write a byte into a pipe. That thread does everything else.
/// While a signal is pending there, the system keeps account of it, and SIGCONT discards it. A second thread only sleeps with these
/// signals unblocked, so that they arrive whatever mask the process has inherited.
///
/// A process has one object, which is never removed. Only the thread that created it may use it, except for `wake`.
package final class StopSignals: Sendable {
    private let descriptor: Int32
    private let writer: Int32
    /// The number of the three stop signals that are handled. The others were ignored, and stay ignored.
    package let count: Int

    /// - precondition: this is the only object of the process.
    /// - throws: `SystemError` when the pipe cannot be created or the handlers cannot be installed.
    package init() throws {
        var ends: [Int32] = [-1, -1]
        try System.perform(.pipe) { pipe(&ends) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        (descriptor, writer) = (ends[0], ends[1])
        let count = System.performReturningCount(.sigaction) { rt_stop_signals_handle(ends[1]) }
        // The pipe stays open, because an installed handler may write to it.
        guard count >= 0 else { throw SystemError(call: .sigaction, errno: -count) }
        self.count = Int(count)
    }

    /// Sleeps until a signal has arrived since the last return, or `wake` is called.
    package func wait() throws {
        var buffer = [UInt8](repeating: 0, count: 512)
        try System.perform(.read) { read(descriptor, &buffer, buffer.count) }
    }

    /// Ends `wait`. Safe from any thread.
    package func wake() {
        var byte: UInt8 = 0
        // A write that fails because the pipe is full still wakes the waiter.
        _ = write(writer, &byte, 1)
    }

    /// Whether a stop signal has arrived, and no SIGCONT since.
    package var isStopAsked: Bool { rt_stop_signals_are_pending() != 0 }

    /// The time of the last stop signal, in ns of the monotonic clock; nil when it has already been taken.
    package func takeTime() -> Nanoseconds? {
        let time = rt_stop_signals_take_time()
        if time == 0 { return nil }
        #if os(Linux)
            return time &- UInt64(bitPattern: TimeNamespace.own.monotonic)
        #else
            return time
        #endif
    }

    /// Stops the process as the unhandled signal would, unless SIGCONT has arrived since.
    ///
    /// It returns when the process resumes. It returns immediately where the system does not stop the process: in an orphaned process group
    /// (POSIX), and in the first process of a container.
    package func stopProcess() { rt_stop() }
}
