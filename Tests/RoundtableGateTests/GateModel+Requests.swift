import RoundtableTestBasics

@testable import RoundtableGate

extension GateModel {
    enum Request: Hashable {
        case suspend, resume, protect, endProtection, stop, endStop
        /// What an expiry does in two steps: first to the requests for all databases, then to those for this one.
        case expire, endProtections
        case endExpiry
        /// The second step of a refusal (rule F5b).
        case closeAfterRefusal
        /// A protected access that no assertion backs.
        case protectUnbacked
        /// The requests for all databases. Suspending them has a second step.
        case suspendAll, dropUnbacked, resumeAll, protectAll, endProtectionOfAll
        // What follows happens between the process and the system, and only where it grants assertions: see `GateModel+System.swift`.
        /// The system takes an assertion back, or never does.
        case assertionExpires(GateModel.System.Owner)
        /// The handler of an expiry returns.
        case endExpiredAssertion
        case askForProtection, forgetExpiry, endProtectingAssertion
        /// The end of each function that closes gates.
        case endIdleAssertion
        case returnFromSuspending

        /// Whether the thread then waits for the visits inside, and settles the gate.
        var closes: Bool {
            switch self {
            case .suspend, .endProtection, .stop, .endProtections, .dropUnbacked, .endProtectionOfAll,
                .closeAfterRefusal:
                true
            default: false
            }
        }

        func change(_ requests: inout SuspensionRequests) {
            switch self {
            case .suspend:
                requests.own.isSuspended = true
            case .resume: requests.own.isSuspended = false
            case .protect: requests.own.protections[1] = .init(name: "protected", isBacked: true)
            case .protectUnbacked: requests.own.protections[1] = .init(name: "protected", isBacked: false)
            case .endProtection: requests.own.protections[1] = nil
            case .stop: requests.isStopping = true
            case .endStop: requests.isStopping = false
            case .expire:
                requests.process.protections = [:]
                requests.isExpired = true
            case .endProtections: requests.own.protections = [:]
            case .endExpiry: if !requests.process.isSuspended { requests.isExpired = false }
            case .suspendAll: requests.process.isSuspended = true
            case .resumeAll:
                requests.process.isSuspended = false
                requests.isExpired = false
            case .protectAll: requests.process.protections[1] = .init(name: "protected", isBacked: true)
            case .endProtectionOfAll: requests.process.protections[1] = nil
            case .forgetExpiry: requests.isExpired = false
            case .assertionExpires, .endExpiredAssertion, .askForProtection, .endProtectingAssertion,
                .endIdleAssertion, .returnFromSuspending, .dropUnbacked, .closeAfterRefusal:
                break
            }
        }

        /// What a suspension does besides to the protections that nothing backs.
        func dropUnbackedProtections(_ requests: inout SuspensionRequests) {
            switch self {
            case .suspend: requests.own.protections = requests.own.protections.filter(\.value.isBacked)
            case .dropUnbacked: requests.dropUnbackedProtections()
            default: break
            }
        }

        /// Whether a protection that nothing backs is left by a request that must end it.
        func leavesUnbackedProtection(in requests: SuspensionRequests) -> Bool {
            switch self {
            case .suspend: requests.own.hasUnbackedProtection
            case .dropUnbacked: requests.own.hasUnbackedProtection || requests.process.hasUnbackedProtection
            default: false
            }
        }
    }
}

extension SuspensionRequests.Request {
    fileprivate var hasUnbackedProtection: Bool { protections.values.contains { !$0.isBacked } }
}
