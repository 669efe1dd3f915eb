#if os(Linux)
    import CRoundtableTestShims
    import Foundation
    import Glibc
    import Synchronization

    /// Runs code of this process as another user, to test what is denied to users without privileges.
    package enum OtherUser {
        /// Whether this process may become another user.
        package static var isPossible: Bool { geteuid() == 0 }

        /// Runs `body` on its own thread, which belongs to another user, by default `nobody`. Work that `body` passes to other threads
        /// runs with the rights of the process.
        package static func run<T: Sendable>(
            as user: UInt32 = 65534,
            _ body: @escaping @Sendable () throws -> T
        ) async throws -> T {
            try await withCheckedThrowingContinuation { continuation in
                Thread.detachNewThread {
                    continuation.resume(
                        with: Result {
                            let code = rt_give_up_root(user)
                            guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EPERM) }
                            return try body()
                        }
                    )
                }
            }
        }

        /// Runs `body` like `run(as:_:)`, and blocks the calling thread meanwhile.
        package static func runBlocking<T: Sendable>(
            as user: UInt32 = 65534,
            _ body: @escaping @Sendable () throws -> T
        ) throws -> T {
            let done = DispatchSemaphore(value: 0)
            let result = Mutex<Result<T, any Error>?>(nil)
            Thread.detachNewThread {
                let outcome = Result {
                    let code = rt_give_up_root(user)
                    guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EPERM) }
                    return try body()
                }
                result.withLock { $0 = outcome }
                done.signal()
            }
            done.wait()
            guard let result = result.withLock({ $0 }) else { preconditionFailure("the thread leaves a result") }
            return try result.get()
        }
    }
#endif
