import RoundtableTrials
import Testing

@testable import RoundtableKernel

/// Random histories of a change ring in a control block, at the steps that `RingModel` walks: the real publishers and readers
/// keep to what the model promises, and the ring comes around.
@Suite struct RingHistoryTests {
    private struct Commit {
        let number: Int
        let table: String?
        let sequence: UInt64?
    }

    private struct Reader {
        var reader: RingReader
        var dictionary: TableDictionary
        /// Looks at one of so many steps.
        let interval: Int
        var owed: [Commit] = []
        var exact = 0
        var unsure = 0
    }

    private struct Writer {
        var publisher: ChangePublisher?
        /// What its record is to become.
        var pending: ChangeRecord.State?
    }

    /// **Invariant** (R1–R6): a reader that looks after a commit receives it with its table, or that anything may have changed,
    /// and receives nothing that was not committed.
    @Test func randomHistories() throws {
        var random = SeededGenerator()
        for _ in 0..<10 { try history(steps: 1000, tables: 8, &random) }
        // More tables than the dictionary has places for.
        try history(steps: 800, tables: 400, &random)
        // The ring comes around.
        try history(steps: 6000, tables: 8, &random)
    }

    private func history(steps: Int, tables: Int, _ random: inout SeededGenerator) throws {
        let folder = try TemporaryFolder()
        let block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("a"), access: FileAccess(mode: 0o644))
        func join(_ name: String) throws -> ChangePublisher {
            let traits = ParticipantTraits(role: .readWrite, priority: 1)
            return ChangePublisher(try Participant(in: block, author: name, traits: traits))
        }
        var now: Nanoseconds = 1_000_000_000
        // It does not count up to where it was once it is set back.
        var counter = UInt32.random(in: 10_000...UInt32.max - 10_000, using: &random)
        let recovery = Int.random(in: 0..<steps, using: &random)
        var writers = try (0..<3).map { Writer(publisher: try join("\($0)")) } + [Writer()]
        var readers = [3, 50, 2500].map { interval in
            Reader(
                reader: RingReader(sequence: block.lastSequence, counter: counter),
                dictionary: TableDictionary(block),
                interval: interval
            )
        }
        var commits: [UInt64: Commit] = [:]
        var count = 0
        var clash = ""

        func die(_ index: Int) throws {
            writers[index].publisher?.participant.leave()
            writers[index].publisher = try join("again")
        }

        func commit(_ table: String?, _ sequence: UInt64?) {
            count += 1
            let commit = Commit(number: count, table: table, sequence: sequence)
            if let sequence { commits[sequence] = commit }
            for index in readers.indices { readers[index].owed.append(commit) }
        }

        for step in 0..<steps where clash.isEmpty {
            now += .random(in: 0...5_000_000, using: &random)
            let index = writers.indices.randomElement(using: &random)!
            if let state = writers[index].pending {
                // Publishes, or dies before.
                if Int.random(in: 0..<20, using: &random) == 0 {
                    try die(index)
                } else {
                    writers[index].publisher?.settle(state)
                }
                writers[index].pending = nil
            } else if writers[index].publisher == nil {
                if Int.random(in: 0..<8, using: &random) == 0 {
                    counter &+= 1
                    commit(nil, nil)
                }
            } else {
                let table = "table \(Int.random(in: 0..<tables, using: &random))"
                writers[index].publisher?.reserve(counter: counter, tables: [table], now: now)
                look(&readers, step, block, counter, now, commits, &clash)
                switch Int.random(in: 0..<20, using: &random) {
                case 0:
                    // Dies before committing.
                    try die(index)
                case 1:
                    writers[index].pending = .void
                default:
                    counter &+= 1
                    commit(table, block.lastSequence)
                    writers[index].pending = .committed
                }
            }
            if step == recovery { counter = 0 }
            look(&readers, step, block, counter, now, commits, &clash)
        }
        #expect(clash == "")
        // In the end, all is reported.
        now += 2 * RingReader.longGrace
        for index in readers.indices {
            deliver(&readers[index], block, counter, now, commits, &clash)
            #expect(
                readers[index].owed.map(\.number) == [],
                "the reader that looks each \(readers[index].interval) steps"
            )
        }
        #expect(clash == "")
        #expect(readers[0].exact > steps / 20, "hardly anything is reported exactly")
    }

    private func look(
        _ readers: inout [Reader],
        _ step: Int,
        _ block: ControlBlock,
        _ counter: UInt32,
        _ now: Nanoseconds,
        _ commits: [UInt64: Commit],
        _ clash: inout String
    ) {
        for index in readers.indices where step % readers[index].interval == 0 {
            deliver(&readers[index], block, counter, now, commits, &clash)
        }
    }

    private func deliver(
        _ reader: inout Reader,
        _ block: ControlBlock,
        _ counter: UInt32,
        _ now: Nanoseconds,
        _ commits: [UInt64: Commit],
        _ clash: inout String
    ) {
        var news: [RingReader.News] = []
        let lookAgain = reader.reader.read(
            now: now,
            counter: { counter },
            last: { block.lastSequence },
            record: { block.record($0) },
            isRunning: { _ in true },
            report: { news.append($0) }
        )
        for item in news {
            switch item {
            case .anything:
                reader.owed = []
                reader.unsure += 1
            case .change(let record):
                reader.exact += 1
                guard let commit = commits[record.sequence] else {
                    clash = "record \(record.sequence) is reported, and not committed"
                    return
                }
                let names = record.tables.numbers.map { reader.dictionary.name($0) }
                if !record.tables.isUnknown, names != [commit.table] {
                    clash = "record \(record.sequence) is reported as \(names), and is of \(commit.table ?? "no table")"
                }
                reader.owed.removeAll { $0.sequence == record.sequence }
            }
        }
        if lookAgain == nil, let missed = reader.owed.first { clash = "commit \(missed.number) is not reported" }
    }
}
