import CRoundtableShims
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Waits on a word of shared memory until another process changes the word and wakes the waiter.
package enum Futex {
    package enum Outcome: Equatable, Sendable {
        /// The waiter was woken or interrupted, or the word had another value. The caller looks again.
        case changed
        case timedOut
        /// The word cannot be waited on, for example because its page is gone. The caller leaves the block.
        case failed(errno: Int32)
    }

    /// Sleeps while the word has the value `expected`, for at most `timeout` nanoseconds. It may return early.
    package static func wait(
        on word: UnsafeMutablePointer<Atomic<UInt32>>,
        while expected: UInt32,
        timeout: Nanoseconds
    ) -> Outcome {
        let address = UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self)
        // The wait is limited to an hour. The kernel refuses very long waits, and callers look again anyway.
        let bounded = min(timeout, 3_600_000_000_000)
        switch System.performReturningErrno(.futexWait, { rt_futex_wait(address, expected, bounded) }) {
        case 0, EAGAIN, EINTR: return .changed
        case ETIMEDOUT: return .timedOut
        case let code: return .failed(errno: code)
        }
    }

    /// Wakes one waiter, or all. It does not report failures, because a waiter that is not woken looks again when its wait ends.
    package static func wake(_ word: UnsafeMutablePointer<Atomic<UInt32>>, all: Bool = false) {
        let address = UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self)
        _ = System.performReturningErrno(.futexWake) { rt_futex_wake(address, all ? .max : 1) }
    }
}
