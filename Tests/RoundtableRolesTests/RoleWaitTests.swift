import RoundtableKernel
import Testing

@testable import RoundtableRoles

/// **Rule P19**, without a clock.
@Suite struct RoleWaitTests {
    private static let step = RoleWait.interval
    private var wait = RoleWait(patience: 22 * step)
    private var now: Nanoseconds = 1_000_000_000_000

    private mutating func look(
        _ sign: SignOfLife,
        holder: Int64? = 1,
        canAsk: Bool = true,
        ahead: Int = 0,
        after time: Nanoseconds = step
    ) -> RoleWait.Step {
        now += time
        return wait.look(at: now, holder: holder, sign, canAsk: canAsk, ahead: ahead)
    }

    @Test mutating func aFreeRoleIsTakenAtOnce() {
        #expect(look(.gone) == .take)
        #expect(look(.suspended) == .take)
    }

    /// A free role is left to each claim that comes before, for two looks.
    @Test mutating func whoComesLaterWaits() {
        #expect(look(.gone, holder: nil, ahead: 2) == .wait)
        for _ in 0..<3 { #expect(look(.gone, holder: nil, ahead: 2) == .wait) }
        #expect(look(.gone, holder: nil, ahead: 2) == .take)
        #expect(look(.gone, holder: nil, ahead: 1) == .take)
    }

    /// The time counts from when the role is free, not from when the wait began.
    @Test mutating func theTimeOfTheHolderDoesNotCount() {
        for _ in 0..<9 { #expect(look(.present(answered: 1)) == .wait) }
        #expect(look(.gone, ahead: 1) == .wait)
        #expect(look(.gone, ahead: 1) == .wait)
        #expect(look(.gone, ahead: 1) == .take)
    }

    @Test mutating func aHolderThatAnswersKeepsTheRole() {
        var answered: UInt32 = 7
        var questions = 0
        for _ in 0..<200 {
            switch look(.present(answered: answered)) {
            case .wait: break
            case .ask:
                answered += 1
                questions += 1
                wait.asked(answered)
            case .remind, .take: Issue.record("it has answered")
            }
        }
        // Half of the patience between two questions.
        #expect(questions >= 15 && questions <= 20)
    }

    /// It is asked after half of the patience, and given up after all of it.
    @Test(arguments: [SignOfLife.present(answered: 7), .absent])
    mutating func aSilentHolderLosesTheRole(sign: SignOfLife) {
        for _ in 0..<10 { #expect(look(sign) == .wait) }
        #expect(look(sign) == .ask)
        wait.asked(8)
        for _ in 0..<9 { #expect(look(sign) == .remind) }
        #expect(look(sign) == .take)
    }

    /// An answer to another participant's question is a sign of life as well.
    @Test mutating func anyAnswerCounts() {
        for _ in 0..<11 { _ = look(.present(answered: 7)) }
        wait.asked(8)
        #expect(look(.present(answered: 7)) == .remind)
        #expect(look(.present(answered: 9)) == .wait)
        for _ in 0..<9 { #expect(look(.present(answered: 9)) == .wait) }
        #expect(look(.present(answered: 9)) == .ask)
    }

    /// After it was frozen itself, a waiting process gives the holder time to answer.
    @Test mutating func itsOwnFreezeDoesNotCount() {
        for _ in 0..<11 { _ = look(.present(answered: 7)) }
        wait.asked(8)
        #expect(look(.present(answered: 7), after: 3600 * 1_000_000_000) == .remind)
        for _ in 0..<8 { #expect(look(.present(answered: 7)) == .remind) }
        #expect(look(.present(answered: 7)) == .take)
    }

    /// Without a control block, holders cannot answer.
    @Test mutating func nobodyIsBlamedWithoutAControlBlock() {
        for _ in 0..<100 { #expect(look(.absent, canAsk: false) == .wait) }
        #expect(look(.gone, canAsk: false) == .take)
    }

    @Test mutating func anotherHolderHasItsOwnTime() {
        for _ in 0..<11 { _ = look(.absent) }
        wait.asked(8)
        for _ in 0..<5 { _ = look(.absent) }
        #expect(look(.absent, holder: 2) == .wait)
        #expect(wait.question == nil)
    }
}
