import Roundtable

extension SharedDatabase.Options {
    /// The grace time for writes. Statements that people type either end sooner or take much longer.
    private static let grace = Duration.milliseconds(20)

    /// Makes Ctrl-Z release the database before it stops this process. Writes then wait until the process continues.
    package mutating func waitWhileStopped() {
        whileSuspended = .wait
        do {
            try SharedDatabase.suspendAllOnTerminalStop(grace: Self.grace)
        } catch {
            Terminal.complain("Ctrl-Z may lock other processes out: \(ToolError.line(for: error))")
        }
    }
}
