import Foundation
import RoundtableKernel

/// Runs `body` on a thread of its own, and waits for its result up to a limit.
///
/// - returns: nil when the time is over. `body` may then still run.
func withLimit<T: Sendable>(_ limit: Duration, _ body: @escaping @Sendable () -> T) async -> T? {
    let result = Latch<T?>()
    let timer = Task {
        do { try await Task.sleep(for: limit) } catch { return }
        result.set(nil)
    }
    DetachedThread.startOrQueue { result.set(body()) }
    defer { timer.cancel() }
    return await result.value
}
