import Foundation

/// Waits until `condition` holds.
///
/// - throws: `TestKitError` when the condition does not hold within `timeout`.
@_disfavoredOverload
package func eventually(
    _ what: String,
    within timeout: Duration = .seconds(10),
    _ condition: () throws -> Bool
) throws {
    let deadline = ContinuousClock.now + timeout
    while try !condition() {
        guard ContinuousClock.now < deadline else {
            throw TestKitError("waited \(timeout) in vain until \(what)")
        }
        usleep(500)
    }
}

/// Waits until `condition` holds, without blocking the thread: other tasks may need it for the condition to come true.
///
/// - throws: `TestKitError` when the condition does not hold within `timeout`, with the line of the caller. Cancelling the task does not end
///   the wait, because the condition may still come true.
package func eventually(
    _ what: String,
    within timeout: Duration = .seconds(30),
    file: StaticString = #fileID,
    line: UInt = #line,
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + timeout
    while try await !condition() {
        guard ContinuousClock.now < deadline else {
            throw TestKitError("\(file):\(line): waited \(timeout) in vain until \(what)")
        }
        do { try await Task.sleep(for: .milliseconds(1)) } catch { await Task.yield() }
    }
}

/// Checks that `condition` holds during all of this time.
///
/// - throws: `TestKitError` as soon as the condition does not hold.
package func stays(_ what: String, for time: Duration, _ condition: () throws -> Bool) throws {
    let end = ContinuousClock.now + time
    repeat {
        guard try condition() else { throw TestKitError("it is not so any more that \(what)") }
        usleep(500)
    } while ContinuousClock.now < end
}
