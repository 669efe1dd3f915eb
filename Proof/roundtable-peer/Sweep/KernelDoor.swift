#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport
    import Synchronization

    /// Numbers the calls that go through `System` in one thread, and makes one of them fail, or kills the process before it.
    final class KernelDoor: Sendable {
        private let counter = Atomic(0)
        private let taken = Atomic(0)
        private let calls = Mutex<[SweepCall]>([])
        private let fault: SweepFault?

        init(_ fault: SweepFault?) { self.fault = fault }

        var recorded: [SweepCall] { calls.withLock { $0 } }
        var isTaken: Int { taken.load(ordering: .relaxed) }

        func run<T>(_ body: () throws -> T) rethrows -> T {
            defer { System.inject([]) }
            return try System.withInterposed({ self.meet($0) }, body)
        }

        private func meet(_ call: SystemCall) {
            let number = counter.add(1, ordering: .relaxed).oldValue
            guard let fault else {
                calls.withLock { $0.append(SweepCall(name: call.rawValue, role: "")) }
                return
            }
            guard number >= fault.call, call.rawValue == fault.name, isTaken == 0 else { return }
            taken.add(1, ordering: .relaxed)
            switch fault.action {
            // The fault is taken by this very call, which asks for faults after this returns.
            case .errnoOnce(let code): System.inject([Fault(call, errno: code, times: 1)])
            case .errnoForever(let code): System.inject([Fault(call, errno: code)])
            default: kill(getpid(), SIGKILL)
            }
        }
    }
#endif
