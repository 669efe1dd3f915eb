/// What to do at which signal in which state. Pure: ``TerminalStop`` runs it.
///
/// | state | a stop is asked | it is asked no more: SIGCONT | the gates are closed | the process goes on |
/// | --- | --- | --- | --- | --- |
/// | running | close → closing | – | – | – |
/// | closing | – | open → running | stop → stopping | – |
/// | stopping | – | – | – | open → running |
///
/// Signals are not counted: the system keeps account of whether a stop is asked. SIGCONT discards stop signals, and these discard
/// SIGCONT.
struct TerminalStopMachine: Equatable, Sendable {
    enum State: Equatable, Sendable {
        case running
        /// Which of the closings, so that one that was given up is not taken for a later one.
        case closing(UInt64)
        /// From before the process stops until it goes on.
        case stopping
    }

    enum Action: Equatable, Sendable {
        case close(UInt64)
        case open
    }

    private(set) var state = State.running
    private var closings: UInt64 = 0

    /// Signals may have come.
    mutating func look(isStopAsked: Bool) -> Action? {
        switch (state, isStopAsked) {
        case (.running, true):
            closings += 1
            state = .closing(closings)
            return .close(closings)
        case (.closing, false):
            state = .running
            return .open
        case (.running, false), (.closing, true), (.stopping, _):
            return nil
        }
    }

    /// The gates are closed, and what was inside has left, or will not.
    ///
    /// - returns: whether to stop now; false when it was given up meanwhile.
    mutating func didClose(_ closing: UInt64) -> Bool {
        guard state == .closing(closing) else { return false }
        state = .stopping
        return true
    }

    /// The process goes on, or was not stopped at all.
    mutating func didGoOn() -> Action? {
        guard state == .stopping else { return nil }
        state = .running
        return .open
    }
}
