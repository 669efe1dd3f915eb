import Roundtable

extension SharedDatabase.Options {
    /// What people type either ends in less, or takes much longer.
    private static let grace = Duration.milliseconds(20)

    /// Ctrl-Z lets go of the database before it stops this process, and what is to be written waits until the process goes on.
    mutating func waitWhileStopped() {
        whileSuspended = .wait
        do {
            try SharedDatabase.suspendAllOnTerminalStop(grace: Self.grace)
        } catch {
            Terminal.complain("Ctrl-Z may leave others locked out: \(ToolError.line(for: error))")
        }
    }
}
