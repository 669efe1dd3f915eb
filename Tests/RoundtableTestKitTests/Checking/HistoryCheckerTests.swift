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

    /// A transaction of a worker, from one time to another. nil for a worker that was killed meanwhile.
    private static func t(
        _ worker: Int,
        _ began: Int64,
        _ ended: Int64?,
        _ steps: [Step],
        _ outcome: TransactionRecord.Outcome = .committed
    ) -> TransactionRecord {
        TransactionRecord(worker: worker, index: 0, began: began, ended: ended, outcome: outcome, steps: steps)
    }

    /// Transactions that overlap in time have no order by real time.
    static let cases: [Case] = [
        Case(
            kind: .lostWrite,
            name: "list",
            transactions: [t(1, 0, 10, [.append(list: 1, element: 5)]), t(2, 20, 30, [.list(1, elements: [])])],
            says: "5 was appended to list 1, and no read has it"
        ),
        Case(
            kind: .lostWrite,
            name: "disappeared",
            transactions: [
                t(
                    1,
                    0,
                    10,
                    [.append(list: 1, element: 5), .append(list: 1, element: 6), .append(list: 1, element: 7)]
                ),
                t(2, 0, 30, [.list(1, elements: [5, 6, 7])]), t(3, 0, 30, [.list(1, elements: [5, 7])]),
            ],
            says: "with and without 6"
        ),
        Case(
            kind: .lostWrite,
            name: "the second append of a killed worker",
            transactions: [
                t(1, 0, nil, [.append(list: 1, element: 1), .append(list: 1, element: 2)], .unknown),
                t(2, 20, 30, [.append(list: 1, element: 3)]), t(3, 40, 50, [.list(1, elements: [1, 3])]),
            ],
            says: "only other appends of its transaction were read"
        ),
        Case(
            kind: .lostWrite,
            name: "of a killed worker, after the proof",
            transactions: [
                t(1, 0, nil, [.append(list: 1, element: 1), .append(list: 2, element: 2)], .unknown),
                t(2, 20, 30, [.list(1, elements: [1])]), t(3, 40, 50, [.list(2, elements: [])]),
            ],
            says: "2 was appended to list 2, and no read has it"
        ),
        Case(
            kind: .duplicatedWrite,
            name: "not in the longest list",
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 5)]), t(2, 0, 99, [.append(list: 1, element: 6)]),
                t(3, 0, 99, [.list(1, elements: [5, 6])]), t(4, 0, 99, [.list(1, elements: [5, 5])]),
            ],
            says: "5 is in list 1 twice"
        ),
        Case(
            kind: .duplicatedWrite,
            transactions: [t(1, 0, 10, [.append(list: 1, element: 5)]), t(2, 20, 30, [.list(1, elements: [5, 5])])],
            says: "5 is in list 1 twice"
        ),
        Case(
            kind: .reorderedWrites,
            name: "two reads",
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 5)]), t(2, 0, 99, [.append(list: 1, element: 6)]),
                t(3, 0, 99, [.list(1, elements: [5, 6])]), t(4, 0, 99, [.list(1, elements: [6, 5])]),
            ],
            says: "differ in the order"
        ),
        Case(
            kind: .reorderedWrites,
            name: "the longest list has one more",
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 0)]), t(2, 0, 99, [.append(list: 1, element: 1)]),
                t(3, 0, 99, [.list(1, elements: [1, 0])]), t(4, 100, 110, [.append(list: 1, element: 2)]),
                t(5, 120, 130, [.list(1, elements: [0, 1, 2])]),
            ],
            says: "differ in the order"
        ),
        Case(
            kind: .reorderedWrites,
            name: "of one transaction",
            transactions: [
                t(1, 0, 10, [.append(list: 1, element: 5), .append(list: 1, element: 6)]),
                t(2, 20, 30, [.append(list: 1, element: 7)]), t(3, 40, 50, [.list(1, elements: [6, 5, 7])]),
            ],
            says: "behind what its transaction appended later"
        ),
        Case(
            kind: .reorderedWrites,
            name: "acknowledged",
            transactions: [
                t(1, 0, 10, [.append(list: 1, element: 5)]), t(2, 20, 30, [.append(list: 1, element: 6)]),
                t(3, 0, 99, [.list(1, elements: [6, 5])]),
            ],
            says: "T1 had returned when T2 began"
        ),
        Case(
            kind: .inventedValue,
            name: "list",
            transactions: [t(1, 0, 10, [.list(1, elements: [5])])],
            says: "no transaction appended it"
        ),
        Case(
            kind: .inventedValue,
            name: "register",
            transactions: [t(1, 0, 10, [.value(register: 1, value: 5)])],
            says: "no transaction wrote it"
        ),
        Case(
            kind: .inventedValue,
            name: "queue",
            transactions: [t(1, 0, 10, [.claim(item: 5)])],
            says: "no transaction enqueued it"
        ),
        Case(
            kind: .dirtyWrite,
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 1), .append(list: 2, element: 2)]),
                t(2, 0, 99, [.append(list: 1, element: 3), .append(list: 2, element: 4)]),
                t(3, 0, 99, [.list(1, elements: [1, 3])]), t(4, 0, 99, [.list(2, elements: [4, 2])]),
            ],
            says: "no order explains"
        ),
        Case(
            kind: .abortedRead,
            name: "list",
            transactions: [
                t(1, 0, 10, [.append(list: 1, element: 5)], .failed), t(2, 20, 30, [.list(1, elements: [5])]),
            ],
            says: "was rolled back"
        ),
        Case(
            kind: .abortedRead,
            name: "register",
            transactions: [
                t(1, 0, 10, [.write(register: 1, value: 5)], .failed), t(2, 20, 30, [.value(register: 1, value: 5)]),
            ],
            says: "was rolled back"
        ),
        Case(
            kind: .abortedRead,
            name: "queue",
            transactions: [t(1, 0, 10, [.enqueue(item: 5)], .failed), t(2, 20, 30, [.claim(item: 5)])],
            says: "was rolled back"
        ),
        Case(
            kind: .intermediateRead,
            name: "list",
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 5), .append(list: 1, element: 6)]),
                t(2, 0, 99, [.list(1, elements: [5])]), t(3, 0, 199, [.list(1, elements: [5, 6])]),
            ],
            says: "in the middle of the transaction"
        ),
        Case(
            kind: .intermediateRead,
            name: "register",
            transactions: [
                t(1, 0, 99, [.write(register: 1, value: 5), .write(register: 1, value: 6)]),
                t(2, 0, 99, [.value(register: 1, value: 5)]),
            ],
            says: "in the middle of the transaction"
        ),
        Case(
            kind: .dirtyRead,
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 1), .list(2, elements: [2])]),
                t(2, 0, 99, [.append(list: 2, element: 2), .list(1, elements: [1])]),
            ],
            says: "read 1 of list 1"
        ),
        Case(
            kind: .nonRepeatableRead,
            name: "list",
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 5)]),
                t(2, 0, 99, [.list(1, elements: []), .list(1, elements: [5])]),
            ],
            says: "read twice"
        ),
        Case(
            kind: .nonRepeatableRead,
            name: "register",
            transactions: [
                t(1, 0, 99, [.write(register: 1, value: 5)]),
                t(2, 0, 99, [.value(register: 1), .value(register: 1, value: 5)]),
            ],
            says: "read twice"
        ),
        Case(
            kind: .ownWriteMissed,
            name: "list",
            transactions: [t(1, 0, 10, [.append(list: 1, element: 5), .list(1, elements: [])])],
            says: "which its reader appended"
        ),
        Case(
            kind: .ownWriteMissed,
            name: "register",
            transactions: [t(1, 0, 10, [.write(register: 1, value: 5), .value(register: 1)])],
            says: "which its reader wrote"
        ),
        Case(
            kind: .futureRead,
            name: "list",
            transactions: [t(1, 0, 10, [.list(1, elements: [5]), .append(list: 1, element: 5)])],
            says: "appended only afterwards"
        ),
        Case(
            kind: .futureRead,
            name: "register",
            transactions: [t(1, 0, 10, [.value(register: 1, value: 5), .write(register: 1, value: 5)])],
            says: "wrote only afterwards"
        ),
        Case(
            kind: .futureRead,
            name: "queue",
            transactions: [t(1, 0, 10, [.claim(item: 5), .enqueue(item: 5)])],
            says: "enqueued it only afterwards"
        ),
        Case(
            kind: .nonRepeatableRead,
            name: "queue",
            transactions: [t(1, 0, 99, [.enqueue(item: 5)]), t(2, 0, 99, [.claim(), .claim(item: 5)])],
            says: "after the same transaction had found the queue empty"
        ),
        Case(
            kind: .ownWriteMissed,
            name: "queue",
            transactions: [t(1, 0, 10, [.enqueue(item: 5), .claim(), .claim(item: 5)])],
            says: "found empty by the transaction that had enqueued item 5"
        ),
        Case(
            kind: .fracturedRead,
            name: "killed writer, lists",
            transactions: [
                t(1, 0, nil, [.append(list: 1, element: 1), .append(list: 2, element: 2)], .unknown),
                t(2, 20, 30, [.list(1, elements: [1]), .list(2, elements: [])]),
            ],
            says: "read list 2 without 2"
        ),
        Case(
            kind: .fracturedRead,
            name: "killed writer, registers",
            transactions: [
                t(1, 0, nil, [.write(register: 1, value: 1), .write(register: 2, value: 2)], .unknown),
                t(2, 20, 30, [.value(register: 1, value: 1), .value(register: 2)]),
            ],
            says: "read register 2 without 2"
        ),
        Case(
            kind: .fracturedRead,
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 1), .append(list: 2, element: 2)]),
                t(2, 0, 99, [.list(1, elements: [1]), .list(2, elements: [])]),
                t(3, 0, 199, [.list(2, elements: [2])]),
            ],
            says: "read list 2 without 2"
        ),
        Case(
            kind: .lostUpdate,
            name: "register",
            transactions: [
                t(1, 0, 99, [.value(register: 1), .write(register: 1, value: 5)]),
                t(2, 0, 99, [.value(register: 1), .write(register: 1, value: 6)]),
            ],
            says: "read nothing in register 1 and replaced it"
        ),
        Case(
            kind: .lostUpdate,
            name: "list",
            transactions: [
                t(1, 0, 99, [.list(1, elements: []), .append(list: 1, element: 5)]),
                t(2, 0, 99, [.list(1, elements: []), .append(list: 1, element: 6)]),
                t(3, 0, 199, [.list(1, elements: [5, 6])]),
            ],
            says: "read list 1 without 5"
        ),
        Case(
            kind: .lostUpdate,
            name: "list, never read",
            transactions: [
                t(1, 0, 99, [.list(1, elements: []), .append(list: 1, element: 5)]),
                t(2, 0, 99, [.list(1, elements: []), .append(list: 1, element: 6)]),
            ],
            says: "read list 1 without 6"
        ),
        Case(
            kind: .readSkew,
            transactions: [
                t(1, 0, 99, [.append(list: 1, element: 1)]),
                t(2, 0, 99, [.list(1, elements: [1]), .append(list: 2, element: 2)]),
                t(3, 0, 99, [.list(2, elements: [2]), .list(1, elements: [])]),
            ],
            says: "read list 1 without 1"
        ),
        Case(
            kind: .writeSkew,
            transactions: [
                t(1, 0, 99, [.list(1, elements: []), .append(list: 2, element: 2)]),
                t(2, 0, 99, [.list(2, elements: []), .append(list: 1, element: 1)]),
                t(3, 0, 199, [.list(1, elements: [1]), .list(2, elements: [2])]),
            ],
            says: "read list 2 without 2"
        ),
        Case(
            kind: .staleRead,
            name: "list",
            transactions: [
                t(1, 0, 10, [.append(list: 1, element: 5)]), t(2, 20, 30, [.list(1, elements: [])]),
                t(3, 40, 50, [.list(1, elements: [5])]),
            ],
            says: "T1 had returned when T2 began"
        ),
        Case(
            kind: .staleRead,
            name: "register",
            transactions: [
                t(1, 0, 10, [.write(register: 1, value: 5)]), t(1, 20, 30, [.write(register: 1, value: 6)]),
                t(2, 40, 50, [.value(register: 1, value: 5)]),
            ],
            says: "read register 1 without 6"
        ),
        Case(
            kind: .staleRead,
            name: "register of a killed writer, nothing",
            transactions: [
                t(1, 0, nil, [.write(register: 1, value: 5)], .unknown), t(2, 10, 20, [.value(register: 1, value: 5)]),
                t(3, 30, 40, [.value(register: 1)]),
            ],
            says: "read register 1 without 5"
        ),
        Case(
            kind: .staleRead,
            name: "register of a killed writer, an older value",
            transactions: [
                t(1, 0, 5, [.write(register: 1, value: 4)]), t(2, 6, nil, [.write(register: 1, value: 5)], .unknown),
                t(3, 10, 20, [.value(register: 1, value: 5)]), t(4, 30, 40, [.value(register: 1, value: 4)]),
            ],
            says: "read register 1 without 5"
        ),
        Case(
            kind: .staleRead,
            name: "register, written while the first one is not acknowledged, but was read",
            transactions: [
                t(1, 0, 100, [.write(register: 1, value: 10)]), t(2, 10, 20, [.value(register: 1, value: 10)]),
                t(3, 30, 40, [.write(register: 1, value: 11)]), t(4, 50, 60, [.value(register: 1, value: 10)]),
            ],
            says: "read register 1 without 11"
        ),
        Case(
            kind: .staleRead,
            name: "queue",
            transactions: [
                t(1, 0, 10, [.enqueue(item: 5)]), t(2, 20, 30, [.claim()]), t(3, 40, 50, [.claim(item: 5)]),
            ],
            says: "the queue was found empty, although item 5 was in it"
        ),
        Case(
            kind: .staleRead,
            name: "the update of a killed worker was read, and lost",
            transactions: [
                t(1, 0, nil, [.value(register: 1), .write(register: 1, value: 5)], .unknown),
                t(2, 0, 25, [.value(register: 1), .write(register: 1, value: 6)]),
                t(3, 10, 20, [.value(register: 1, value: 5)]), t(4, 30, 40, [.value(register: 1, value: 6)]),
            ],
            says: "read register 1 without 5"
        ),
        Case(
            kind: .realTimeCycle,
            name: "a claim of the future",
            transactions: [t(1, 0, 10, [.claim(item: 5)]), t(2, 20, 30, [.enqueue(item: 5)])],
            says: "read 5 of the queue"
        ),
        Case(
            kind: .realTimeCycle,
            name: "a read of the future",
            transactions: [t(1, 0, 10, [.list(1, elements: [5])]), t(2, 20, 30, [.append(list: 1, element: 5)])],
            says: "read 5 of list 1"
        ),
        Case(
            kind: .wrongTotal,
            transactions: [t(1, 0, 10, [.balances([60, 30], total: 100)])],
            says: "sum to 90 instead of 100"
        ),
        Case(
            kind: .lostItem,
            transactions: [t(1, 0, 10, [.enqueue(item: 5)]), t(2, 20, 30, [.claim()])],
            says: "item 5 was never claimed"
        ),
        Case(
            kind: .claimedTwice,
            transactions: [
                t(1, 0, 10, [.enqueue(item: 5)]), t(2, 20, 30, [.claim(item: 5)]), t(3, 20, 30, [.claim(item: 5)]),
            ],
            says: "item 5 was claimed twice"
        ),
        Case(
            kind: .reorderedItems,
            transactions: [
                t(1, 0, 10, [.enqueue(item: 5)]), t(1, 11, 20, [.enqueue(item: 6)]), t(2, 30, 40, [.claim(item: 6)]),
                t(3, 50, 60, [.claim(item: 5)]),
            ],
            says: "which its producer enqueued earlier"
        ),
        Case(
            kind: .reorderedItems,
            name: "two claims of one transaction",
            transactions: [
                t(1, 0, 10, [.enqueue(item: 5), .enqueue(item: 6)]), t(2, 30, 40, [.claim(item: 6), .claim(item: 5)]),
            ],
            says: "item 6 was claimed before item 5"
        ),
        Case(
            kind: .reorderedItems,
            name: "two producers",
            transactions: [
                t(1, 0, 10, [.enqueue(item: 5)]), t(2, 20, 30, [.enqueue(item: 6)]), t(3, 40, 50, [.claim(item: 6)]),
                t(3, 60, 70, [.claim(item: 5)]),
            ],
            says: "which was enqueued earlier"
        ),
        Case(
            kind: .reorderedItems,
            name: "an item was passed over",
            transactions: [
                t(1, 0, 10, [.enqueue(item: 5)]), t(1, 20, 30, [.enqueue(item: 6)]), t(2, 40, 50, [.claim(item: 6)]),
            ],
            says: "item 6 was claimed before item 5"
        ),
    ]

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
        // There are 16 times as many elements. A time that is cubic in the reads was 47 times as long.
        let (short, long) = (seconds(250), seconds(1_000))
        #expect(long < 30 * short, "250 reads: \(short) s, 1,000 reads: \(long) s")
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
