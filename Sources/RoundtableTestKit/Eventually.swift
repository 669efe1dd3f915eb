import Foundation

/// Waits until `condition` holds.
///
/// - throws: `TestKitError` when the condition does not hold within `timeout`.
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
