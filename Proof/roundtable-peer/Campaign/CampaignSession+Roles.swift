import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Synchronization

private let lastApplied = "SELECT coalesce(max(id), 0) FROM applied"
private let lastRow = "SELECT coalesce(max(id), 0) FROM entry"

extension CampaignSession {
    func write(_ database: SharedDatabase) throws {
        var statements = RandomStatements(SeededGenerator(seed: work.seed &+ 1))
        var committed = 0
        while !isOver() {
            let n = committed + 1
            if work.defect == .acknowledgesEarly { progress.record(n) }
            let times = work.defect == .commitsTwice && n % 50 == 0 ? 2 : 1
            let author = work.author
            do {
                for _ in 0..<times {
                    try trouble.repeating(isCounted: true) {
                        try database.write { db in
                            let statement = try db.cachedStatement(sql: PeerSchema.insertEntry)
                            for part in 0..<CampaignWorld.rows(ofTransaction: n) {
                                try statement.execute(arguments: [author, n, part])
                            }
                            if work.defect == .holdsForever, n > 20 { while !isOver() { pause(milliseconds: 100) } }
                        }
                    }
                }
            } catch is DiskTrouble.Ignored {}
            committed = n
            progress.record(committed)
            if Int.random(in: 0..<6, using: &random) == 0 {
                try trouble.repeating { try database.write { try statements.transaction($0) } }
            }
            if work.defect == .dropsDerivedTableTriggers, n % 50 == 0 {
                try trouble.repeating { try database.write { try DerivedTableWorld.changeBehindDerivedTables($0) } }
            }
            endRound()
        }
    }

    func observe(_ database: SharedDatabase) throws {
        let values = try ProgressFile(countingAt: work.values)
        // Each of the two files is used by one queue only.
        nonisolated(unsafe) let (counter, valueCounter) = (progress, values)
        let isDeaf = work.defect == .ignoresNotifications
        let notified = Atomic(0)
        let last = Mutex(0)
        let (problems, trouble) = (work.problems, trouble)
        let changes = try database.observeChanges(on: DispatchQueue(label: "campaign.changes")) { _ in
            if isDeaf, notified.add(1, ordering: .relaxed).oldValue > 0 { return }
            do {
                let row = try trouble.repeating { try database.read { try Int.fetchOne($0, sql: lastRow) ?? 0 } }
                let before = last.withLock { last in
                    let before = last
                    last = row
                    return before
                }
                if row < before { appendProblem("row \(row) is the last one, after \(before)", to: problems) }
                counter.record(row)
            } catch {
                appendProblem("an observer's read: \(error)", to: problems)
            }
        }
        let observation = ValueObservation.tracking { db in try Int.fetchOne(db, sql: lastRow) ?? 0 }
        let cancellable = observation.start(
            in: database,
            scheduling: .async(onQueue: DispatchQueue(label: "campaign.values")),
            onError: { appendProblem("a ValueObservation: \($0)", to: problems) },
            onChange: { if !isDeaf { valueCounter.record($0) } }
        )
        while !isOver() {
            pause(milliseconds: 20)
            endRound()
        }
        changes.cancel()
        cancellable.cancel()
    }

    func consume(_ database: SharedDatabase) throws {
        let (journal, isSkipping) = (work.journal, work.defect == .skipsChanges)
        func inserts(_ changes: [HistoryChange]) -> [HistoryChange] {
            changes.filter { $0.operation == .insert && !(isSkipping && ($0.id ?? 0) % 50 == 0) }
        }
        try ConsumerJournal.append([.begin], to: journal)
        while !isOver() {
            do {
                try consumeOnce(database, inserts)
            } catch let error
                where (error as? DatabaseError)?.resultCode == .SQLITE_INTERRUPT || trouble.explains(error)
            {
                // A suspension has aborted it, or a full disk refused it. What was not acknowledged comes again, as after a death.
                try ConsumerJournal.append([.begin], to: journal)
            }
            endRound()
        }
    }

    private func consumeOnce(_ database: SharedDatabase, _ inserts: ([HistoryChange]) -> [HistoryChange]) throws {
        let journal = work.journal
        let noted = try database.history.consume(as: "journal", in: ["entry"], limit: 200) { changes in
            try ConsumerJournal.append(
                inserts(changes).map { .change(id: $0.id ?? -1, author: $0.author) },
                to: journal
            )
        }
        if !noted.changes.isEmpty { try ConsumerJournal.append([.acknowledged], to: journal) }
        let mirrored = try database.history.consumeInTransaction(as: "mirror", in: ["entry"], limit: 200) {
            db,
            changes in
            let statement = try db.cachedStatement(sql: "INSERT INTO mirror (entry) VALUES (?)")
            for change in inserts(changes) { try statement.execute(arguments: [change.id]) }
        }
        if let last = inserts(mirrored.changes).last?.id { progress.record(Int(last)) }
        if noted.changes.isEmpty, mirrored.changes.isEmpty { pause(milliseconds: 5) }
    }

    func own(_ database: SharedDatabase) throws {
        var options = SnapshotFileOptions()
        options.durability = .process
        let url = URL(fileURLWithPath: work.snapshot)
        let file = SnapshotFile<PeerSnapshotValue>(at: url, as: "owner", options: options)
        let publisher = try database.publish(to: file, atMostEvery: .milliseconds(20)) { db in
            let last = try Int.fetchOne(db, sql: lastApplied) ?? 0
            return PeerSnapshotValue(number: last, size: 100 + last % 5000)
        }
        try withExtendedLifetime(publisher) {
            while !isOver() {
                progress.record(
                    try trouble.repeating { try database.read { try Int.fetchOne($0, sql: lastApplied) ?? 0 } }
                )
                pause(milliseconds: 10)
                endRound()
            }
        }
    }

    func send() throws {
        var options = CommandOutbox.Options()
        options.durability = .process
        let outbox = try CommandOutbox(forDatabaseAt: URL(fileURLWithPath: work.path), as: "sender-1", options: options)
        var n = work.from
        while !isOver() {
            let command = PeerCommandEntry(sender: 1, n: n)
            do {
                try outbox.submit(command, id: command.id)
            } catch OutboxError.full {
                pause(milliseconds: .random(in: 50...150))
                continue
            } catch let error where trouble.explains(error) {
                pause(milliseconds: 10)
                continue
            }
            progress.record(n)
            n += 1
            pause(milliseconds: 4)
            endRound()
        }
    }

    func read(_ database: SharedDatabase) throws {
        let file = SnapshotFile<PeerSnapshotValue>(at: URL(fileURLWithPath: work.snapshot), as: work.author)
        var (last, published, count) = (0, 0, 0)
        while !isOver() {
            let row = try trouble.repeating { try database.read { try Int.fetchOne($0, sql: lastRow) ?? 0 } }
            if row < last { report("row \(row) is the last one, after \(last)") }
            last = row
            switch try file.read() {
            case .value(let value, let info):
                if !value.isWhole { report("half a value: \(info)") }
                if value.number < published { report("a snapshot of row \(value.number), after \(published)") }
                published = value.number
            case .absent: break
            case let other: report("snapshot file: \(other)")
            }
            count += 1
            progress.record(count)
            pause(milliseconds: 3)
            endRound()
        }
    }

    func checkpoint(_ database: SharedDatabase) throws {
        var count = 0
        while !isOver() {
            let mode: Database.CheckpointMode = Int.random(in: 0..<8, using: &random) == 0 ? .truncate : .passive
            do {
                _ = try database.checkpoint(mode)
            } catch let error as DatabaseError where [.SQLITE_BUSY, .SQLITE_INTERRUPT].contains(error.resultCode) {
                // Another process checkpoints, or reads; or a suspension has aborted it.
            } catch let error where trouble.explains(error) {
                // The next round tries again.
            }
            count += 1
            progress.record(count)
            pause(milliseconds: 30)
            endRound()
        }
    }
}
