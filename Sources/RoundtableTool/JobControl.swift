import Roundtable

extension SharedDatabase.Options {
    /// Ctrl-Z lets go of the database before it stops this process, and what is to be written waits until the process goes on.
    mutating func waitWhileStopped() {
        whileSuspended = .wait
        do {
            try SharedDatabase.suspendAllOnTerminalStop(grace: suspensionGrace)
        } catch {
            Terminal.complain("Ctrl-Z may leave others locked out: \(ToolError.line(for: error))")
        }
    }
}
