import Foundation
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore

/// Shared commits, walked through every interleaving of small worlds (rules M).
///
/// With `ROUNDTABLE_LONG=1`, larger worlds are walked as well.
@Suite struct SharedCommitModelTests {
    typealias Budget = SharedCommitModel.Budget

    struct Scenario: Sendable, CustomTestStringConvertible {
        let tasks: Int
        var schedules = false
        let budget: Budget

        var testDescription: String {
            let faults = Mirror(reflecting: budget).children.filter { $0.value as? Int != 0 }.compactMap(\.label)
            return (["\(tasks) tasks"] + (schedules ? ["asyncWrite"] : []) + faults).joined(separator: ", ")
        }

        func start(broken: SharedCommitModel.Break? = nil) -> SharedCommitModel {
            SharedCommitModel(tasks: tasks, schedules: schedules, budget: budget, broken: broken)
        }
    }

    private static let scenarios =
        [
            Scenario(tasks: 3, budget: Budget(failures: 1, slices: 1)),
            Scenario(tasks: 2, budget: Budget(rollbacks: 1, commitFailures: 1, closings: 1, slices: 1)),
            Scenario(tasks: 3, budget: Budget(failures: 1, rollbacks: 1)),
            Scenario(tasks: 2, schedules: true, budget: Budget(cancellations: 1, foreignCommits: 1, deaths: 1)),
            Scenario(tasks: 2, budget: Budget(timeouts: 1, closings: 1, foreignCommits: 1, deaths: 1)),
        ]
        + (isLongRun
            ? [
                Scenario(tasks: 3, budget: Budget(rollbacks: 1, cancellations: 1)),
                Scenario(tasks: 3, budget: Budget(commitFailures: 1, slices: 1, foreignCommits: 1, deaths: 1)),
                Scenario(tasks: 3, budget: Budget(timeouts: 1, cancellations: 1, foreignCommits: 1)),
                Scenario(tasks: 3, schedules: true, budget: Budget(slices: 1)),
                Scenario(tasks: 3, budget: Budget(closings: 1, foreignCommits: 1)),
                Scenario(
                    tasks: 2,
                    budget: Budget(
                        failures: 1,
                        rollbacks: 1,
                        commitFailures: 1,
                        timeouts: 1,
                        cancellations: 1,
                        closings: 1,
                        slices: 1,
                        foreignCommits: 1,
                        deaths: 1
                    )
                ),
            ] : [])

    /// **Invariant**, in every state that can be reached, also when the process is killed there:
    ///
    /// - M3: a write that has returned is committed, once. A write that threw is not committed, and leaves no trace.
    /// - Each write has one result, and none is committed twice.
    /// - M1, M7: the writes of a transaction run in the order in which they came, and after what was scheduled before.
    /// - M5, M9: a write fails because of its own closure, its own cancellation, the transaction in which it has run, or a wait that it was in.
    ///   If another closure has ended the transaction, it is that one. An error that may be of rows that are undone does not stand.
    /// - M5: no closure runs twice.
    /// - M5a: a write whose closure has ended a transaction shares none.
    /// - M6: the gate turns back no transaction that has begun, and all writes of a group that has not.
    /// - When a wait fails, all that waited when it began fail with it, and no other write.
    /// - When no step leads on, all writes have their results, and a later write is alone, or founds a group that ends. The write lock is free.
    /// - Each state leads to such an end.
    @Test(arguments: scenarios)
    func everyInterleaving(scenario: Scenario) throws {
        let began = ContinuousClock.now
        let walk = try ModelWalk(from: scenario.start())
        print(
            "shared commits: \(walk.stateCount) states, \(walk.transitionCount) transitions in",
            "\(ContinuousClock.now - began): \(scenario.testDescription)"
        )
        #expect(walk.stateCount > 1000, "the walk is suspiciously short")
    }

    /// Each break of what is around the groups leads to a violation.
    @Test(arguments: SharedCommitModel.Break.allCases)
    func theWalkSeesABrokenLibrary(broken: SharedCommitModel.Break) throws {
        let (scenario, expected): (Scenario, String) =
            switch broken {
            case .failedPartStays:
                (Scenario(tasks: 3, budget: Budget(failures: 1)), "M2: 1 threw ownClosure, and is committed")
            case .refusesWithoutNotifying: (Scenario(tasks: 2, budget: Budget(closings: 1)), "waits for ever")
            case .forgetsEndings:
                (Scenario(tasks: 3, budget: Budget(rollbacks: 1)), "M5a: 2 may share its transaction")
            case .runsLostAgain:
                (Scenario(tasks: 3, budget: Budget(rollbacks: 1)), "runs again")
            case .hidesTheCulprit:
                (
                    Scenario(tasks: 3, budget: Budget(rollbacks: 1)),
                    "fails because of another closure, and does not say so"
                )
            case .forgetsTheRest: (Scenario(tasks: 3, budget: Budget(slices: 1)), "waits for ever")
            case .failsTheCommitted:
                (Scenario(tasks: 1, budget: Budget()), "M2: 0 threw transaction, and is committed")
            case .closesGroupEarly:
                (
                    Scenario(tasks: 3, schedules: true, budget: Budget()),
                    "M7: 2 runs before a write that was scheduled earlier"
                )
            }
        let violation = #expect(throws: ModelViolation.self) { try ModelWalk(from: scenario.start(broken: broken)) }
        #expect(violation?.what.contains(expected) == true, "\(violation?.description ?? "none")")
    }
}
