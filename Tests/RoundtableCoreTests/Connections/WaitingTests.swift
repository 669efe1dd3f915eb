import RoundtableUnitSupport
import Testing

/// Waits of threads for what tests expect.
@Suite struct WaitingTests {
    /// A wait in vain records an issue, and ends.
    @Test func inVain() {
        withKnownIssue { Shared(0).wait(within: .milliseconds(10)) { $0 > 0 } }
        withKnownIssue { waitUntil("it is so", within: .milliseconds(10)) { false } }
    }

    @Test func aConditionThatComesTrue() async throws {
        let number = Shared(0)
        let counting = inThread { for _ in 0..<3 { number.change { $0 += 1 } } }
        #expect(number.wait { $0 == 3 })
        #expect(waitUntil("it is 3") { number.value == 3 })
        try await counting.value
    }
}
