/// Runs the blocking `body` on a thread of its own. The thread pools of Swift and Dispatch are small, and all of their threads may be
/// blocked when the system is about to freeze the process.
///
/// If the process can have no more threads, `body` blocks the caller's.
package func offThread<T: Sendable>(_ body: @escaping @Sendable () -> T) async -> T {
    await withUnsafeContinuation { continuation in
        let resume = { @Sendable in continuation.resume(returning: body()) }
        if !DetachedThread.start(resume) { resume() }
    }
}
