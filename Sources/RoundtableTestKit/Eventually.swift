import Foundation

/// Waits until `condition` holds.
///
/// - throws: when it does not within `timeout`.
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
