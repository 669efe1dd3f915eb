import Foundation
import RoundtableKernel
import Synchronization

/// Closes the gates of the process before a stop signal stops it, and opens them when it goes on.
///
/// Two threads: one sleeps until signals come, and one a stop, which closes the gates, stops the process, and opens them.
final class TerminalStop: Sendable {
    private struct State {
        var machine = TerminalStopMachine()
        var grace: Nanoseconds
        /// Somebody else has suspended the process, and will resume it.
        var wasSuspended = false
        /// Threads that close, of a stop that was given up too.
        var closers = 0
    }

    /// The one of this process.
    private static let installed = Mutex<Result<TerminalStop, any Error>?>(nil)

    /// How long the process goes on beyond the grace while something inside neither ends nor can be interrupted. Others that wait for
    /// it have given up by then (``SharedDatabase/Options/busyTimeout``), or soon will.
    private static let patience: Nanoseconds = 5_000_000_000
    /// How often what is inside is interrupted meanwhile.
    private static let round: Nanoseconds = 50_000_000

    /// Gates are opened only while this is locked, so that none is opened for a stop that is over while the next has begun.
    private let state: Mutex<State>
    private let signals: StopSignals
    private let process: ProcessSuspension

    /// - returns: how many of the three stop signals are handled.
    static func install(grace: Nanoseconds, process: ProcessSuspension = .shared) throws -> Int {
        let (stop, isNew) = try installed.withLock { installed in
            let isNew = installed == nil
            let result = installed ?? Result { TerminalStop(try StopSignals(), grace, process) }
            // An error too: part of it may have been done, which cannot be done twice.
            installed = result
            return (try result.get(), isNew)
        }
        if isNew {
            Thread.detachNewThread { stop.watch() }
        } else {
            stop.state.withLock { $0.grace = grace }
        }
        return stop.signals.count
    }

    private init(_ signals: StopSignals, _ grace: Nanoseconds, _ process: ProcessSuspension) {
        self.signals = signals
        self.process = process
        state = Mutex(State(grace: grace))
    }

    private func watch() {
        // It fails when somebody has closed a descriptor that is not theirs: then a stop signal does nothing any more, which is
        // better than a process that stops with a lock.
        while (try? signals.wait()) != nil { look() }
    }

    private func look() {
        let closing: UInt64? = state.withLock { state in
            switch state.machine.look(signals.latest) {
            case .close(let closing):
                // Else it may be one of them that has.
                if state.closers == 0 { state.wasSuspended = process.isSuspended }
                state.closers += 1
                return closing
            case .open:
                open(state)
                return nil
            case nil: return nil
            }
        }
        guard let closing else { return }
        Thread.detachNewThread { [self] in
            close(closing)
            // What came while this one was busy.
            look()
        }
    }

    private func open(_ state: State) {
        if !state.wasSuspended { process.resume() }
    }

    private func close(_ closing: UInt64) {
        // From the signal on: this thread may have waited for a processor.
        var deadline = signals.latest.time.addingSaturating(state.withLock { $0.grace })
        let limit = deadline.addingSaturating(Self.patience)
        while process.suspend(until: deadline).contains(where: \.isHeld),
            state.withLock({ $0.machine.state == .closing(closing) }),
            MonotonicClock.now < limit
        {
            deadline = MonotonicClock.now.addingSaturating(Self.round)
        }
        let latest = signals.latest
        let mustStop = state.withLock { state in
            let mustStop = state.machine.didClose(closing)
            if !mustStop { state.closers -= 1 }
            // Given up: the gates may have been closed after they were opened for that.
            if !mustStop, state.machine.state == .running { open(state) }
            return mustStop
        }
        guard mustStop else { return }
        signals.stopProcess(latest)
        state.withLock { state in
            state.closers -= 1
            if state.machine.didGoOn(latest) == .open { open(state) }
        }
    }
}

extension Suspension {
    fileprivate var isHeld: Bool {
        switch outcome {
        case .held, .protected: true
        case .released, .rolledBack, .resumed: false
        }
    }
}
