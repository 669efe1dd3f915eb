import Foundation
import RoundtableProcesses
import Testing

/// Blocks the calling thread until a condition holds, with a deadline. When that passes, an issue is recorded, and the caller continues.
///
/// - returns: whether the condition holds.
@discardableResult
package func waitUntil(
    _ what: Comment,
    within time: Duration = .seconds(60),
    sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () -> Bool
) -> Bool {
    let deadline = ContinuousClock.now + time
    while !condition() {
        guard ContinuousClock.now < deadline else {
            Issue.record("waited \(time) in vain until \(what.rawValue)", sourceLocation: sourceLocation)
            return false
        }
        usleep(100)
    }
    return true
}

/// A value that several threads use.
package final class Shared<Value: Sendable>: @unchecked Sendable {
    // @unchecked: `changes` guards `current`.
    private var current: Value
    private let changes = NSCondition()

    package init(_ value: Value) { current = value }

    package var value: Value { changes.withLock { current } }

    package func change(_ body: (inout Value) -> Void) {
        changes.withLock {
            body(&current)
            changes.broadcast()
        }
    }

    /// Blocks the calling thread until the value fulfills a condition, with a deadline. When that passes, an issue is recorded, and the caller
    /// continues.
    ///
    /// - returns: whether the value fulfills the condition.
    @discardableResult
    package func wait(
        within time: Duration = .seconds(60),
        sourceLocation: SourceLocation = #_sourceLocation,
        until condition: (Value) -> Bool
    ) -> Bool {
        let end = Date(timeIntervalSinceNow: time / .seconds(1))
        return changes.withLock {
            while !condition(current) {
                guard changes.wait(until: end) else {
                    Issue.record("waited \(time) in vain; the value is \(current)", sourceLocation: sourceLocation)
                    return false
                }
            }
            return true
        }
    }
}

/// What a thread of its own comes to.
package final class Running<T: Sendable>: Sendable {
    private let result = Shared<Result<T, any Error>?>(nil)

    package init(_ body: @escaping @Sendable () throws -> T) {
        Thread.detachNewThread { [result] in
            let outcome = Result(catching: body)
            result.change { $0 = outcome }
        }
    }

    package var value: T {
        get async throws {
            try await eventually("the thread ends", within: .seconds(60)) { result.value != nil }
            return try result.value!.get()
        }
    }
}

/// Begins at once, also while Swift's few threads are blocked.
package func inOwnThread<T: Sendable>(_ body: @escaping @Sendable () throws -> T) -> Running<T> { Running(body) }

/// Runs what blocks on a thread of its own: Swift's few are for those who wait for it.
@discardableResult
package func onThread<T: Sendable>(_ body: @escaping @Sendable () -> T) async -> T {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: body()) }
    }
}
