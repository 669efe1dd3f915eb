import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The system calls that the kernel layer makes, by the names of their manual pages.
package enum SystemCall: String, Sendable, CaseIterable, Codable {
    case open, close, fstat, stat, chmod, chown, write, link, unlink, mmap, munmap, kill, statfs, statx
    case futexWait = "futex-wait"
    case futexWake = "futex-wake"
    case readProcess = "read-process"
    case pipe, poll, inotify, kqueue
    case read, sigaction, rename, fsync, mkdir, opendir, fcntl
    case thread = "pthread-create"
}

/// A fault that a test injects. The calls number `skipping + 1` to `skipping + times` of `call` do not reach the system.
/// They fail with an errno, or return a value. Calls that are hidden reach the system, and those that succeed fail with an errno.
package struct Fault: Sendable, Equatable, Codable {
    package enum Effect: Sendable, Equatable, Codable {
        case errno(Int32)
        case value(Int64)
        case hiding(Int32)
    }

    package var call: SystemCall
    package var effect: Effect
    package var skipping: Int
    package var times: Int
}

extension Fault {
    package init(_ call: SystemCall, errno: Int32, skipping: Int = 0, times: Int = .max) {
        self.init(call: call, effect: .errno(errno), skipping: skipping, times: times)
    }

    package init(_ call: SystemCall, returning value: Int64, skipping: Int = 0, times: Int = .max) {
        self.init(call: call, effect: .value(value), skipping: skipping, times: times)
    }

    /// Hides what a call would show, as a sandbox does: where it would succeed, it fails with `errno`.
    package static func hiding(_ call: SystemCall, errno: Int32) -> Fault {
        Fault(call: call, effect: .hiding(errno), skipping: 0, times: .max)
    }
}

/// The interface to the operating system. System calls go through `perform`, where tests can make them fail.
package enum System {
    /// The faults that a test injects.
    private final class FaultPlan: Sendable {
        private let faults: Mutex<[Fault]>
        init(_ faults: [Fault]) { self.faults = Mutex(faults) }

        /// The effect that a fault has on this call; nil when the call is to reach the system.
        func take(_ call: SystemCall) -> Fault.Effect? { faults.withLock { System.take(call, of: &$0) } }
        func replace(_ newFaults: [Fault]) { faults.withLock { $0 = newFaults } }
    }

    private static let processPlan = FaultPlan([])
    @TaskLocal private static var taskPlan: FaultPlan?
    /// Whether a test has injected anything. Until then, calls skip the plans.
    private static let armed = Atomic<Bool>(false)

    /// Replaces the faults to inject in this process. This is for processes that a test starts.
    package static func inject(_ newFaults: [Fault]) {
        processPlan.replace(newFaults)
        armed.store(true, ordering: .sequentiallyConsistent)
    }

    /// Injects faults into the calls of `body`, but not into those that it has other threads make. This is for tests that run in parallel.
    package static func withFaults<T>(_ faults: [Fault], _ body: () throws -> T) rethrows -> T {
        armed.store(true, ordering: .sequentiallyConsistent)
        return try $taskPlan.withValue(FaultPlan(faults), operation: body)
    }

    @TaskLocal private static var interposed: (@Sendable (SystemCall) -> Void)?

    /// Runs `action` before each call that `body` makes, but not before calls of other threads or of `action` itself. Tests use it
    /// to do what another process might do between two calls of this one.
    package static func withInterposed<T>(
        _ action: @escaping @Sendable (SystemCall) -> Void,
        _ body: () throws -> T
    ) rethrows -> T {
        armed.store(true, ordering: .sequentiallyConsistent)
        return try $interposed.withValue(action, operation: body)
    }

    private static func fault(_ call: SystemCall) -> Fault.Effect? {
        guard armed.load(ordering: .relaxed) else { return nil }
        if let interposed { $interposed.withValue(nil) { interposed(call) } }
        return taskPlan?.take(call) ?? processPlan.take(call)
    }

    private static func take(_ call: SystemCall, of faults: inout [Fault]) -> Fault.Effect? {
        guard let index = faults.firstIndex(where: { $0.call == call && $0.times > 0 }) else { return nil }
        if faults[index].skipping > 0 {
            faults[index].skipping -= 1
            return nil
        }
        if faults[index].times != .max { faults[index].times -= 1 }
        return faults[index].effect
    }

    /// Makes a call that reports failure as -1 and `errno`, and retries it when a signal interrupted it.
    ///
    /// - throws: `SystemError`.
    @discardableResult
    static func perform<Value: SignedInteger>(
        _ call: SystemCall,
        _ path: String? = nil,
        _ body: () -> Value
    ) throws -> Value {
        let fault = fault(call)
        switch fault {
        case .errno(let errno): throw SystemError(call: call, errno: errno, path: path)
        case .value(let value): return Value(truncatingIfNeeded: value)
        case .hiding, nil: break
        }
        while true {
            let value = body()
            if value != -1 {
                if case .hiding(let errno) = fault { throw SystemError(call: call, errno: errno, path: path) }
                return value
            }
            let code = errno
            if code != EINTR { throw SystemError(call: call, errno: code, path: path) }
        }
    }

    /// Makes a call that reports failure as its result: a count, or a negative errno.
    static func performReturningCount(_ call: SystemCall, _ body: () -> Int32) -> Int32 {
        if case .errno(let errno) = fault(call) { -errno } else { body() }
    }

    /// Makes a call that reports failure as its result: 0, or an errno.
    static func performReturningErrno(_ call: SystemCall, _ body: () -> Int32) -> Int32 {
        if case .errno(let errno) = fault(call) { errno } else { body() }
    }
}
