import Dispatch
import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The treatment of signals that this program was started with.
package enum InheritedSignals {
    /// Unblocks all signals, and lets ended children wait to be reaped. A program inherits the mask of the thread that spawned it, and the threads of libdispatch block nearly all
    /// signals, including those of Ctrl-C, Ctrl-Z and `kill`. The main thread must call this before there are other threads.
    package static func unblock() {
        // If it is ignored, the system reaps all children, and how they ended is lost.
        signal(SIGCHLD, SIG_DFL)
        var none = sigset_t()
        sigemptyset(&none)
        let code = pthread_sigmask(SIG_SETMASK, &none, nil)
        guard code != 0 else { return }
        let reason = "\(String(cString: strerror(code))) (errno \(code))"
        Terminal.complain(
            "signals stay blocked: \(reason). Ctrl-C and Ctrl-Z may do nothing; kill -KILL ends the program."
        )
    }
}

/// Handles the signals that end the program, such as that of Ctrl-C.
///
/// Before `init`, the action of each is the default, which ends the program at once. From the return of `init` on, `handle` is called. No
/// signal is lost in between.
package final class EndingSignals: @unchecked Sendable {
    // @unchecked is correct because the sources are only created and cancelled here, which is safe from any thread.
    private let sources: [any DispatchSourceSignal]

    package init(_ handle: @escaping @Sendable (Int32) -> Void) {
        // Writing to a process that has just died must not end this one.
        signal(SIGPIPE, SIG_IGN)
        // A signal that was ignored at the start stays ignored: nohup(1) does that, and a shell without job control for programs in
        // its background.
        let numbers = [SIGINT, SIGTERM, SIGHUP].filter { !System.ignoresSignal($0) }
        let registered = MonotonicSemaphore()
        sources = numbers.map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { handle(number) }
            source.setRegistrationHandler { registered.signal() }
            source.resume()
            return source
        }
        // libdispatch registers the sources on another thread. If a signal were ignored before that, it would be lost.
        let deadline = MonotonicClock.now + Self.patience
        if !numbers.allSatisfy({ _ in registered.wait(until: deadline) }) {
            Terminal.complain("signals cannot be handled: Ctrl-C may do nothing; kill -KILL ends the program.")
        }
        #if canImport(Darwin)
            // Here, a source only observes, and the default action would end the program. On Linux, libdispatch has replaced the action by
            // a handler, which must stay.
            for number in numbers { signal(number, SIG_IGN) }
        #endif
    }

    /// How long to wait for libdispatch, which needs milliseconds.
    private static let patience: Nanoseconds = 10_000_000_000

    package func ignore() { sources.forEach { $0.cancel() } }
}

/// The signal of Ctrl-Z.
package enum StopSignal {
    /// Stops the process as Ctrl-Z does without a handler, and returns when it continues. The terminal must have its settings from before,
    /// and no database may be open.
    ///
    /// The handler of `SharedDatabase.suspendAllOnTerminalStop` would stop the process some moments later, when the caller has changed the
    /// settings of the terminal again.
    package static func stopProcess() {
        var (action, mine) = (sigaction(), sigaction())
        #if canImport(Darwin)
            action.__sigaction_u.__sa_handler = SIG_DFL
        #else
            action.__sigaction_handler.sa_handler = SIG_DFL
        #endif
        sigaction(SIGTSTP, &action, &mine)
        // The system ignores the signal where no shell could continue the process.
        raise(SIGTSTP)
        sigaction(SIGTSTP, &mine, nil)
    }
}
