import Foundation
import Testing

@testable import RoundtableTestKit

/// What a worker writes is what the checker reads, also when the worker is killed.
@Suite struct JournalTests {
    static let steps: [Step] = [
        .append(list: 1, element: -2), .list(3, elements: []), .list(3, elements: [4, 5]),
        .write(register: 6, value: 7),
        .value(register: 8), .value(register: 8, value: 0), .transfer(from: 1, to: 2, amount: 3),
        .balances([-1, 101], total: 100), .balances(total: 100), .enqueue(item: 9), .claim(), .claim(item: 9),
        .append(list: .min, element: .max), .append(list: .max, element: .min),
    ]

    @Test func allStepsReturn() throws {
        let folder = try TemporaryFolder()
        let journal = try Journal(worker: 3, in: folder.url, nextIndex: 5)
        try journal.end(journal.begin([.list(3)]), .committed, Self.steps)
        try journal.end(journal.begin([.append(list: 1, element: 2)]), .failed)
        try journal.end(journal.begin([.append(list: 1, element: 3)]), .unknown)
        _ = try journal.begin([.append(list: 1, element: 4)])
        let records = try RecordedHistory(journalsIn: folder.url).transactions
        #expect(records.map(\.outcome) == [.committed, .failed, .unknown, .unknown])
        #expect(records.map(\.index) == [5, 6, 7, 8])
        #expect(records.map(\.worker) == [3, 3, 3, 3])
        #expect(records[0].steps == Self.steps)
        #expect(records[3].steps == [.append(list: 1, element: 4)])
        #expect(records[3].ended == nil)
        #expect(records[0].began <= records[0].ended!)
    }

    @Test func aLineThatWasCutOffIsIgnored() throws {
        let text = "B 0 10 a1=2\nC 0 20 a1=2\nB 1 30 a1"
        let records = try Journal.records(in: Data(text.utf8), worker: 1, path: "1.journal")
        #expect(records.map(\.outcome) == [.committed])
    }

    @Test(arguments: [
        "B 0 10 a1=9223372036854775808\n", "B 0 10 a1=-9223372036854775809\n", "B 0 10 a1=\n", "X 0 10\n", "C 0 10\n",
        "B 0 10 a1=2 \n", "B 0\n", "B 0 10 z1=2\n", "\n",
    ])
    func aWrongLineIsAnError(_ text: String) {
        #expect(throws: RecordedHistoryError.self) {
            try Journal.records(in: Data(text.utf8), worker: 1, path: "1.journal")
        }
    }
}
