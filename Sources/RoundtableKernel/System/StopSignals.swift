import CRoundtableShims

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The signals that stop a process and that it may handle: SIGTSTP (Ctrl-Z), SIGTTIN and SIGTTOU (a background job that uses the
/// terminal); and SIGCONT, which ends that.
///
/// The handlers send them on to one thread, which blocks them, and write a byte into a pipe; all else happens in that thread. While a
/// signal is pending there, the system itself keeps account of it: SIGCONT discards it. A second thread only sleeps, with these signals
/// unblocked, so that they arrive whatever mask the process has inherited.
///
/// There is one for a process, and it stays. Everything but `wake` belongs to the thread that made it.
package final class StopSignals: Sendable {
    private let descriptor: Int32
    private let writer: Int32
    /// How many of the three stop signals are handled. The others were ignored, and stay so.
    package let count: Int

    /// - precondition: the only one of the process.
    package init() throws {
        var ends: [Int32] = [-1, -1]
        try System.perform(.pipe) { pipe(&ends) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        (descriptor, writer) = (ends[0], ends[1])
        let count = System.performReturningCount(.sigaction) { rt_stop_signals_handle(ends[1]) }
        // The pipe stays: a handler may have been put that writes to it.
        guard count >= 0 else { throw SystemError(call: .sigaction, errno: -count) }
        self.count = Int(count)
    }

    /// Sleeps until a signal has come that it did not return for yet, or `wake` is called.
    package func wait() throws {
        var buffer = [UInt8](repeating: 0, count: 512)
        try System.perform(.read) { read(descriptor, &buffer, buffer.count) }
    }

    /// From any thread.
    package func wake() {
        var byte: UInt8 = 0
        // A full pipe wakes as well.
        _ = write(writer, &byte, 1)
    }

    /// Whether a stop signal came, and no SIGCONT since.
    package var isStopAsked: Bool { rt_stop_signals_are_pending() != 0 }

    /// When the last stop signal came; nil when that was asked already.
    package func takeTime() -> Nanoseconds? {
        let time = rt_stop_signals_take_time()
        if time == 0 { return nil }
        #if os(Linux)
            return time &- UInt64(bitPattern: TimeNamespace.own.monotonic)
        #else
            return time
        #endif
    }

    /// Stops the process as the signal that came would if it were not handled, unless SIGCONT has come since.
    ///
    /// Returns when the process goes on; at once where the system does not stop it: in an orphaned process group (POSIX), in the
    /// first process of a container.
    package func stopProcess() { rt_stop() }
}
