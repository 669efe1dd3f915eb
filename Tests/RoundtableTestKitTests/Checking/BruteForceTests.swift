import RoundtableTestKit
import Testing

/// The checker and a search through all serial orders judge the same random histories.
@Suite struct BruteForceTests {
    /// The least share of wrong histories that is found, in percent. Nothing less than all is asked for where the checker is complete.
    static let leastFound: [(RandomHistories.Content, Int)] = [
        (.lists, 100), (.registers, 90), (.singleRegisters, 100), (.queue, 75), (.singleQueue, 90), (.mixed, 85),
    ]

    @Test(arguments: leastFound) func theCheckerAgrees(_ content: RandomHistories.Content, _ leastFound: Int) {
        let seed = SeededGenerator(for: "theCheckerAgrees(\(content.rawValue))").seed
        let text = "ROUNDTABLE_SEED=0x\(String(seed, radix: 16))"
        var histories = RandomHistories(content, seed: seed)
        var (right, wrong, found) = (0, 0, 0)
        for number in 0..<1_500 {
            let transactions = histories.next(faults: number % 3 == 0 ? 0 : 15)
            let report = HistoryChecker.check(RecordedHistory(transactions))
            let isExplained = SerialOrders.explain(transactions)
            if isExplained {
                right += 1
                #expect(report.counts.isEmpty, "\(text), history \(number) has an explanation: \(report)")
            } else {
                wrong += 1
                if !report.counts.isEmpty { found += 1 }
                if leastFound == 100 {
                    #expect(!report.counts.isEmpty, "\(text), history \(number): \(transactions)")
                }
            }
        }
        print(
            "theCheckerAgrees: \(content.rawValue): \(right) right histories; \(found) of \(wrong) wrong ones found, \(text)"
        )
        #expect(right > 1_000 && wrong > 20, "\(text): \(right) right histories, \(wrong) wrong ones")
        #expect(found * 100 >= wrong * leastFound, "\(text): found \(found) of \(wrong)")
    }
}
