import Dispatch
import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The signal mask that this program was started with.
enum InheritedSignals {
    /// Unblocks all signals. A program inherits the mask of the thread that spawned it, and the threads of libdispatch block nearly all
    /// signals, including those of Ctrl-C, Ctrl-Z and `kill`. The main thread must call this before there are other threads.
    static func unblock() {
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
final class EndingSignals: @unchecked Sendable {
    // @unchecked is correct because the sources are only created and cancelled here, which is safe from any thread.
    private let sources: [any DispatchSourceSignal]

    init(_ handle: @escaping @Sendable (Int32) -> Void) {
        // Writing to a process that has just died must not end this one.
        signal(SIGPIPE, SIG_IGN)
        sources = [SIGINT, SIGTERM, SIGHUP].compactMap { number in
            // A signal that was ignored at the start stays ignored: nohup(1) does that, and a shell without job control for
            // programs in its background.
            let previous = signal(number, SIG_IGN)
            guard unsafeBitCast(previous, to: Int.self) != unsafeBitCast(SIG_IGN, to: Int.self) else { return nil }
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { handle(number) }
            source.resume()
            return source
        }
    }

    func ignore() { sources.forEach { $0.cancel() } }
}
