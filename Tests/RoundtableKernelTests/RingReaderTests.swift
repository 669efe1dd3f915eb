import RoundtableTrials
import Testing

@testable import RoundtableKernel

/// What a reader makes of each kind of record: a test for each row of the table in rule R5.
@Suite struct RingReaderTests {
    /// A ring that stands still, and a reader at sequence 10, counter 100.
    private struct Ring {
        var counter: UInt32 = 100
        var last: UInt64 = 10
        var records: [UInt64: ChangeRecord] = [:]
        var now: Nanoseconds = 5_000_000_000
        var isOwnerRunning = false
        var reader = RingReader(sequence: 10, counter: 100)

        mutating func add(_ state: ChangeRecord.State, counter: UInt32, age: Nanoseconds = 0) {
            last += 1
            records[last] = Self.record(last, state, counter: counter, time: now - age)
        }

        mutating func settle(_ sequence: UInt64, _ state: ChangeRecord.State) { records[sequence]?.state = state }

        static func record(
            _ sequence: UInt64,
            _ state: ChangeRecord.State,
            counter: UInt32,
            time: Nanoseconds
        ) -> ChangeRecord {
            ChangeRecord(
                sequence: sequence,
                state: state,
                counter: counter,
                owner: OwnerWord(pid: 1, incarnation: 1),
                time: time,
                tables: .unknown,
                author: "a"
            )
        }

        /// `c11` is the change of record 11; anything else is the reason why anything may have changed.
        mutating func look() -> [String] { lookAgain().news }

        mutating func lookAgain() -> (news: [String], time: Nanoseconds?) { look(beginningWith: counter) }

        /// - parameter first: what the counter says at the beginning of the look, and not any more when it is read again.
        mutating func look(beginningWith first: UInt32) -> (news: [String], time: Nanoseconds?) {
            var news: [String] = []
            var first: UInt32? = first
            let time = reader.read(
                now: now,
                counter: {
                    defer { first = nil }
                    return first ?? counter
                },
                last: { last },
                record: { records[$0] },
                isRunning: { _ in isOwnerRunning },
                report: { item in
                    switch item {
                    case .change(let record): news.append("c\(record.sequence)")
                    case .anything(let reason): news.append(reason.rawValue)
                    }
                }
            )
            return (news, time)
        }
    }

    @Test func nothing() {
        var ring = Ring()
        #expect(ring.look() == [])
    }

    @Test func committedOneMore() {
        var ring = Ring()
        ring.add(.committed, counter: 101)
        ring.add(.committed, counter: 102)
        ring.counter = 102
        #expect(ring.look() == ["c11", "c12"])
        #expect(ring.reader == RingReader(sequence: 12, counter: 102))
        #expect(ring.look() == [])
    }

    @Test(arguments: [(105 as UInt32, "unrecorded"), (1, "reset"), (100, "reset")])
    func committedWithAnotherCounter(counter: UInt32, reason: String) {
        var ring = Ring()
        ring.add(.committed, counter: counter)
        ring.counter = counter
        #expect(ring.look() == [reason, "c11"])
        #expect(ring.look() == [])
    }

    /// Whatever another process writes into the ring, the record of a commit is reported, or that anything may have changed (SECURITY.md, SH4).
    @Test func forgedRecordsHideNoCommit() {
        var random = SeededGenerator()
        for _ in 0..<200 {
            var ring = Ring()
            for _ in 0..<20 {
                for _ in 0..<Int.random(in: 0...3, using: &random) {
                    let states: [ChangeRecord.State] = [.committed, .aside, .void, .unsure]
                    let distances: [UInt32] = [0, 1, 1, 2, 1000, 0x7FFF_FFFF, 0x8000_0000, .max]
                    let first = Bool.random(using: &random) ? ring.counter : ring.records[ring.last]?.counter ?? 0
                    ring.add(
                        states.randomElement(using: &random)!,
                        counter: first &+ distances.randomElement(using: &random)!
                    )
                    // The reader may find a lie before the commit, or with it.
                    if Bool.random(using: &random) { _ = ring.look() }
                }
                ring.counter &+= 1
                ring.add(.committed, counter: ring.counter)
                let news = ring.look()
                let isReported = news.contains { $0 == "c\(ring.last)" || !$0.hasPrefix("c") }
                #expect(isReported, "commit \(ring.counter), reader \(ring.reader), seed \(random.seed)")
            }
        }
    }

    @Test func aside() {
        var ring = Ring()
        ring.add(.aside, counter: 101)
        #expect(ring.look() == ["c11"])
        #expect(ring.reader == RingReader(sequence: 11, counter: 100))
        ring.add(.committed, counter: 101)
        ring.counter = 101
        #expect(ring.look() == ["c12"])
    }

    @Test func void() {
        var ring = Ring()
        ring.add(.void, counter: 101)
        #expect(ring.look() == [])
        #expect(ring.reader == RingReader(sequence: 11, counter: 100))
    }

    /// A handle that replaces its record by those of its commits (rule U5), after the reader has read where the ring ends (rule R3).
    @Test(arguments: [1, 2] as [UInt32])
    func replacedDuringTheLook(commits: UInt32) {
        for seen in 0..<UInt64(commits) {
            var records = [11 as UInt64: Ring.record(11, .void, counter: 101, time: 0)]
            for index in 0..<commits {
                records[12 + UInt64(index)] = Ring.record(12 + UInt64(index), .committed, counter: 101 + index, time: 0)
            }
            var reader = RingReader(sequence: 10, counter: 100)
            var lasts = [11 + seen]
            var news: [RingReader.News] = []
            _ = reader.read(
                now: 0,
                counter: { 100 + commits },
                last: { lasts.popLast() ?? 11 + UInt64(commits) },
                record: { records[$0] },
                isRunning: { _ in true },
                report: { news.append($0) }
            )
            #expect(news == (0..<UInt64(commits)).map { .change(records[12 + $0]!) })
            #expect(reader == RingReader(sequence: 11 + UInt64(commits), counter: 100 + commits))
        }
    }

    @Test func unsure() {
        var ring = Ring()
        ring.add(.unsure, counter: 101)
        ring.add(.committed, counter: 102)
        ring.counter = 102
        #expect(ring.look() == ["unpublished", "c12"])
    }

    @Test func reservedAndNotReached() {
        var ring = Ring()
        ring.add(.reserved, counter: 101, age: 3_600_000_000_000 / 1000)
        #expect(ring.lookAgain() == ([], nil))
        // A stranger's commit, while the owner is about to commit.
        ring.settle(11, .void)
        ring.add(.reserved, counter: 102)
        ring.counter = 101
        #expect(ring.lookAgain() == (["unrecorded"], nil))
        #expect(ring.look() == [])
        ring.counter = 102
        ring.settle(12, .committed)
        #expect(ring.look() == ["c12"])
    }

    @Test func reservedAndReached() {
        var ring = Ring()
        ring.add(.reserved, counter: 101)
        ring.counter = 101
        let reserved = ring.now
        #expect(ring.lookAgain() == ([], reserved + RingReader.grace))
        ring.now += RingReader.grace - 1
        #expect(ring.look() == [])
        // In time.
        var inTime = ring
        inTime.settle(11, .committed)
        #expect(inTime.look() == ["c11"])
        // A publisher that runs may be waiting for a processor.
        ring.now += 1
        ring.isOwnerRunning = true
        #expect(ring.lookAgain() == ([], ring.now + RingReader.grace))
        var stopped = ring
        stopped.isOwnerRunning = false
        #expect(stopped.look() == ["unpublished"])
        ring.now = reserved + RingReader.longGrace
        #expect(ring.look() == ["unpublished"])
        // It is too late: it was reported.
        ring.settle(11, .committed)
        #expect(ring.look() == [])
    }

    /// A stranger's commit does not wait for the word about a later one.
    @Test func reservedAndReachedAfterAStranger() {
        var ring = Ring()
        ring.add(.reserved, counter: 102)
        ring.counter = 102
        #expect(ring.lookAgain() == (["unrecorded"], ring.now + RingReader.grace))
        #expect(ring.look() == [])
        ring.settle(11, .committed)
        #expect(ring.look() == ["c11"])
    }

    /// The record was reserved, committed and found since the look began.
    @Test func reservedInThePresent() {
        var ring = Ring()
        ring.add(.reserved, counter: 101)
        ring.counter = 101
        ring.now -= 1000
        #expect(ring.lookAgain() == ([], ring.now + 1000 + RingReader.grace))
    }

    /// Rule G2: no wait without bound.
    @Test(arguments: [Nanoseconds.max, 8_000_000_000])
    func reservedInTheFuture(time: Nanoseconds) {
        var ring = Ring()
        ring.last = 11
        ring.records[11] = Ring.record(11, .reserved, counter: 101, time: time)
        ring.counter = 101
        ring.isOwnerRunning = true
        #expect(ring.look() == ["unpublished"])
    }

    @Test func overwritten() {
        var ring = Ring()
        ring.add(.committed, counter: 101)
        ring.add(.committed, counter: 102)
        ring.records[11] = nil
        ring.counter = 102
        #expect(ring.look() == ["overrun"])
        #expect(ring.reader == RingReader(sequence: 12, counter: 102))
    }

    @Test(arguments: [11 + UInt64(Layout.recordCount), .max, 9, 0])
    func aLastThatIsFarAwayOrBehind(last: UInt64) {
        var ring = Ring()
        ring.last = last
        #expect(ring.look() == ["overrun"])
        #expect(ring.look() == [])
    }

    @Test func aWholeRingIsReported() {
        var ring = Ring()
        for index in 0..<UInt32(Layout.recordCount) { ring.add(.committed, counter: 101 + index) }
        ring.counter = 100 + UInt32(Layout.recordCount)
        #expect(ring.look().count == Layout.recordCount)
    }

    @Test func theCounterAlone() {
        var ring = Ring()
        ring.counter = 103
        #expect(ring.look() == ["unrecorded"])
        ring.counter = 0
        #expect(ring.look() == ["reset"])
        #expect(ring.look() == [])
    }

    @Test func theCounterOverflows() {
        var ring = Ring()
        ring.reader = RingReader(sequence: 10, counter: .max)
        ring.add(.committed, counter: 0)
        ring.counter = 1
        #expect(ring.look() == ["c11", "unrecorded"])
    }

    /// A counter that is set back during a look: what it said at first is past, and so a record that it had reached is not reached.
    @Test func theCounterIsSetBackDuringALook() {
        var ring = Ring()
        ring.add(.reserved, counter: 101)
        ring.counter = 50
        #expect(ring.look(beginningWith: 101) == (["unrecorded"], nil))
        #expect(ring.lookAgain() == (["reset"], nil))
        #expect(ring.reader == RingReader(sequence: 10, counter: 50))
        // The recovery of the wal-index continues during the look: the last value of the counter is what counts.
        ring.counter = 45
        #expect(ring.look(beginningWith: 40) == (["reset"], nil))
        #expect(ring.lookAgain() == ([], nil))
    }

    /// Commits that are made between the look at the counter and the look at the ring are reported once, exactly.
    @Test func commitsSinceTheLookAtTheCounter() {
        for isNextReserved in [false, true] {
            var reader = RingReader(sequence: 10, counter: 100)
            var news: [RingReader.News] = []
            var counters: [UInt32] = [100]
            let record = Ring.record(11, .committed, counter: 101, time: 0)
            _ = reader.read(
                now: 0,
                counter: { counters.popLast() ?? 103 },
                last: { isNextReserved ? 12 : 11 },
                record: { $0 == 11 ? record : Ring.record(12, .reserved, counter: 102, time: 0) },
                isRunning: { _ in true },
                report: { news.append($0) }
            )
            #expect(news == [.change(record)])
            #expect(reader == RingReader(sequence: 11, counter: 101))
        }
    }
}
