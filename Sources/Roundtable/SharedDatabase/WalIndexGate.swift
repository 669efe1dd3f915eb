import Synchronization

/// Connections of one process share one mapping of a `-shm` file, and the first one decides whether it may be written:
/// opened by a look from outside, which must not write, it would make all others read-only. So the two exclude each other
/// in time.
enum WalIndexGate {
    private static let gate = Mutex(())

    static func pass<T>(_ body: () throws -> T) rethrows -> T {
        try gate.withLock { _ in try body() }
    }
}
