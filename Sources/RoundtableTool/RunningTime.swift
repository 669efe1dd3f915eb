import Dispatch
import Foundation
import Synchronization

/// Shows on a terminal for how long something has been running, from the first second on.
final class RunningTime: Sendable {
    private struct State {
        var hasEnded = false
        var isShown = false
    }

    private let state = Mutex(State())
    private let what: String
    private let begun = ContinuousClock.now

    /// - parameter what: what is being done, as in `reading app.db`.
    init(_ what: String) {
        self.what = what
        guard isatty(STDERR_FILENO) == 1 else { return }
        showAfterASecond()
    }

    private func showAfterASecond() {
        DispatchQueue.global().asyncAfter(deadline: .now() + 1) { [weak self] in
            guard let self else { return }
            let isRunning = state.withLock { state in
                guard !state.hasEnded else { return false }
                state.isShown = true
                put("\r\(what.visibleLine) … \((ContinuousClock.now - begun).components.seconds) s")
                return true
            }
            if isRunning { showAfterASecond() }
        }
    }

    /// Removes what is shown.
    func end() {
        state.withLock { state in
            if state.isShown { put("\r\u{1B}[K") }
            state = State(hasEnded: true)
        }
    }

    private func put(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}
