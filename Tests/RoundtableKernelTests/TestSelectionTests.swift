import Testing

@testable import RoundtableTestBasics

/// Which long tests a run chooses.
@Suite struct TestSelectionTests {
    private let places = (1...50).map { "SomeTests.swift:\($0)" }

    /// As many seeds in a row as there are parts choose each test once.
    @Test(arguments: [8, 32] as [UInt64], [0, 7, 99_990] as [UInt64])
    func partsTogetherAreAll(parts: UInt64, first: UInt64) {
        for place in places {
            let seeds = (first..<first + parts).filter {
                TestSelection("part:\($0)").choosesLongTest(at: place, oneIn: parts)
            }
            #expect(seeds.count == 1, "\(place): \(seeds)")
        }
    }

    /// One seed does not choose all of them.
    @Test func aPartIsAPart() {
        let chosen = places.filter { TestSelection("part:3").choosesLongTest(at: $0, oneIn: 8) }
        #expect(!chosen.isEmpty && chosen.count < places.count / 2)
    }

    @Test func allAndNone() {
        for place in places {
            #expect(TestSelection("all").choosesLongTest(at: place, oneIn: 8))
            #expect(!TestSelection("short").choosesLongTest(at: place, oneIn: 8))
        }
    }
}
