import RoundtableTestKit

/// Histories by hand, each with one anomaly.
extension HistoryCheckerTests {
    /// A transaction of a worker, from one time to another. nil for a worker that was killed meanwhile.
    static func t(
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
}
