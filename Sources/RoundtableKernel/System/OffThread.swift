import Foundation

/// Runs the blocking `body` on a thread of its own. The thread pools of Swift and Dispatch are small, and all of their threads may be
/// blocked when the system is about to freeze the process.
package func offThread<T: Sendable>(_ body: @escaping @Sendable () -> T) async -> T {
    await withUnsafeContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: body()) }
    }
}
