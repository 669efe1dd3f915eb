import RoundtableTestKit
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Each class of anomalies is found in a history that has it, and in no other of these histories.
@Suite struct HistoryCheckerTests {
    struct Case: CustomTestStringConvertible {
        var kind: Anomaly.Kind
        var name = ""
        var transactions: [TransactionRecord]
        /// Words of the explanation.
        var says: String

        var testDescription: String { name.isEmpty ? kind.name : "\(kind.name), \(name)" }
    }

    @Test(arguments: cases) func aClassIsFound(_ one: Case) {
        let report = HistoryChecker.check(RecordedHistory(one.transactions))
        #expect(report.counts == [one.kind: 1], "\(report)")
        #expect(report.anomalies.first?.explanation.contains(one.says) == true, "\(report)")
    }

    @Test func allClassesHaveACase() {
        #expect(Set(Self.cases.map(\.kind)) == Set(Anomaly.Kind.allCases))
    }

    /// What may happen in a correct database.
    static let correct: [[TransactionRecord]] = [
        // A killed writer: its append is there or not.
        [t(1, 0, nil, [.append(list: 1, element: 5)], .unknown), t(2, 20, 30, [.list(1, elements: [5])])],
        [t(1, 0, nil, [.append(list: 1, element: 5)], .unknown), t(2, 20, 30, [.list(1, elements: [])])],
        // Of two reads beside a write, the later one to begin may see less, if they overlap.
        [
            t(1, 0, 99, [.append(list: 1, element: 5)]), t(2, 10, 30, [.list(1, elements: [5])]),
            t(3, 20, 40, [.list(1, elements: [])]),
        ],
        [t(1, 0, 10, [.append(list: 1, element: 5)], .failed), t(2, 20, 30, [.list(1, elements: [])])],
        [t(1, 0, 99, [.write(register: 1, value: 5)]), t(2, 10, 30, [.value(register: 1)])],
        [t(1, 0, 10, [.append(list: 1, element: 5), .list(1, elements: [5])])],
        // A claim that was cut off may have taken the item.
        [t(1, 0, 10, [.enqueue(item: 5)]), t(2, 20, nil, [.claim()], .unknown), t(3, 40, 50, [.claim()])],
        // One transaction may read nothing and append, and another one append behind it: the appends are in no read.
        [
            t(1, 0, 99, [.list(1, elements: []), .append(list: 1, element: 5)]),
            t(2, 0, 99, [.append(list: 1, element: 6)]),
        ],
        // A transaction that reads its own appends in between.
        [t(1, 0, 99, [.append(list: 1, element: 5), .list(1, elements: [5]), .append(list: 1, element: 6)])],
        // Of a killed writer, everything is there, or nothing.
        [
            t(1, 0, nil, [.append(list: 1, element: 5), .write(register: 1, value: 6)], .unknown),
            t(2, 20, 30, [.list(1, elements: [5]), .value(register: 1, value: 6)]),
        ],
        [
            t(1, 0, nil, [.append(list: 1, element: 5), .write(register: 1, value: 6)], .unknown),
            t(2, 20, 30, [.list(1, elements: []), .value(register: 1)]),
        ],
    ]

    @Test(arguments: correct) func aCorrectHistoryIsClean(_ transactions: [TransactionRecord]) {
        let report = HistoryChecker.check(RecordedHistory(transactions))
        #expect(report.isClean, "\(report)")
    }

    /// The steps of a transaction have an order. It depends on no dictionary: such orders change from one dictionary to the next.
    @Test func itemsOfOneTransactionAreInOrder() {
        for first in 0..<100 {
            let report = HistoryChecker.check(
                RecordedHistory([
                    Self.t(1, 0, 10, [.enqueue(item: first), .enqueue(item: first + 1)]),
                    Self.t(2, 20, 30, [.claim(item: first)]), Self.t(2, 40, 50, [.claim(item: first + 1)]),
                ])
            )
            #expect(report.isClean, "\(report)")
        }
    }

    /// Without a committed transaction, there is no read to check.
    @Test func nothingIsNotClean() {
        for transactions in [[], [Self.t(1, 0, nil, [.append(list: 1, element: 5)], .unknown)]] {
            let report = HistoryChecker.check(RecordedHistory(transactions))
            #expect(!report.isClean && report.counts.isEmpty)
            #expect("\(report)".hasSuffix("NOTHING WAS CHECKED, because no transaction was committed"))
        }
    }

    /// The time of a check grows with the elements that were read, also if every read is wrong.
    @Test func manyWrongReadsTakeNoCubicTime() {
        func seconds(_ reads: Int) -> Double {
            let transactions = (0..<reads).flatMap { number in
                var elements = Array(0...number)
                if number > 0, number < reads - 1 { elements.swapAt(0, 1) }
                let began = Int64(number) * 20
                return [
                    Self.t(1, began, began + 1, [.append(list: 0, element: number)]),
                    Self.t(1, began + 10, began + 11, [.list(0, elements: elements)]),
                ]
            }
            let began = processorSeconds()
            let report = HistoryChecker.check(RecordedHistory(transactions))
            #expect(report.counts[.reorderedWrites] == reads - 2)
            return processorSeconds() - began
        }
        // There are 16 times as many elements. A time that was cubic in the reads was more than 30 times as long, and this one is 9 to 12 times.
        let (short, long) = (seconds(250), seconds(1_000))
        #expect(long < 22 * short, "250 reads: \(short) s, 1,000 reads: \(long) s")
    }

    @Test func aCounterExampleCanBeRead() {
        let report = HistoryChecker.check(
            RecordedHistory([
                Self.t(1, 0, 10_000, [.append(list: 1, element: 5)]),
                Self.t(2, 20_000, 30_000, [.list(1, elements: [])]),
                Self.t(3, 40_000, 50_000, [.list(1, elements: [5])]),
            ])
        )
        #expect(
            report.anomalies.map(\.description) == [
                """
                stale read: no order explains these transactions
                  T1 = worker 1, transaction 0, committed (0.000000 to 0.000010 s): append 5 to list 1
                  T2 = worker 2, transaction 0, committed (0.000020 to 0.000030 s): read list 1 = []
                  T1 is before T2, because T1 had returned when T2 began
                  T2 is before T1, because T2 read list 1 without 5, which T1 wrote
                """
            ]
        )
    }

    /// A history of a correct database stays clean, and one exchanged read in it is found, wherever it is.
    @Test func oneWrongReadAmongMany() throws {
        var generator = SeededGenerator(seed: 7)
        var lists: [Int: [Int]] = [:]
        var transactions: [TransactionRecord] = []
        for index in 0..<2_000 {
            let list = Int.random(in: 0..<5, using: &generator)
            let isRead = Bool.random(using: &generator)
            if !isRead { lists[list, default: []].append(index) }
            let step: Step =
                isRead ? .list(list, elements: lists[list, default: []]) : .append(list: list, element: index)
            let began = Int64(index) * 100
            // They overlap with the three before and after them.
            transactions.append(Self.t(index % 4, began - 150, began + 150, [step]))
        }
        #expect(HistoryChecker.check(RecordedHistory(transactions)).isClean)
        let reads = transactions.indices.filter { transactions[$0].steps[0].isRead && $0 > 100 }
        for _ in 0..<10 {
            let victim = reads.randomElement(using: &generator)!
            var broken = transactions
            guard case .list(let list, let elements) = broken[victim].steps[0] else { continue }
            // The list as it was some appends earlier, all of which are acknowledged.
            broken[victim].steps[0] = .list(list, elements: elements.dropLast(5))
            let report = HistoryChecker.check(RecordedHistory(broken))
            #expect(report.counts == [.staleRead: 1], "\(report)")
        }
    }
}

/// The processor time of this thread.
private func processorSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
