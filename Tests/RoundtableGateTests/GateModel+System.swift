import RoundtableTestBasics

@testable import RoundtableGate

/// The system that grants assertions and freezes the process, and what `WriteAssertions` and `ProcessSuspension` do with its assertions.
extension GateModel {
    struct System: Hashable {
        enum Owner: Hashable { case writes, protection }
        enum Assertion: Hashable { case none, held, expired }

        /// The assertion that all writes share, and the one of the protected access.
        var ofWrites = Assertion.none
        var ofProtection = Assertion.none
        /// How many requests for an assertion the system still refuses.
        var refusals = 0
        /// Whether the system notifies the process before it freezes it. Otherwise it freezes it whenever no assertion is held (rule F5b).
        var givesNotices = true
        /// How often it still grants an assertion to the thread that opens the gate after a refusal.
        var reopenings = 1
        /// The process is suspended: from the call that suspends it to the one that resumes it.
        var isSuspended = false
        /// The call that suspends it has returned.
        var isGraceOver = false
        /// An assertion was taken back, its handler has returned, and the system has granted no other one since.
        var isExpired = false
        /// How many threads handle an expiry. The system freezes no process meanwhile.
        var handlers = 0

        var mayFreeze: Bool {
            (isSuspended && isGraceOver || isExpired || !givesNotices) && ofWrites != .held && ofProtection != .held
                && handlers == 0
        }
    }

    /// Whether running writes have an assertion that has not expired.
    var isProtecting: Bool { uses > 0 && system?.ofWrites == .held }

    /// Whether a visit that begins must ask for the assertion.
    var needsAssertion: Bool { system.map { $0.ofWrites != .held } ?? false }

    var checkpointsNeedAssertion: Bool { system?.givesNotices == false && broken != .checkpointNeedsNothing }

    /// Ends the assertion if no write uses it.
    mutating func endIfIdle() {
        if uses == 0 { system?.ofWrites = .none }
    }

    /// The assertion ends a while after the last write.
    var worldsAfterLingering: [GateModel] {
        guard let system, uses == 0, system.ofWrites != .none else { return [] }
        var world = self
        world.system?.ofWrites = .none
        return [world]
    }

    func stepsOfAsking(_ index: Int) -> [Change] {
        guard let system, system.ofWrites != .held else { return [{ $0.go(index, .starting) }] }
        let grant: Change = { world in
            world.system?.ofWrites = .held
            world.system?.isExpired = false
            world.go(index, .starting)
        }
        let refuse: Change = { world in
            world.system?.ofWrites = .none
            world.system?.refusals -= 1
            world.go(index, .starting)
        }
        return system.refusals > 0 ? [grant, refuse] : [grant]
    }

    /// A visit leaves that has been refused an assertion, and another thread closes the gate, until the system grants one (rule F5b).
    mutating func turnBack(_ index: Int) {
        if !machine.requests.isExpired {
            threads.append(
                Thread(
                    role: .requester([.expire, .closeAfterRefusal, .endExpiry]),
                    activity: .requesting,
                    isOfRefusal: true
                )
            )
            request(threads.count - 1)
        }
        go(index, .leaving(nil))
    }

    /// Whether a visit that has started must not continue.
    var isUnprotected: Bool {
        guard let system, !system.givesNotices, broken != .refusalIsIgnored else { return false }
        return system.ofWrites != .held && system.ofProtection != .held
    }

    func stepsOfRequest(_ index: Int) -> [Change] {
        guard let system, case .requester(let requests) = threads[index].role, let request = requests.first else {
            return [{ $0.request(index) }]
        }
        switch request {
        case .suspend, .suspendAll:
            return [
                { world in
                    world.system?.isSuspended = true
                    world.request(index)
                }
            ]
        case .resume, .resumeAll:
            return [
                { world in
                    world.system?.isSuspended = false
                    world.system?.isGraceOver = false
                    world.system?.isExpired = false
                    world.request(index)
                }
            ]
        case .returnFromSuspending:
            return [
                { world in
                    if world.broken != .suspensionKeepsAssertion { world.endIfIdle() }
                    world.system?.isGraceOver = system.isSuspended
                    world.nextRequest(index)
                }
            ]
        case .endIdleAssertion:
            return [
                { world in
                    world.endIfIdle()
                    world.nextRequest(index)
                }
            ]
        case .assertionExpires(let owner):
            let isHeld = (owner == .writes ? system.ofWrites : system.ofProtection) == .held
            let never: Change = { $0.finish(index) }
            return isHeld ? [never, { $0.expire(owner, index) }] : [never]
        case .endExpiredAssertion:
            return [
                { world in
                    world.system?.handlers -= 1
                    world.system?.isExpired = true
                    if world.system?.ofWrites == .expired { world.system?.ofWrites = .none }
                    if world.system?.ofProtection == .expired { world.system?.ofProtection = .none }
                    world.nextRequest(index)
                }
            ]
        case .askForProtection:
            let grant: Change = { world in
                world.system?.ofProtection = .held
                world.system?.isExpired = false
                world.nextRequest(index)
            }
            return system.refusals > 0 ? [grant, { $0.refuseProtection(index) }] : [grant]
        case .forgetExpiry, .protect, .protectAll:
            return [
                { world in
                    // The assertion was taken back before it was used.
                    if world.system?.ofProtection != .held { return world.giveUpProtection(index) }
                    world.request(index)
                }
            ]
        case .endExpiry:
            if system.handlers > 0 { return [] }
            let isOfRefusal = threads[index].isOfRefusal
            if isOfRefusal, system.reopenings == 0 { return [{ $0.finish(index) }] }
            return [
                { world in
                    if isOfRefusal { world.system?.reopenings -= 1 }
                    // The system grants an assertion again.
                    if !world.machine.requests.process.isSuspended { world.system?.isExpired = false }
                    world.request(index)
                }
            ]
        case .endProtectingAssertion:
            return [
                { world in
                    // Writes that have been refused an assertion take this one over.
                    if world.uses > 0, system.ofWrites == .none, world.broken != .protectionLeavesNothing {
                        world.system?.ofWrites = system.ofProtection
                    }
                    world.system?.ofProtection = .none
                    world.endIfIdle()
                    world.nextRequest(index)
                }
            ]
        default:
            return [{ $0.request(index) }]
        }
    }

    private mutating func expire(_ owner: System.Owner, _ index: Int) {
        switch owner {
        case .writes: system?.ofWrites = .expired
        case .protection: system?.ofProtection = .expired
        }
        system?.handlers += 1
        nextRequest(index)
    }

    /// The body runs without an assertion if nothing is suspended, and not at all otherwise.
    private mutating func refuseProtection(_ index: Int) {
        system?.refusals -= 1
        guard !machine.isClosed, system?.givesNotices == true, let kind = threads[index].accesses else {
            return giveUpProtection(index)
        }
        threads[index].role = .visitor(kind)
        threads[index].accesses = nil
        threads[index].requestsThen = []
        go(index, .outside)
    }

    private mutating func giveUpProtection(_ index: Int) {
        system?.ofProtection = .none
        threads[index].accesses = nil
        threads[index].requestsThen = []
        finish(index)
    }
}
