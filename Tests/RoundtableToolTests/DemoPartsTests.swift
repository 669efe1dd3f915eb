import Testing

@testable import RoundtableTool

@Suite struct DemoPartsTests {
    /// A percentile is off by at most one bucket, 1.6 %.
    @Test(arguments: [1 as UInt64, 63, 64, 65, 1_000, 123_456, 987_654_321, 1 << 40, .max])
    func `A histogram of one value has that value as all percentiles`(value: UInt64) {
        var histogram = LatencyHistogram()
        histogram.record(value)
        #expect(histogram.percentile(0.5) == value)
        #expect(histogram.percentile(1) == value)
        #expect(histogram.longest == value)
    }

    @Test func `Percentiles of a thousand values`() {
        var histogram = LatencyHistogram()
        for value in 1...1000 { histogram.record(UInt64(value) * 1000) }
        #expect((500_000...508_000).contains(histogram.percentile(0.5)))
        #expect((990_000...1_000_000).contains(histogram.percentile(0.99)))
        #expect(LatencyHistogram().percentile(0.5) == 0)
    }

    @Test func `Jain's index`() {
        #expect(jainIndex([7, 7, 7]) == 1)
        #expect(jainIndex([1, 0, 0, 0]) == 0.25)
        #expect(jainIndex([]) == 0)
    }

    @Test(arguments: [1, 2, 3, 4, 9, DemoCast.maximumSize])
    func `All players have names of their own, and one of four or more only reads`(size: Int) {
        let cast = DemoCast(size: size)
        #expect(cast.players.count == size)
        #expect(Set(cast.players.map(\.name)).count == size)
        #expect(cast.writerCount == (size >= 4 ? size - 1 : size))
    }
}
