import CRoundtableShims

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The signals that stop a process and that it may handle: SIGTSTP (Ctrl-Z), SIGTTIN and SIGTTOU (a background job that uses the
/// terminal); and SIGCONT, which ends that.
///
/// The handler counts, and writes a byte into a pipe; all else happens in the thread that waits. There is one for a process, and it stays.
package final class StopSignals: Sendable {
    /// What came last, by numbers that rise with each signal; 0: never.
    package struct Latest: Equatable, Sendable {
        /// A stop signal, which, and when.
        package var stop: UInt64
        package var number: Int32
        package var time: Nanoseconds
        /// SIGCONT.
        package var resume: UInt64

        package init(stop: UInt64, number: Int32, time: Nanoseconds = 0, resume: UInt64) {
            (self.stop, self.number, self.time, self.resume) = (stop, number, time, resume)
        }
    }

    private let descriptor: Int32
    /// How many of the three stop signals are handled. The others were ignored, and stay so.
    package let count: Int

    /// - precondition: the only one of the process.
    package init() throws {
        var ends: [Int32] = [-1, -1]
        try System.perform(.pipe) { pipe(&ends) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        let count = System.performReturningCount(.sigaction) { rt_stop_signals_handle(ends[1]) }
        guard count >= 0 else {
            // The pipe stays: a handler may have been put that writes to it.
            throw SystemError(call: .sigaction, errno: -count)
        }
        (descriptor, self.count) = (ends[0], Int(count))
    }

    /// Sleeps until a signal has come that it did not return for yet.
    package func wait() throws {
        var buffer = [UInt8](repeating: 0, count: 512)
        try System.perform(.read) { read(descriptor, &buffer, buffer.count) }
    }

    package var latest: Latest {
        let latest = rt_stop_signals_latest()
        return Latest(stop: latest.stop, number: latest.number, time: latest.time, resume: latest.resume)
    }

    /// Stops the process as the signal would if it were not handled, unless SIGCONT has come since.
    ///
    /// Returns when the process goes on; at once where the system does not stop it: in an orphaned process group (POSIX), in the
    /// first process of a container.
    package func stopProcess(_ latest: Latest) { rt_stop(latest.number, latest.stop) }
}
