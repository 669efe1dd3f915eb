import Foundation

/// Measures times against bounds, and repeats the measurement if other work disturbed it.
///
/// Other programs, and other machines on the same processors and disks, can only make a wait longer. So a trial whose bounds do not hold is
/// repeated, up to three trials in all, but only if the system itself reports a disturbance (see `MachineWitness`). On an otherwise
/// idle machine, the first trial counts. All other expectations of a trial count in each trial.
///
/// A machine may be busy all the time. Nothing was measured if all trials were disturbed and the delay of a thread that only sleeps,
/// or of one that only syncs a block, explains the excess. That is neither a pass nor a failure: ``NotMeasured``.
package final class TimedTrial {
    private struct Excess {
        let value: Double
        let bound: Double
        let text: String
    }

    private var excesses: [Excess] = []
    package var violations: [String] { excesses.map(\.text) }
    /// The factor by which delays add up, because a waiter is woken by a participant that had to be woken, too.
    private static let hands = 4.0

    private init() {}

    /// - parameter value: the measured time, in milliseconds, as is the bound.
    package func expect(_ what: String, _ value: Double, atMost bound: Double) {
        // NaN violates every bound.
        guard !(value <= bound) else { return }
        excesses.append(Excess(value: value, bound: bound, text: "\(what): \(value) ms, the bound is \(bound)"))
    }

    /// Whether the disturbance explains every violation.
    private func isExplained(by disturbance: Disturbance) -> Bool {
        excesses.allSatisfy { $0.value <= $0.bound + Self.hands * disturbance.longestDelay }
    }

    /// All trials were disturbed, so that nothing was measured.
    package struct NotMeasured: Error, CustomStringConvertible {
        package let violations: [String]
        package let disturbance: Disturbance

        package var description: String {
            "not measured: \(violations) in the last trial, while \(disturbance). Repeat it on a machine that is less busy"
        }
    }

    /// - returns: the bounds that did not hold in the trial that counts; empty when all of them held.
    /// - throws: ``NotMeasured``, and the errors of `body`.
    package static func run(_ body: (TimedTrial) throws -> Void) throws -> [String] {
        try run(
            watching: {
                let witness = try MachineWitness()
                return witness.end
            },
            body
        )
    }

    /// - parameter watch: begins to watch the machine, and returns the function that ends the watch.
    package static func run(
        attempts: Int = 3,
        watching watch: () throws -> () throws -> Disturbance,
        _ body: (TimedTrial) throws -> Void
    ) throws -> [String] {
        precondition(attempts > 0)
        for attempt in 1... {
            let trial = TimedTrial()
            let end = try watch()
            try body(trial)
            let disturbance = try end()
            guard !trial.violations.isEmpty else { return [] }
            print("trial \(attempt) of \(attempts): \(trial.violations); \(disturbance)")
            if !disturbance.isNoticeable { return trial.violations }
            guard attempt == attempts else { continue }
            guard trial.isExplained(by: disturbance) else { return trial.violations }
            throw NotMeasured(violations: trial.violations, disturbance: disturbance)
        }
        return []
    }
}
