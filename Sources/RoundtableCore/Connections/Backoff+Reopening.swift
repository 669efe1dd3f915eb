import Dispatch
import RoundtableKernel

// Rule W9c: Before a connection that was refused (rule W9b) is opened again, `access(2)` is asked about the three files, and nothing is
// opened when one is forbidden, because SQLite keeps the descriptor of a refused connection while others of the process hold locks.
// Attempts in the background follow each other after pauses that grow from 1 s to 30 s.

extension Backoff {
    /// The pauses between attempts to open a connection in the background. SQLite may keep a descriptor of each connection that is refused
    /// (W9b). The first attempts follow each other soon, so an obstacle that passes delays observers at most by about as long as it lasted.
    static let reopening = Backoff(.seconds(1), upTo: .seconds(30))

    /// Runs `body` after the next pause, on another thread, with what follows if it fails.
    func retry(_ body: @escaping @Sendable (Backoff) -> Void) {
        var following = self
        let pause = DispatchTimeInterval.nanoseconds(Int(following.next()))
        DispatchQueue.global().asyncAfter(deadline: .now() + pause) { [following] in body(following) }
    }
}
