@testable import RoundtableKernel

/// A reader of a change ring whose records, counter and last sequence are arbitrary, and change from look to look (rules R3, R5).
enum RingTarget: FuzzTarget {
    static let name = "ring"

    static func seeds() throws -> [[UInt8]] {
        // The counter moves by 1 with each record; then a gap, a void record, one that stays reserved, an overrun.
        [
            [0, 10, 100] + (1...6).flatMap { _ in [1, 1, 1, 1, 0, 1] as [UInt8] },
            [0, 10, 100, 2, 1, 1, 3, 0, 0, 1, 0, 0, 3, 200, 1, 3, 0, 1, 1, 1, 0, 255],
            [7, 255, 255] + (0..<40).map { UInt8(truncatingIfNeeded: $0 * 37) },
        ]
    }

    static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        let isAtTheEnd = input.byte() % 8 == 7
        var last = UInt64(input.byte()) &+ (isAtTheEnd ? UInt64.max - 300 : 0)
        var counter = UInt32(input.byte()) &+ (isAtTheEnd ? UInt32.max - 300 : 0)
        var records: [UInt64: ChangeRecord] = [:]
        var reader = RingReader(sequence: last, counter: counter)
        var now: Nanoseconds = 5_000_000_000
        while !input.isEmpty {
            let choice = input.byte()
            let moves = input.byte()
            counter &+= UInt32(truncatingIfNeeded: Int(Int8(bitPattern: input.byte())))
            if choice & 8 != 0 { last = last &+ UInt64(moves) &* 16 }
            if choice & 16 != 0 { last = last &- UInt64(moves) }
            for _ in 0..<Int(moves % 8) {
                last &+= 1
                let state = ChangeRecord.State(rawValue: input.byte() % 6)
                let distance = Int(Int8(bitPattern: input.byte()))
                let age = UInt64(input.byte()) &* 8_000_000
                records[last] = state.map {
                    ChangeRecord(
                        sequence: last,
                        state: $0,
                        counter: counter &+ UInt32(truncatingIfNeeded: distance),
                        owner: OwnerWord(pid: 1, incarnation: 1),
                        time: choice & 32 == 0 ? now &- age : .max - age,
                        tables: .unknown,
                        author: "a"
                    )
                }
            }
            // A counter that is set back while the records are read.
            let later = choice & 64 == 0 ? counter : counter &- UInt32(moves)
            look(&reader, now, [counter, later], last, records, isRunning: choice & 128 != 0)
            now += UInt64(moves) * 1_000_000
        }
    }

    private static func look(
        _ reader: inout RingReader,
        _ now: Nanoseconds,
        _ counters: [UInt32],
        _ last: UInt64,
        _ records: [UInt64: ChangeRecord],
        isRunning: Bool
    ) {
        let before = reader
        var reads = 0, reported: [RingReader.News] = []
        let lookAgain = reader.read(
            now: now,
            counter: {
                defer { reads += 1 }
                return counters[min(reads, counters.count - 1)]
            },
            last: { last },
            record: { records[$0] },
            isRunning: { _ in isRunning },
            report: { reported.append($0) }
        )
        let context = "from \(before) to \(reader), counters \(counters), last \(last): \(reported)"
        require(reported.count <= 2 * Layout.recordCount + 2, "too many reports \(context)")
        if let lookAgain {
            require(
                lookAgain > now.subtractingSaturating(1) && lookAgain - now <= 2 * RingReader.longGrace,
                "looks again at \(lookAgain), now \(now) \(context)"
            )
        }
        // Changes are those of the ring, each once and in order.
        var previous = before.sequence
        for case .change(let record) in reported {
            require(record == records[record.sequence], "a record that is not in the ring \(context)")
            require(record.sequence > previous, "a record twice, or out of order \(context)")
            require(record.state == .committed || record.state == .aside, "nothing was committed \(context)")
            previous = record.sequence
        }
        // Each commit that the counter shows is reported, unless the reader looks again.
        let isSilent = reported.isEmpty && lookAgain == nil
        if isSilent, counters[0] == counters[1] {
            require(counters[0] == before.counter, "commits that nobody hears of \(context)")
        }
        require(
            reader.sequence == last || lookAgain != nil || isReserved(records[reader.sequence &+ 1]),
            "stops early \(context)"
        )
    }

    private static func isReserved(_ record: ChangeRecord?) -> Bool { record?.state == .reserved }
}
