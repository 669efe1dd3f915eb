import Foundation

/// A value and its lock, for short critical sections that many threads enter at a high rate.
///
/// On Linux, Swift's `Mutex` hands the lock over to the thread that has waited longest (`FUTEX_LOCK_PI`, futex(2)). If there are more
/// threads than processors, each entry then costs a switch of threads, and stays that expensive as long as all threads keep coming: eight
/// threads that read on two processors got a third of the reads of one. This lock goes to any thread that asks first, like Darwin's.
final class BargingMutex<Value>: @unchecked Sendable {
    // @unchecked: `value` is accessed with the lock only.
    private let lock = NSLock()
    private let value: UnsafeMutablePointer<Value>

    init(_ value: Value) {
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
    }

    deinit {
        value.deinitialize(count: 1)
        value.deallocate()
    }

    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value.pointee)
    }
}
