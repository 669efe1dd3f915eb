import Foundation
import RoundtableKernel
import Synchronization

/// Runs `body` on a thread of its own, and waits for its result up to a limit.
///
/// - returns: nil when the time is over. `body` may then still run.
func withLimit<T: Sendable>(_ limit: Duration, _ body: @escaping @Sendable () -> T) async -> T? {
    let waiting = FirstResult<T>()
    let timer = Task {
        do { try await Task.sleep(for: limit) } catch { return }
        waiting.end(nil)
    }
    DetachedThread.startOrQueue { waiting.end(body()) }
    defer { timer.cancel() }
    return await waiting.value
}

/// The first of several results, for one task that waits.
private final class FirstResult<T: Sendable>: Sendable {
    private enum State {
        case running
        case waiting(CheckedContinuation<T?, Never>)
        case ended(T?)
    }
    private let state = Mutex(State.running)

    func end(_ result: T?) {
        let continuation: CheckedContinuation<T?, Never>? = state.withLock { state in
            switch state {
            case .running:
                state = .ended(result)
                return nil
            case .waiting(let continuation):
                state = .ended(result)
                return continuation
            case .ended: return nil
            }
        }
        continuation?.resume(returning: result)
    }

    var value: T? {
        get async {
            await withCheckedContinuation { continuation in
                let ended: T?? = state.withLock { state in
                    if case .ended(let result) = state { return .some(result) }
                    state = .waiting(continuation)
                    return .none
                }
                if let ended { continuation.resume(returning: ended) }
            }
        }
    }
}
