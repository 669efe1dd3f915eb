import RoundtableGate
import RoundtableKernel

extension SharedDatabase {
    /// Keeps Ctrl-Z from locking out other processes, from now on. SIGTSTP closes the gates of all databases of this process, as
    /// ``suspendAll(deadline:)`` does, and *then* stops the process. SIGCONT opens them, as ``resumeAll()`` does. See
    /// <doc:RunningAsAService#Ctrl-Z>.
    ///
    /// - A running write has `grace` to finish. Then it is interrupted and rolled back, and throws an error whose `isSuspension`
    ///   is true once the process continues. A closure that computes between two statements cannot be interrupted: the process
    ///   stops when the closure has reached its next statement, or after 5 s. Accesses that wait at the gate continue after
    ///   SIGCONT.
    /// - SIGTTIN and SIGTTOU, which stop a background job that uses the terminal, are treated the same.
    /// - A second Ctrl-Z while the gates are closing changes nothing. SIGCONT meanwhile opens them again, and the process does not stop.
    /// - The system does not stop a process whose process group is orphaned, because no shell would continue it. Such a process
    ///   continues after its gates have been closed for a moment.
    /// - The shell sees the process stopped by the signal that was sent. A handler that was installed before, such as a terminal
    ///   library's, is called when the gates are closed, on a thread of Roundtable's, and stops the process then. A handler that
    ///   is installed later replaces Roundtable's: install yours before, or call ``suspendAll(deadline:)`` in it. An ignored
    ///   signal stays ignored.
    /// - Roundtable receives the signals even if the process has inherited a mask that blocks them, such as from a libdispatch
    ///   thread that spawned it. If you block them to receive them by `sigwait` or `signalfd`, Roundtable receives them instead.
    /// - Child processes do not inherit this, because `exec` resets handlers. In a child after `fork`, the signals have their
    ///   earlier effect.
    /// - `kill -STOP` cannot be detected: other processes wait for a process that it stops within a transaction.
    ///
    /// This is safe to call from any thread, and more than once: the last `grace` counts. The effect lasts as long as the
    /// process, and costs two sleeping threads. A system call of yours that cannot be restarted, such as `poll` or `nanosleep`,
    /// may end with `EINTR` at a handled signal.
    ///
    /// - parameter grace: how long other processes wait at most for a running write.
    /// - returns: false when all of these signals are ignored in this process, so that nothing stops it.
    /// - throws: an error of the system when the process has no file descriptors left, or cannot start a thread.
    @discardableResult
    public static func suspendAllOnTerminalStop(grace: Duration = .milliseconds(40)) throws -> Bool {
        try TerminalStop.install(grace: grace.nanoseconds) > 0
    }
}
