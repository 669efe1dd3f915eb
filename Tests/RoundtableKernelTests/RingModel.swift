@testable import RoundtableKernel

/// A world of writers, the change ring as they write it (rules R1, R2, R4), the commit counter, and one reader that runs
/// `RingReader`. Each step is one access to shared memory, so walking all steps walks all interleavings. Readers write nothing:
/// one stands for all.
struct RingModel: Hashable {
    enum Kind: Hashable {
        /// Records its commits.
        case participant
        /// Does not know the ring, or has no seat.
        case stranger
        /// A raw handle's connection: the record is reserved before its transactions (rules U4, U5).
        case handle
    }

    enum Phase: Hashable {
        case outside
        /// Has SQLite's write lock.
        case locked
        /// Has looked at the record before.
        case settledPredecessor
        /// The record is whole; the ring's last sequence does not say so yet.
        case filled(UInt64)
        case reserved(UInt64)
        /// The transaction is over, and the lock released.
        case ended(UInt64, ChangeRecord.State)
        /// In a handle's turn, outside of a transaction.
        case inTurn(HandleTurn)
        /// Has SQLite's write lock, and appends the records that replace the reserved one.
        case replacing(HandleTurn)
    }

    struct Writer: Hashable {
        var kind: Kind
        var phase = Phase.outside
        var roundsLeft: Int
        var isDead = false
    }

    struct Record: Hashable {
        var sequence: UInt64
        var state: ChangeRecord.State
        var counter: UInt32
        var writer: Int
    }

    /// What may still go wrong.
    struct Budget: Hashable {
        var deaths = 0
        /// Recoveries of the wal-index, which set the counter to 0.
        var recoveries = 0
        var rollbacks = 0
    }

    /// What the reader was answered in the look that is under way.
    enum Answer: Hashable, CustomStringConvertible {
        case number(UInt64)
        case record(Record?)

        var description: String {
            switch self {
            case .number(let number): "reads \(number)"
            case .record(let record?): "reads record \(record.sequence), \(record.state), counter \(record.counter)"
            case .record(nil): "reads no record"
            }
        }
    }

    struct Look: Hashable {
        /// Whether records that were reserved by now have been so for long.
        var isLate: Bool
        /// Commits that were made when the look began, and not reported before.
        var due: Set<Int>
        var answers: [Answer] = []
        var given = 0
    }

    var counter: UInt32
    var last: UInt64 = 0
    /// By place: the ring has so many.
    var records: [Record?]
    var lock: Int?
    var writers: [Writer]
    var budget: Budget
    /// Whether a writer begins when the one before has published: that is what turns are for.
    let hasTurns: Bool

    // The reader
    var sequence: UInt64 = 0
    var position: UInt32
    var look: Look?
    var looksLeft: Int
    /// Whether a look was late while a handle was in a turn: the commits of the turn may be reported before it ends, and once more then.
    var wasLateInTurn = false

    // What was done
    var commitCount = 0
    /// Commits that the reader has not received yet.
    var owed: Set<Int> = []
    /// The commits that records are about.
    var commitOfRecord: [UInt64: Int] = [:]

    init(
        _ writers: [Kind],
        rounds: Int,
        looks: Int,
        places: Int,
        counter: UInt32 = 100,
        budget: Budget = Budget(),
        hasTurns: Bool = false
    ) {
        self.counter = counter
        self.position = counter
        self.records = Array(repeating: nil, count: places)
        self.writers = writers.map { Writer(kind: $0, roundsLeft: rounds) }
        self.looksLeft = looks
        self.budget = budget
        self.hasTurns = hasTurns
    }
}

// MARK: - Steps

extension RingModel {
    struct Step {
        var name: String
        var world: RingModel
        /// What must not be, if it is.
        var violation: String?
    }

    func successors() -> [Step] {
        writers.indices.flatMap { steps(of: $0) } + accidents() + [stepOfReader(isLate: false)].compactMap { $0 }
            + (look == nil ? [stepOfReader(isLate: true)].compactMap { $0 } : [])
    }

    private func steps(of index: Int) -> [Step] {
        let me = writers[index]
        guard !me.isDead else { return [] }
        func step(_ name: String, _ change: (inout RingModel) -> Void) -> Step {
            var world = self
            change(&world)
            return Step(name: "\(index) \(name)", world: world)
        }
        switch me.phase {
        case .outside:
            let isOthersTurn = hasTurns && writers.contains { !$0.isDead && $0.phase != .outside }
            guard me.roundsLeft > 0, lock == nil, !isOthersTurn else { return [] }
            return [
                step("begins") { world in
                    world.lock = index
                    world.writers[index].phase = .locked
                    world.writers[index].roundsLeft -= 1
                }
            ]
        case .locked where me.kind == .stranger:
            return [
                step("commits") { world in
                    world.commit(record: nil)
                    world.writers[index].phase = .outside
                }
            ]
        case .locked:
            return [
                step("settles the record before") { world in
                    world.settlePredecessor()
                    world.writers[index].phase = .settledPredecessor
                }
            ]
        case .settledPredecessor:
            return [
                step("fills record \(last + 1)") { world in
                    let sequence = last + 1
                    world.records[place(sequence)] = Record(
                        sequence: sequence,
                        state: .reserved,
                        counter: counter &+ 1,
                        writer: index
                    )
                    world.writers[index].phase = .filled(sequence)
                }
            ]
        case .filled(let sequence):
            return [
                step("reserves \(sequence)") { world in
                    world.last = sequence
                    world.writers[index].phase = .reserved(sequence)
                }
            ]
        case .reserved(let sequence) where me.kind == .handle:
            return [
                step("gives the lock up") { world in
                    world.lock = nil
                    world.writers[index].phase = .inTurn(HandleTurn(placeholder: sequence, start: counter))
                }
            ]
        case .inTurn(let turn):
            return stepsInTurn(of: index, turn)
        case .replacing(let turn):
            return [stepOfReplacing(by: index, turn)]
        case .reserved(let sequence):
            var steps = [
                step("commits \(sequence)") { world in
                    world.commit(record: sequence)
                    world.writers[index].phase = .ended(sequence, .committed)
                }
            ]
            if budget.rollbacks > 0 {
                steps.append(
                    step("rolls \(sequence) back") { world in
                        world.lock = nil
                        world.budget.rollbacks -= 1
                        world.writers[index].phase = .ended(sequence, .void)
                    }
                )
            }
            return steps
        case .ended(let sequence, let state):
            return [
                step("publishes \(sequence): \(state)") { world in
                    world.settle(sequence, state)
                    world.writers[index].phase = .outside
                }
            ]
        }
    }

    private func accidents() -> [Step] {
        var steps: [Step] = []
        for index in writers.indices
        where budget.deaths > 0 && !writers[index].isDead && writers[index].phase != .outside {
            var world = self
            world.budget.deaths -= 1
            world.writers[index].isDead = true
            // The system releases the locks of the dead.
            if lock == index { world.lock = nil }
            steps.append(Step(name: "\(index) dies", world: world))
        }
        // The process that rebuilds the wal-index holds the write lock.
        if budget.recoveries > 0, lock == nil {
            var world = self
            world.budget.recoveries -= 1
            world.counter = 0
            steps.append(Step(name: "the wal-index is rebuilt", world: world))
        }
        return steps
    }

    // MARK: The ring

    func place(_ sequence: UInt64) -> Int { Int(sequence % UInt64(records.count)) }

    func record(_ sequence: UInt64) -> Record? {
        records[place(sequence)].flatMap { $0.sequence == sequence ? $0 : nil }
    }

    mutating func commit(record: UInt64?) {
        counter &+= 1
        owed.insert(commitCount)
        if let record { commitOfRecord[record] = commitCount }
        commitCount += 1
        lock = nil
    }

    /// Rule R4.
    private mutating func settlePredecessor() {
        guard let record = record(last), record.state == .reserved else { return }
        records[place(last)]?.state = record.counter == counter ? .unsure : .void
    }

    mutating func settle(_ sequence: UInt64, _ state: ChangeRecord.State) {
        guard let record = record(sequence) else { return }
        if record.state == .reserved || (record.state == .unsure && state != .void) {
            records[place(sequence)]?.state = state
        }
    }
}

// MARK: - The reader

extension RingModel {
    private static let reservedAt: Nanoseconds = 1000

    /// The next access to shared memory of a look, and what the reader reports until the one after that.
    ///
    /// `RingReader.read` is run again with the answers so far, and the present one, so that other participants can do anything in between.
    private func stepOfReader(isLate: Bool) -> Step? {
        guard look != nil || looksLeft > 0 else { return nil }
        var world = self
        var look = self.look ?? Look(isLate: isLate, due: owed)
        if self.look == nil {
            world.looksLeft -= 1
            world.wasLateInTurn = wasLateInTurn || isLate && writers.contains { $0.kind == .handle }
        }

        var reader = RingReader(sequence: sequence, counter: position)
        var news: [RingReader.News] = []
        var asked = 0
        var answered: Answer?
        var isAsking = false
        /// What the reader asks for: known, or answered now, or a question for the next step.
        func answer(_ present: () -> Answer) -> Answer? {
            defer { asked += 1 }
            if isAsking { return nil }
            if asked < look.answers.count { return look.answers[asked] }
            if answered == nil {
                answered = present()
                return answered
            }
            isAsking = true
            return nil
        }
        func number(_ present: () -> UInt64, otherwise: UInt64) -> UInt64 {
            if case .number(let number) = answer({ .number(present()) }) { number } else { otherwise }
        }
        let lookAgain = reader.read(
            now: Self.reservedAt + (look.isLate ? 2 * RingReader.longGrace : 1),
            counter: { UInt32(number({ UInt64(counter) }, otherwise: UInt64(position))) },
            last: { number({ last }, otherwise: sequence) },
            record: { sequence in
                guard case .record(let record) = answer({ .record(record(sequence)) }) else { return nil }
                return record.map(Self.changeRecord)
            },
            isRunning: { _ in true },
            report: { if !isAsking { news.append($0) } }
        )
        if let answered { look.answers.append(answered) }
        let name =
            "reader\(look.isLate ? ", late" : "") \(answered.map { "\($0)" } ?? "") → \(Array(news.dropFirst(look.given)))"
        var violation: String?
        world.look = look
        for item in news.dropFirst(look.given) where violation == nil { violation = world.receive(item) }
        if isAsking {
            world.look?.given = news.count
            return Step(name: name, world: world, violation: violation)
        }
        // The look is over.
        world.look = nil
        world.sequence = reader.sequence
        world.position = reader.counter
        let missed = look.due.intersection(world.owed)
        if violation == nil, lookAgain == nil, !missed.isEmpty {
            violation = "commits \(missed.sorted()) were made before the look, and are not reported"
        }
        if violation == nil, lookAgain != nil, look.isLate {
            violation = "wants to look again although the time is over"
        }
        return Step(name: name, world: world, violation: violation)
    }

    private static func changeRecord(_ record: Record) -> ChangeRecord {
        var tables = TableSet()
        tables.insert(record.writer)
        return ChangeRecord(
            sequence: record.sequence,
            state: record.state,
            counter: record.counter,
            owner: OwnerWord(pid: Int32(record.writer), incarnation: 1),
            time: reservedAt,
            tables: tables,
            author: "\(record.writer)"
        )
    }

    /// - returns: what must not be, if it is.
    private mutating func receive(_ news: RingReader.News) -> String? {
        switch news {
        case .change(let record):
            guard let commit = commitOfRecord[record.sequence] else {
                return "record \(record.sequence) is reported, and not committed"
            }
            owed.remove(commit)
            return nil
        case .anything(let reason):
            owed = []
            // Once the ring has come around, some is not exact any more.
            let isExact = isFaultless && look?.isLate != true && !wasLateInTurn && commitCount < records.count
            return isExact ? "anything may have changed (\(reason)), and nothing has gone wrong" : nil
        }
    }

    /// No writer died, rolled back, rebuilt, met another between its commit and its word, or does not know the ring.
    private var isFaultless: Bool {
        hasTurns && writers.allSatisfy { $0.kind != .stranger && !$0.isDead }
    }
}
