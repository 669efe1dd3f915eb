/// The action for each signal in each state. It has no side effects: ``TerminalStop`` runs it.
///
/// | state | a stop is pending | no stop is pending any more: SIGCONT | the gates are closed | the process continues |
/// | --- | --- | --- | --- | --- |
/// | running | close → closing | – | – | – |
/// | closing | – | open → running | stop → stopping | – |
/// | stopping | – | – | – | open → running |
///
/// Signals are not counted, because the system tracks whether a stop is pending. SIGCONT discards stop signals, and stop signals
/// discard SIGCONT.
struct TerminalStopMachine: Equatable, Sendable {
    enum State: Equatable, Sendable {
        case running
        /// The number of the closing, so that a cancelled closing is not mistaken for a later one.
        case closing(UInt64)
        /// From before the process stops until it continues.
        case stopping
    }

    enum Action: Equatable, Sendable {
        case close(UInt64)
        case open
    }

    private(set) var state = State.running
    private var closings: UInt64 = 0

    /// Updates the state after signals may have arrived.
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

    /// Notes that the gates are closed. The visits have left, or are no longer waited for.
    ///
    /// - returns: whether to stop the process now; false when the closing was cancelled meanwhile.
    mutating func didClose(_ closing: UInt64) -> Bool {
        guard state == .closing(closing) else { return false }
        state = .stopping
        return true
    }

    /// Notes that the process continues, or was not stopped at all.
    mutating func didContinue() -> Action? {
        guard state == .stopping else { return nil }
        state = .running
        return .open
    }
}
