import Foundation
import RoundtableKernel
import Synchronization

/// Closes the gates of the process before a stop signal stops it, and opens them when it goes on.
///
/// One thread sleeps until signals come, and lets them stop the process; another, one a stop, closes the gates meanwhile. The thread in
/// which the signals arrive is `StopSignals`' own.
final class TerminalStop: Sendable {
    private struct State {
        var machine = TerminalStopMachine()
        var grace: Nanoseconds
    }

    /// The one of this process; or why there is none: part of it may have been done, which cannot be done twice.
    private static let installed = Mutex<Result<TerminalStop, any Error>?>(nil)

    /// How long the process goes on beyond the grace while something inside neither ends nor can be interrupted. Others that wait for
    /// it have given up by then (``SharedDatabase/Options/busyTimeout``), or soon will.
    private static let patience: Nanoseconds = 5_000_000_000
    /// For closing once more, when something was inside at the end of the grace: nothing of it is left for waiting before it is
    /// interrupted.
    private static let round: Nanoseconds = 4_000_000

    /// Gates are opened only while this is locked, so that none is opened for a stop that is over while the next has begun.
    private let state: Mutex<State>
    private let signals: StopSignals
    private let process: ProcessSuspension

    /// - returns: how many of the three stop signals are handled.
    static func install(grace: Nanoseconds, process: ProcessSuspension = .shared) throws -> Int {
        try installed.withLock { installed in
            let result = installed ?? start(grace, process)
            installed = result
            let stop = try result.get()
            stop.state.withLock { $0.grace = grace }
            return stop.signals.count
        }
    }

    private static func start(_ grace: Nanoseconds, _ process: ProcessSuspension) -> Result<TerminalStop, any Error> {
        let answer = Mutex<Result<TerminalStop, any Error>?>(nil)
        let isAnswered = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            let result = Result { TerminalStop(try StopSignals(), grace, process) }
            answer.withLock { $0 = result }
            isAnswered.signal()
            (try? result.get())?.watch()
        }
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
        // It fails when somebody has closed a descriptor that is not theirs: then a stop signal does nothing any more, which is
        // better than a process that stops with a lock.
        while (try? signals.wait()) != nil {
            look()
            while state.withLock({ $0.machine.state == .stopping }) {
                signals.stopProcess()
                state.withLock { state in
                    if state.machine.didGoOn() == .open { open(state) }
                }
                // The next may have come.
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
                open(state)
                return nil
            case nil: return nil
            }
        }
        guard let closing else { return }
        // From the signal on: this thread may have waited for a processor.
        let deadline = (signals.takeTime() ?? MonotonicClock.now).addingSaturating(closing.grace)
        Thread.detachNewThread { [self] in close(closing.number, until: deadline) }
    }

    private func open(_ state: State) { process.goOn() }

    // MARK: A thread that closes

    private func close(_ closing: UInt64, until first: Nanoseconds) {
        var deadline = first
        let limit = deadline.addingSaturating(Self.patience)
        while process.stop(until: deadline).contains(where: \.isHeld),
            state.withLock({ $0.machine.state == .closing(closing) }),
            MonotonicClock.now < limit
        {
            deadline = MonotonicClock.now.addingSaturating(Self.round)
        }
        state.withLock { state in
            // Given up: the gates may have been closed after they were opened for that.
            if !state.machine.didClose(closing), state.machine.state == .running { open(state) }
        }
        signals.wake()
    }
}

extension Suspension {
    fileprivate var isHeld: Bool {
        switch outcome {
        case .held, .protected: true
        case .released, .rolledBack, .interrupted, .resumed: false
        }
    }
}
