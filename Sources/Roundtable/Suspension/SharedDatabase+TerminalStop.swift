import RoundtableKernel

extension SharedDatabase {
    /// From now on, Ctrl-Z never leaves other processes locked out: SIGTSTP closes the gates of all databases of this process, as
    /// ``suspendAll(deadline:)`` does, and *then* stops it; SIGCONT opens them, as ``resumeAll()`` does. See <doc:SuspendingOnLinux>.
    ///
    /// - A write that is running has `grace` to finish; then it is interrupted, rolled back, and throws an error whose
    ///   `isSuspension` is true once the process goes on. A closure that computes between two statements cannot be interrupted: the
    ///   process stops when it has reached the next one, or after 5 s. Whatever waits at the gate goes on after SIGCONT.
    /// - SIGTTIN and SIGTTOU, which stop a background job that uses the terminal, are treated the same.
    /// - A second Ctrl-Z while the gates are closing changes nothing. SIGCONT meanwhile opens them again, and the process does not stop.
    /// - Where the system does not stop the process (its process group is orphaned: no shell would continue it), it goes on after
    ///   the gates have been closed for a moment.
    /// - The shell sees the process stopped by the signal that it was sent. A handler that was there before, such as a terminal
    ///   library's, is called when the gates are closed, on a thread of Roundtable's, and is what stops the process then. One that is
    ///   put later takes the place of Roundtable's: put yours before, or call ``suspendAll(deadline:)`` in it. A signal that is
    ///   ignored stays ignored.
    /// - The signals arrive although the process has inherited a mask that blocks them, as from a thread of libdispatch that spawned it. If
    ///   you block them to take them yourself, by `sigwait` or `signalfd`, Roundtable gets them instead.
    /// - Child processes inherit nothing of it: `exec` resets handlers. In a child after `fork`, signals do what they did before.
    /// - `kill -STOP` cannot be noticed: others wait for a process that it stops within a transaction.
    ///
    /// Safe to call from any thread, and more than once: the last `grace` counts. It holds for as long as the process lives, and costs
    /// two threads that sleep. A system call of yours that cannot be restarted, such as `poll` or `nanosleep`, may end with `EINTR` at
    /// a handled signal.
    ///
    /// - parameter grace: how long others wait at most for a write that is running.
    /// - returns: false when all of these signals are ignored in this process, so that nothing stops it.
    /// - throws: when the system refuses: the process has no file descriptors left, or may not begin a thread.
    @discardableResult
    public static func suspendAllOnTerminalStop(grace: Duration = .milliseconds(40)) throws -> Bool {
        try TerminalStop.install(grace: grace.nanoseconds) > 0
    }
}
