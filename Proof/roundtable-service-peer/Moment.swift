import Foundation

/// Something that happens once, and that threads and tasks wait for.
final class Moment: Sendable {
    private let condition = NSCondition()
    // nonisolated(unsafe): only read and written with `condition`.
    nonisolated(unsafe) private var hasCome = false

    func come() {
        condition.withLock {
            hasCome = true
            condition.broadcast()
        }
    }

    func block() {
        condition.withLock { while !hasCome { condition.wait() } }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                self.block()
                continuation.resume()
            }
        }
    }
}
