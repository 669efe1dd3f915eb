import Foundation
import RoundtableKernel
import Synchronization

// Rule F8: Stop signals that can be handled (SIGTSTP, SIGTTIN, SIGTTOU), where the process asked for it: the gates are closed as by
// suspending the process, and neither resuming nor a protected access opens them; then the signal takes the action that it had before; then
// the gates are opened. The system itself records whether a stop is still requested: the handler sends the signal on to a thread that
// blocks it, where it is pending until SIGCONT discards it. A second thread has the signals unblocked, whatever mask the process has
// inherited.

/// Closes the gates of the process before a stop signal stops it, and opens them when it continues.
///
/// One thread sleeps until signals arrive, and stops the process. Another thread, a new one for each stop, closes the gates
/// meanwhile. `StopSignals` receives the signals on a thread of its own.
package final class TerminalStop: Sendable {
    private struct State {
        var machine = TerminalStopMachine()
        var grace: Nanoseconds
    }

    /// The instance of this process, or the error of its installation. A failed installation is not retried, because a part of it
    /// may have been done, which cannot be done twice.
    private static let installed = Mutex<Result<TerminalStop, any Error>?>(nil)

    /// How long the process continues beyond the grace while a visit neither ends nor can be interrupted. Other processes that
    /// wait for it have given up by then (``SharedDatabase/Options/busyTimeout``), or soon will.
    private static let patience: Nanoseconds = 5_000_000_000
    /// The time for each further attempt to close, when a visit was still inside at the end of the grace.
    private static let round: Nanoseconds = 4_000_000

    /// Gates are only opened while this is locked, so that the end of one stop does not open gates after the next stop has begun.
    private let state: Mutex<State>
    private let signals: StopSignals
    private let process: ProcessSuspension

    /// - returns: how many of the three stop signals are handled.
    package static func install(grace: Nanoseconds, process: ProcessSuspension = .shared) throws -> Int {
        try installed.withLock { installed in
            let result = installed ?? start(grace, process)
            installed = result
            let stop = try result.get()
            stop.state.withLock { $0.grace = grace }
            return stop.signals.count
        }
    }

    /// - returns: the instance, which handles the signals from now on.
    static func start(_ grace: Nanoseconds, _ process: ProcessSuspension) -> Result<TerminalStop, any Error> {
        let answer = Mutex<Result<TerminalStop, any Error>?>(nil)
        let isAnswered = DispatchSemaphore(value: 0)
        let isStarted = DetachedThread.start {
            let result = Result { TerminalStop(try StopSignals(), grace, process) }
            answer.withLock { $0 = result }
            isAnswered.signal()
            (try? result.get())?.watch()
        }
        guard isStarted else { return .failure(SystemError(call: .thread, errno: EAGAIN)) }
        isAnswered.wait()
        return answer.withLock { $0 ?? .failure(CancellationError()) }
    }

    private init(_ signals: StopSignals, _ grace: Nanoseconds, _ process: ProcessSuspension) {
        self.signals = signals
        self.process = process
        state = Mutex(State(grace: grace))
    }

    // MARK: The thread of the signals

    private func watch() {
        // Waiting fails when other code has closed a descriptor that it does not own. A stop signal then has no effect any more,
        // which is better than a process that stops while it holds a lock.
        while (try? signals.wait()) != nil {
            look()
            while state.withLock({ $0.machine.state == .stopping }) {
                signals.stopProcess()
                state.withLock { state in
                    if state.machine.didContinue() == .open { process.endStop() }
                }
                // The next signal may have arrived.
                look()
            }
        }
    }

    private func look() {
        let isStopAsked = signals.isStopAsked
        let closing: (number: UInt64, grace: Nanoseconds)? = state.withLock { state in
            switch state.machine.look(isStopAsked: isStopAsked) {
            case .close(let number):
                return (number, state.grace)
            case .open:
                process.endStop()
                return nil
            case nil: return nil
            }
        }
        guard let closing else { return }
        // The grace begins with the signal, because this thread may have waited for a processor.
        let deadline = (signals.takeTime() ?? MonotonicClock.now).addingSaturating(closing.grace)
        DetachedThread.startOrQueue { [self] in close(closing.number, until: deadline) }
    }

    // MARK: A thread that closes

    private func close(_ closing: UInt64, until first: Nanoseconds) {
        var deadline = first
        let limit = deadline.addingSaturating(Self.patience)
        while process.stop(until: deadline).contains(where: { !$0.isReleased && $0.outcome != .resumed }),
            state.withLock({ $0.machine.state == .closing(closing) }),
            MonotonicClock.now < limit
        {
            deadline = MonotonicClock.now.addingSaturating(Self.round)
        }
        state.withLock { state in
            // If the closing was cancelled, the gates may have been closed after they were opened for that.
            if !state.machine.didClose(closing), state.machine.state == .running { process.endStop() }
        }
        signals.wake()
    }
}
