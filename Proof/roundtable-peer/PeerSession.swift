import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableTestSupport

/// Performs commands, one after the other, on one database.
final class PeerSession {
    let channel = CommandChannel()
    private var database: PeerDatabase?
    private(set) var author = ""
    var snapshot: SharedDatabaseSnapshot?
    var term: RoleTerm?
    private var pair: PeerPair?
    private var progress: ProgressFile?
    /// The number of the last committed transaction.
    private var committed = 0
    private var observers: [PeerObserver] = []
    private var suspension: PoolSuspension?
    private var checkpoints: CheckpointWitness?
    private var publisher: SnapshotPublisher?
    #if os(Linux)
        private var sweep: (folder: String, subject: SweepSubject)?
    #endif
    private let events = PeerEvents()

    func run() -> Never {
        while true {
            let command = channel.next()
            do {
                channel.reply(try perform(command))
            } catch {
                channel.reply(PeerReply(failure: error))
            }
        }
    }

    private func perform(_ command: PeerCommand) throws -> PeerReply {
        switch command {
        case .open(let opening):
            let url = try prepare(opening)
            if opening.options.suspensionPolicy != nil {
                try followPolice(takingAssertions: opening.options.takesAssertions ?? false)
            }
            if opening.options.isUnnoticed == true { PlatformLifecycle.changePresence { $0.enterBackground() } }
            if opening.options.suspendsOnTerminalStop == true { try SharedDatabase.suspendAllOnTerminalStop() }
            var options = opening.options.options
            options.onEvent = events.note
            database = .shared(
                try SharedDatabase.open(
                    at: url,
                    schema: opening.schema.schema,
                    as: opening.author,
                    options: options
                )
            )
        case .openReadOnly(let opening, let waiting):
            return try openReadOnly(opening, waiting: waiting)
        case .openPool(let opening):
            let observesSuspension = opening.options.observesSuspension ?? false
            let pool = try openPool(at: try prepare(opening), observesSuspension: observesSuspension)
            if observesSuspension { suspension = try PoolSuspension() }
            try opening.schema.migrator.migrate(pool)
            database = .pool(pool)
        case .write(let rows):
            try opened.write { db in try insert(db, rows: rows) }
            acknowledge()
        case .writeLoop(let load):
            return PeerReply(report: try run(load))
        case .writeShared(let load):
            return PeerReply(number: try writeShared(load, in: try opened.shared))
        case .ledgerLoop(let seconds, let pause, let seed):
            return try commitToLedger(seconds: seconds, pause: pause, seed: seed)
        case .recordHistory(let table, let consumers):
            let history = try opened.shared.history
            try history.enable(for: table)
            for consumer in consumers { try history.restartConsumer(consumer) }
        case .consumeLoop(let load):
            try consume(load, in: try opened.shared)
        case .followDeletions(let limit):
            try followDeletions(limit: limit, in: try opened.shared)
        case .stop, .release:
            break
        case .holdTransaction:
            try holdTransaction()
        case .holdTurn:
            try holdTurn()
        case .holdRead:
            try holdRead()
        case .lookAtStatus(let path):
            return PeerReply(status: try DatabaseStatus(ofDatabaseAt: URL(fileURLWithPath: path)))
        case .look(let path):
            let url = URL(fileURLWithPath: path)
            let status = try DatabaseStatus(ofDatabaseAt: url)
            return PeerReply(status: status, diagnosis: try DatabaseDiagnosis(ofDatabaseAt: url))
        case .walHealth:
            return PeerReply(health: try opened.shared.walHealth())
        case .count:
            return PeerReply(number: try opened.reader.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") })
        case .schemaEvents:
            return PeerReply(message: events.schema)
        case .events:
            return PeerReply(message: events.text)
        case .status:
            return PeerReply(message: try opened.shared.uncoordinatedReason)
        case .execute(let sql):
            try opened.write { try $0.execute(sql: sql) }
        case .replaceContent(let path):
            try opened.shared.replaceContent(with: URL(fileURLWithPath: path))
        case .moveAside(let path, let erasing):
            let url = URL(fileURLWithPath: path)
            guard erasing else {
                return PeerReply(message: try SharedDatabase.quarantine(at: url, as: "mover").path)
            }
            try SharedDatabase.erase(at: url, as: "mover")
        case .snapshot(let command):
            return try perform(command)
        case .role(let command):
            return try perform(command)
        case .pair(.open(let opening, let second)):
            _ = try prepare(opening)
            if opening.options.suspensionPolicy != nil { try followPolice(takingAssertions: false) }
            pair = try PeerPair(opening, second: second, onEvent: events.note)
            database = pair.map { .shared($0.first) }
        case .pair(.write(let count)):
            guard let pair else { throw TestKitError("no pair is open") }
            return try pair.write(count)
        case .snapshotFile(let command):
            return try perform(command)
        case .submitLoop(let load):
            try submit(load)
        case .derivedTables(.open(let path, let revision)):
            database = .shared(try openExtended(path: path, revision: revision))
        case .derivedTables(let command):
            return try perform(command, try opened.shared)
        case .ownOutbox(let path, let snapshot):
            let owned = try own(path: path)
            database = .shared(owned)
            publisher = try snapshot.map { try publish(owned, to: $0) }
        case .share(let load):
            return PeerReply(sharing: try share(load))
        case .countApplied:
            let sql = "SELECT COUNT(*) FROM applied"
            return PeerReply(number: try opened.reader.read { try Int.fetchOne($0, sql: sql) })
        case .interrupt(let milliseconds):
            let reader = try opened.reader
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { reader.interrupt() }
        case .close:
            try opened.close()
            database = nil
        case .useAfterFork:
            return PeerReply(message: try errorOfForkedChild(try opened.shared))
        case .inject(let faults):
            System.inject(faults + AppleConditions.faults)
        case .observe(let observing):
            observers.append(try PeerObserver(observing, of: try opened.shared))
        case .runSchedules(let schedules, let checkpointer, let folder):
            try CheckpointWatch.prepare()
            return PeerReply(outcomes: try schedules.map { try $0.run(by: checkpointer, in: folder) })
        case .watchCheckpoints(let fate, let beyond):
            let witness = try checkpoints ?? CheckpointWitness(beyond: beyond)
            checkpoints = witness
            witness.begin(fate)
        case .checkpointCalls:
            return PeerReply(calls: checkpoints?.calls)
        case .campaign(let work):
            try perform(work)
        case .checkpoint(let mode):
            let result = try opened.shared.checkpoint(mode.grdb)
            return PeerReply(number: result.frames - result.backfilledFrames)
        case .die(let moment):
            try opened.write { db in
                try insert(db, rows: 1)
                arrangeDeath(at: moment, in: db)
            }
        case .sweep(let step):
            #if os(Linux)
                if sweep?.folder != step.folder { sweep = (step.folder, try SweepSubject(step)) }
                return try sweep!.subject.perform(step.kind)
            #else
                throw TestKitError("the sweep works on Linux only")
            #endif
        }
        return PeerReply()
    }

    var opened: PeerDatabase {
        get throws {
            guard let database else { throw TestKitError("no database is open") }
            return database
        }
    }

    // MARK: Opening

    private func prepare(_ opening: PeerOpening) throws -> URL {
        author = opening.author
        progress = try opening.progress.map(ProgressFile.init(countingAt:))
        return URL(fileURLWithPath: opening.path)
    }

    private func openReadOnly(_ opening: PeerOpening, waiting: Int) throws -> PeerReply {
        let url = try prepare(opening)
        let schema = opening.schema.schema
        let options = opening.options.options
        let author = opening.author
        let answer: SharedDatabase.Availability
        if waiting == 0 {
            // This call uses no task, because on Linux the threads of tasks wake once a second, and tests count wake-ups.
            answer = try SharedDatabase.openReadOnly(at: url, schema: schema, as: author, options: options)
        } else {
            answer = try blocking {
                try await SharedDatabase.openReadOnly(
                    at: url,
                    schema: schema,
                    as: author,
                    options: options,
                    waitingUpTo: .milliseconds(waiting)
                )
            }
        }
        switch answer {
        case .available(let shared):
            database = .shared(shared)
            return PeerReply()
        case .unavailable(let reason):
            return PeerReply(.unavailable, message: "\(reason)")
        }
    }

    // MARK: Writing

    func insert(_ db: Database, rows: Int) throws {
        let statement = try db.cachedStatement(sql: PeerSchema.insertEntry)
        for part in 0..<rows { try statement.execute(arguments: [author, committed + 1, part]) }
    }

    private func insertUntilInput(_ db: Database) throws {
        let statement = try db.cachedStatement(sql: PeerSchema.insertEntry)
        var part = 0
        repeat {
            try statement.execute(arguments: [author, committed + 1, part])
            part += 1
        } while part % 100 != 0 || !channel.hasInput
    }

    func acknowledge() {
        committed += 1
        progress?.record(committed)
    }

    private func run(_ load: WriteLoad) throws -> WriteReport {
        let database = try opened
        var recorder = WriteRecorder()
        while recorder.elapsed < load.seconds, recorder.commits < load.commits ?? .max, !channel.hasInput {
            let begun = MonotonicClock.now
            var entered = begun
            do {
                try database.write(priority: load.priority.flatMap(SharedDatabase.TurnPriority.init)) { db in
                    entered = MonotonicClock.now
                    if let rows = load.rows {
                        try insert(db, rows: rows)
                    } else {
                        try insertUntilInput(db)
                    }
                    pause(milliseconds: load.transactionMilliseconds)
                }
                let ended = MonotonicClock.now
                acknowledge()
                recorder.commit(waited: entered - begun, took: ended - begun)
            } catch {
                recorder.fail(error, waited: MonotonicClock.now - begun)
            }
            pause(milliseconds: load.thinkMilliseconds)
        }
        return recorder.report
    }

    // MARK: Holding

    private struct RolledBack: Error {}

    private func holdTransaction() throws {
        do {
            try opened.write { db in
                try insert(db, rows: 1)
                if !waitForRelease() { throw RolledBack() }
            }
            acknowledge()
        } catch is RolledBack {
            // The test asked for this rollback.
        }
    }

    private func holdTurn() throws {
        try opened.shared.writeWithoutTransaction(file: #fileID, line: #line) { _ in _ = waitForRelease() }
    }

    private func holdRead() throws {
        try opened.shared.read { db in
            let line = #line - 1
            _ = try Row.fetchOne(db, sql: "SELECT * FROM sqlite_master")
            _ = waitForRelease(message: "\(#fileID):\(line)")
        }
    }

    /// Replies to the command that holds, then waits for `release`. The caller must reply to `release`.
    private func waitForRelease(message: String? = nil) -> Bool {
        channel.reply(PeerReply(message: message))
        while true {
            if case .release(let commit) = channel.next() { return commit }
            channel.reply(PeerReply(.failed, message: "holding: 'release' first"))
        }
    }
}

extension PeerReply {
    init(failure error: any Error) {
        let code = (error as? DatabaseError)?.extendedResultCode.rawValue
        self.init(.failed, message: "\(error)", code: code)
    }
}
