import RoundtableTestKit
import Testing

/// Waits for what tests expect.
@Suite struct EventuallyTests {
    @Test func inVain() throws {
        #expect(throws: TestKitError.self) { try eventually("it is so", within: .milliseconds(10)) { false } }
        var looks = 0
        try eventually("it is so") {
            looks += 1
            return looks == 3
        }
    }

    @Test func forAWhile() throws {
        var looks = 0
        #expect(throws: TestKitError.self) {
            try stays("it is so", for: .seconds(10)) {
                looks += 1
                return looks < 3
            }
        }
        #expect(looks == 3)
        try stays("it is so", for: .milliseconds(10)) { true }
    }
}
