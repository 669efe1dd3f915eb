import RoundtableKernel
import Testing

@Suite struct BackoffTests {
    @Test func pausesDouble() {
        var backoff = Backoff(.milliseconds(2), upTo: .milliseconds(50))
        #expect((0..<7).map { _ in backoff.next() / 1_000_000 } == [2, 4, 8, 16, 32, 50, 50])
        backoff.succeeded()
        #expect(backoff.failures == 0)
        #expect(backoff.next() == 2_000_000)
    }

    @Test(arguments: [0, 1, 63, 64, .max]) func manyFailures(failures: Int) {
        #expect(
            Backoff(.seconds(1), upTo: .seconds(30)).pause(after: failures) == (failures < 2 ? 1 : 30) * 1_000_000_000
        )
        #expect(Backoff(.zero, upTo: .seconds(30)).pause(after: failures) == 0)
        #expect(Backoff(.seconds(-1), upTo: .seconds(30)).pause(after: failures) == 0)
        #expect(Backoff(.seconds(30), upTo: .seconds(1)).pause(after: failures) == 1_000_000_000)
        #expect(Backoff(.seconds(Int64.max), upTo: .seconds(Int64.max)).pause(after: failures) == .max)
    }
}
