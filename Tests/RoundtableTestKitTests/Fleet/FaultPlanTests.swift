import Testing

@testable import RoundtableTestKit

/// A seed decides the whole plan.
@Suite struct FaultPlanTests {
    private let plan = FaultPlan([(.kill, 3), (.stop, 1), (.diskFull, 0), (.delay(at: "here"), 1)], count: 1_000)

    @Test func aSeedMakesOnePlan() {
        #expect(Array(plan.events(seed: 1)) == Array(plan.events(seed: 1)))
        #expect(Array(plan.events(seed: 1)) != Array(plan.events(seed: 2)))
    }

    @Test func weightsAndRangesAreKept() {
        let events = Array(plan.events(seed: 3))
        #expect(events.count == 1_000)
        #expect((500...700).contains(events.count { $0.fault == .kill }))
        #expect(!events.contains { $0.fault == .diskFull })
        #expect(Set(events.map(\.fault)).count == 3)
        #expect(events.allSatisfy { plan.pauses.contains($0.pause) && plan.durations.contains($0.duration) })
    }

    @Test func aRoundHasAllFaults() {
        let faults = plan.events(seed: 4).map(\.fault)
        for start in stride(from: 0, to: faults.count, by: 5) {
            let round = faults[start..<start + 5]
            #expect(round.count { $0 == .kill } == 3 && Set(round).count == 3)
        }
    }

    @Test func withoutFaultsThereAreNoEvents() {
        #expect(Array(FaultPlan.none.events(seed: 1)).isEmpty)
        #expect(Array(FaultPlan([(.kill, 0)]).events(seed: 1)).isEmpty)
    }

    /// The faults and times of a plan can be set to anything.
    @Test func noPlanTraps() {
        var plan = FaultPlan([(.kill, 1)], count: 100)
        plan.faults += [(.stop, 0), (.diskFull, -1)]
        plan.pauses = .seconds(-2)...(.seconds(-1))
        plan.durations = .zero ... .seconds(Int64.max)
        let events = Array(plan.events(seed: 5))
        #expect(events.count == 100 && events.allSatisfy { $0.fault == .kill && $0.pause == .zero })
        #expect(events.allSatisfy { $0.duration >= .zero && $0.duration <= .seconds(31_536_000) })
        plan.faults = [(.stop, 0)]
        #expect(Array(plan.events(seed: 5)).isEmpty)
    }

    @Test func theCommandToReplay() {
        #expect(
            ReplayCommand.text(seed: 0xAB, test: "transfers()", program: ["x"], ofTests: true)
                == "ROUNDTABLE_SEED=0xab swift test --filter 'transfers'"
        )
        #expect(
            ReplayCommand.text(seed: 0xAB, test: "f", program: ["./my tool", "check", "it's"], ofTests: false)
                == "ROUNDTABLE_SEED=0xab './my tool' check 'it'\\''s'"
        )
    }
}
