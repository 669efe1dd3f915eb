import Foundation
import RoundtableKernel
import RoundtableTestBasics
import Testing

@testable import RoundtableGate

/// The suspension gate, walked through every interleaving of small worlds (rules F1 to F6).
@Suite struct GateModelTests {
    typealias Kind = SuspensionReport.Access.Kind
    typealias Request = GateModel.Request

    struct Scenario: Sendable, CustomTestStringConvertible {
        let visitors: [Kind]
        let requesters: [[Request]]
        /// A visitor that is a protected access, of this database or of all.
        var protected: Kind?
        var isOfAll = false
        var system: GateModel.System?

        init(_ visitors: Kind..., requesters: [Request]...) {
            (self.visitors, self.requesters) = (visitors, requesters)
        }

        /// - parameter refusals: how many assertions the system refuses.
        init(
            _ visitors: Kind...,
            protected: Kind? = nil,
            isOfAll: Bool = false,
            resumes: Bool = false,
            expires: GateModel.System.Owner? = nil,
            refusals: Int = 0,
            givesNotices: Bool = true
        ) {
            self.visitors = visitors
            (self.protected, self.isOfAll) = (protected, isOfAll)
            let suspend: [Request] = isOfAll ? [.suspendAll, .dropUnbacked] : [.suspend]
            let resume: [Request] = resumes ? [isOfAll ? .resumeAll : .resume] : []
            let expiry: [[Request]] =
                expires.map { [[.assertionExpires($0), .expire, .endProtections, .endExpiredAssertion, .endExpiry]] }
                ?? []
            requesters = (givesNotices ? [suspend + [.returnFromSuspending] + resume] : []) + expiry
            system = GateModel.System(refusals: refusals, givesNotices: givesNotices)
        }

        func start(broken: GateModel.Break? = nil) -> GateModel {
            let protections = protected.map { kind in
                [
                    (
                        before: [.askForProtection, .forgetExpiry, isOfAll ? .protectAll : .protect] as [Request],
                        kind: kind,
                        after: [isOfAll ? .endProtectionOfAll : .endProtection, .endProtectingAssertion] as [Request]
                    )
                ]
            }
            return GateModel(
                visitors: visitors,
                protected: protections ?? [],
                requesters: requesters,
                system: system,
                broken: broken
            )
        }

        var testDescription: String {
            let others = requesters.map { $0.map { "\($0)" }.joined(separator: " then ") }
            let protections = protected.map { ["protected \($0.rawValue)"] } ?? []
            let refusals = system.map { $0.refusals > 0 ? ["\($0.refusals) refusals"] : [] } ?? []
            let notices = system?.givesNotices == false ? ["no notices"] : []
            return (visitors.map(\.rawValue) + protections + others + refusals + notices).joined(separator: ", ")
        }
    }

    private static let scenarios = [
        Scenario(.write, .write, requesters: [.suspend, .resume]),
        Scenario(.write, .checkpoint, requesters: [.suspend, .resume]),
        Scenario(.read, .opening, requesters: [.suspend, .resume]),
        Scenario(.write, .closing, requesters: [.suspend, .resume]),
        Scenario(.checkpoint, .closing, requesters: [.suspend], [.resume]),
        Scenario(.opening, requesters: [.suspend], [.stop, .endStop]),
        Scenario(.write, requesters: [.suspend, .resume], [.suspend]),
        Scenario(.write, requesters: [.suspend], [.protect, .endProtection]),
        Scenario(.write, requesters: [.protect, .endProtection], [.expire, .endProtections, .endExpiry]),
        Scenario(.write, requesters: [.suspend, .resume], [.stop, .endStop]),
        Scenario(.write, requesters: [.suspend, .resume], [.protectUnbacked, .endProtection]),
        Scenario(.write, requesters: [.suspendAll, .dropUnbacked], [.protectUnbacked, .endProtection]),
    ]

    /// The system grants assertions, takes them back, and freezes the process.
    private static let systemScenarios =
        [
            Scenario(.write, refusals: 1),
            Scenario(.write, expires: .writes),
            Scenario(protected: .write, refusals: 2),
            Scenario(protected: .checkpoint, expires: .protection),
            Scenario(.checkpoint, protected: .write, isOfAll: true),
            Scenario(.write, .checkpoint, refusals: 1, givesNotices: false),
            Scenario(.write, .write, refusals: 2, givesNotices: false),
            Scenario(.read, expires: .writes, refusals: 1, givesNotices: false),
            Scenario(.opening, protected: .write, refusals: 2, givesNotices: false),
        ]
        + (isLongRun
            ? [
                Scenario(.write, resumes: true, expires: .writes, refusals: 1),
                Scenario(protected: .write, expires: .protection),
                Scenario(protected: .write, expires: .writes),
                Scenario(protected: .opening, resumes: true, expires: .protection),
                Scenario(protected: .read, isOfAll: true, resumes: true, expires: .protection),
                Scenario(protected: .closing, expires: .protection),
                Scenario(.write, protected: .write),
                Scenario(.write, expires: .writes, refusals: 1, givesNotices: false),
                Scenario(protected: .write, isOfAll: true, expires: .protection, refusals: 2, givesNotices: false),
                Scenario(.write, .closing, refusals: 2, givesNotices: false),
            ] : [])

    /// **Invariant**, in every state that can be reached:
    ///
    /// - F1: the gate is closed while the requests say so, and otherwise a thread is about to open it. An abandoned gate stays open.
    /// - F1, F4: no visit enters or starts, and no step begins, while the requests say that the gate is closed.
    /// - F2, F3: no wake-up is lost, of the suspending thread or of a visitor outside.
    /// - F3: while an aborted visit is inside, `mustNotCommit` is true, and not afterwards. Only aborted visits are interrupted, and no
    ///   connection while it closes. A write that has committed is not aborted. No suspension answers that the locks are released while a visit
    ///   holds one. The answer names what still holds a lock, or the last visit that was ended since the gate closed, with its line of code and
    ///   the time since it began, and no visit that was ended before.
    /// - F5: each use of the assertion ends once.
    /// - F6: no lock is held behind a gate that was settled. When no thread waits any more, a closed gate was settled.
    /// - F3, F5: where the system may freeze the process, no lock is held, except by a visit that was aborted in time and cannot be
    ///   interrupted. The process may be frozen when the call that suspends it has returned, no assertion is held, and no expiry is being handled.
    /// - F5b: the same holds for a process without notices, which may be frozen whenever it holds no assertion.
    /// - F1: no protection that nothing backs outlives a suspension.
    /// - F5: when no thread waits any more, the assertion of writes is not kept behind a closed gate.
    /// - Each state leads to one in which all threads have ended, or wait outside of a closed gate.
    @Test(arguments: scenarios + systemScenarios)
    func everyInterleaving(scenario: Scenario) throws {
        let began = ContinuousClock.now
        let walk = try ModelWalk(from: scenario.start())
        print(
            "gate model: \(walk.stateCount) states, \(walk.transitionCount) transitions in \(ContinuousClock.now - began):",
            scenario.testDescription
        )
        #expect(walk.stateCount > (scenario.system == nil ? 1000 : 400), "the walk is suspiciously short")
    }
    /// Each break of what is around the machine leads to a violation.
    @Test(arguments: GateModel.Break.allCases)
    func theWalkSeesABrokenGate(broken: GateModel.Break) {
        let (scenario, expected): (Scenario, String) =
            switch broken {
            case .suspensionKeepsAssertion, .lastVisitKeepsAssertion:
                (Scenario(.write, refusals: 0), "F5: the assertion of writes is kept behind a closed gate")
            case .suspensionKeepsUnbackedProtections:
                (
                    Scenario(.write, requesters: [.suspend], [.protectUnbacked, .endProtection]),
                    "F1: a protected access that nothing backs outlives a suspension"
                )
            case .refusalIsIgnored:
                (
                    Scenario(.write, refusals: 1, givesNotices: false),
                    "F3: a process that may be frozen holds the lock of a visitor(\(String(reflecting: Kind.write)))"
                )
            case .checkpointNeedsNothing:
                (
                    Scenario(.checkpoint, refusals: 1, givesNotices: false),
                    "F3: a process that may be frozen holds the lock of a visitor(\(String(reflecting: Kind.checkpoint)))"
                )
            case .protectionLeavesNothing:
                (
                    Scenario(.write, protected: .write, refusals: 1, givesNotices: false),
                    "F3: a process that may be frozen holds the lock of a visitor(\(String(reflecting: Kind.write)))"
                )
            }
        let violation = #expect(throws: ModelViolation.self) { try ModelWalk(from: scenario.start(broken: broken)) }
        #expect(violation?.what == expected, "\(violation?.description ?? "none")")
    }
}
