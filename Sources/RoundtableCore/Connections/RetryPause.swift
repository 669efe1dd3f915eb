import Dispatch

// Rule W9c: Before a connection that was refused (rule W9b) is opened again, `access(2)` is asked about the three files, and nothing is
// opened when one is forbidden, because SQLite keeps the descriptor of a refused connection while others of the process hold locks.
// Attempts in the background follow each other after pauses that grow from 1 s to 30 s.

/// The pause before the next attempt to open a connection in the background. It grows with each attempt that fails, because SQLite may keep a
/// descriptor of each connection that is refused (W9b). The first attempts follow each other soon, so an obstacle that passes delays
/// observers at most by about as long as it lasted.
struct RetryPause: Sendable {
    private static let longest = 30.0

    private(set) var seconds = 1.0

    /// The pause after another failure.
    var next: RetryPause { RetryPause(seconds: min(seconds * 2, Self.longest)) }

    /// Runs `body` after the pause, on another thread.
    func run(_ body: @escaping @Sendable () -> Void) {
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds, execute: body)
    }
}
