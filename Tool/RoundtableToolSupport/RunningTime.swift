import Dispatch
import Foundation
import Synchronization

/// Shows on a terminal for how long something has been running, from the first second on.
///
/// The line is on standard error, which often is the same terminal as standard output. `Terminal` therefore writes inside `aside`.
package final class RunningTime: Sendable {
    /// Whether a line is shown. Its lock is also held while the terminal is written, so that the line never mixes with other text.
    private static let isShown = Mutex(false)

    private let hasEnded = Atomic(false)
    private let what: String
    private let begun = ContinuousClock.now

    /// - parameter what: what is being done, as in `reading app.db`.
    package init(_ what: String) {
        self.what = what
        guard isatty(STDERR_FILENO) == 1 else { return }
        showAfterASecond()
    }

    /// Shows the time while `body` runs, and removes it afterwards.
    package static func show<T>(_ what: String, during body: () throws -> T) rethrows -> T {
        let time = RunningTime(what)
        defer { time.end() }
        return try body()
    }

    /// Removes what is shown, and keeps the line from being shown while `body` writes to a terminal.
    package static func aside<T: Sendable>(_ body: () throws -> T) rethrows -> T {
        try isShown.withLock { isShown in
            erase(&isShown)
            return try body()
        }
    }

    private func showAfterASecond() {
        DispatchQueue.global().asyncAfter(deadline: .now() + 1) { [weak self] in
            guard let self else { return }
            let isRunning = Self.isShown.withLock { isShown in
                guard !hasEnded.load(ordering: .relaxed) else { return false }
                isShown = true
                Terminal.putOnStandardError(
                    "\r\(what.visibleLine) … \((ContinuousClock.now - begun).components.seconds) s"
                )
                return true
            }
            if isRunning { showAfterASecond() }
        }
    }

    /// Removes what is shown.
    package func end() {
        Self.isShown.withLock { isShown in
            hasEnded.store(true, ordering: .relaxed)
            Self.erase(&isShown)
        }
    }

    private static func erase(_ isShown: inout Bool) {
        if isShown { Terminal.putOnStandardError("\r\u{1B}[K") }
        isShown = false
    }
}
