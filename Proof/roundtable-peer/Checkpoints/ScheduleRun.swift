import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport

/// Runs one schedule on its own database, and compares the database with a model of its content.
final class ScheduleRun {
    private let schedule: CheckpointSchedule
    private let path: String
    private var content: ScheduleContent
    private let checkpointer: PeerDatabase
    private let stranger: DatabaseQueue
    private let fellow: PeerDatabase
    private let reader: DatabaseQueue
    /// The rows that the reader must see during its transaction; nil while it has none.
    private var snapshot: ScheduleContent.Rows?
    /// The content of the table after the stranger's commit; nil while the stranger has no transaction.
    private var written: ScheduleContent.Rows?
    private var refusals = 0
    private var interventions = 0
    private var damage: String?

    /// - parameter path: the path of a file that does not exist.
    init(_ schedule: CheckpointSchedule, by kind: Checkpointer, at path: String) throws {
        self.schedule = schedule
        self.path = path
        content = ScheduleContent(seed: schedule.seed)
        stranger = try Self.plain(path) { db in
            try db.execute(sql: "PRAGMA page_size = 512; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
        }
        try stranger.write(ScheduleContent.create)
        switch kind {
        case .plain:
            checkpointer = .queue(try Self.plain(path))
            fellow = .queue(try Self.plain(path))
        case .shared:
            checkpointer = .shared(try Self.shared(path, "checkpointer"))
            fellow = .shared(try Self.shared(path, "fellow"))
        }
        reader = try Self.plain(path)
    }

    private static func plain(
        _ path: String,
        _ prepare: @escaping @Sendable (Database) throws -> Void = { _ in }
    ) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .immediateError
        configuration.allowsUnsafeTransactions = true
        configuration.prepareDatabase { db in
            try prepare(db)
            // These tests do not simulate a power failure, and a full sync is slow.
            try db.execute(sql: "PRAGMA synchronous = NORMAL")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private static func shared(_ path: String, _ author: String) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.eventLog = .off
        // The fellow writes while the checkpointer may have the turn and cannot give it up.
        options.patience = .milliseconds(1)
        options.busyTimeout = .milliseconds(50)
        // A checkpoint in the background would run on another thread.
        options.checkpointing = .manual
        return try SharedDatabase.open(at: URL(fileURLWithPath: path), schema: .unmanaged, as: author, options: options)
    }

    func run() -> ScheduleOutcome {
        for action in schedule.prelude { perform(action) }
        let watch = CheckpointWatch { [self] point, ordinal in
            for intervention in schedule.interventions
            where intervention.point == point && intervention.ordinal == ordinal {
                interventions += 1
                for action in intervention.actions { perform(action) }
            }
        }
        if schedule.copiesFirst {
            attempt("the commit of the checkpointer") { try commitLarge(checkpointer) }
            attempt("copying") { try checkpointer.checkpoint(.passive) }
        }
        watch.during {
            if !schedule.copiesFirst { attempt("the commit of the checkpointer") { try commitLarge(checkpointer) } }
            if let mode = schedule.asked { attempt("the checkpoint") { try checkpointer.checkpoint(mode) } }
            if case .shared = checkpointer, schedule.asked == nil {
                attempt("the checkpoint") { try checkpointer.checkpoint(schedule.ours) }
            }
        }
        // These commits write more frames than the WAL had, so that frames that a checkpoint left out are missing now.
        for _ in 0..<2 { attempt("a commit afterwards") { try commitLarge(.queue(stranger)) } }
        perform(.checkpoint(.passive))
        perform(.endRead)
        attempt("the look at the end") { try verify(try Self.plain(path), integrity: true) }
        attempt("closing") { try close() }
        if damage == nil { attempt("the look after closing") { try verify(try Self.plain(path), integrity: false) } }
        return ScheduleOutcome(
            damage: damage,
            interventions: interventions,
            calls: Dictionary(uniqueKeysWithValues: watch.calls.map { ($0.rawValue, $1) }),
            refusals: refusals
        )
    }

    // MARK: Actions

    private func perform(_ action: CheckpointSchedule.Action) {
        attempt("\(action)") {
            switch action {
            case .commit(let actor, let rows):
                try commit(content.smallChange(rows: rows), by: actor == .stranger ? .queue(stranger) : fellow)
                if actor == .fellow, rows >= 300, case .shared = fellow { try fellow.checkpoint(.passive) }
            case .checkpoint(let mode):
                _ = try stranger.writeWithoutTransaction { try $0.checkpoint(mode.grdb) }
            case .beginWrite(let rows):
                let change = content.smallChange(rows: rows)
                try Self.begin(.immediate, on: stranger, change.apply)
                written = change.rows
            case .endWrite:
                guard let rows = written else { return }
                written = nil
                try stranger.writeWithoutTransaction { try $0.commit() }
                content.rows = rows
            case .beginRead:
                if snapshot != nil { return }
                try Self.begin(.deferred, on: reader, content.rows.compare)
                snapshot = content.rows
            case .endRead:
                guard let seen = snapshot else { return }
                snapshot = nil
                try reader.writeWithoutTransaction { db in
                    defer { try? db.rollback() }
                    try seen.compare(with: db)
                }
            case .read:
                try fellow.reader.read(content.rows.compare)
            }
        }
    }

    /// Begins a transaction that stays open, unless `body` fails.
    private static func begin(
        _ kind: Database.TransactionKind,
        on queue: DatabaseQueue,
        _ body: (Database) throws -> Void
    ) throws {
        try queue.writeWithoutTransaction { db in
            try db.beginTransaction(kind)
            do {
                try body(db)
            } catch {
                try db.rollback()
                throw error
            }
        }
    }

    private func commitLarge(_ database: PeerDatabase) throws {
        try commit(content.largeChange(rows: schedule.largeRows), by: database)
    }

    /// Updates the model inside the transaction. A write returns only after the checkpoint that it causes, and other connections may have
    /// committed by then.
    private func commit(_ change: ScheduleContent.Change, by database: PeerDatabase) throws {
        let before = content.rows
        do {
            try database.write { db in
                try change.apply(to: db)
                content.rows = change.rows
            }
        } catch {
            content.rows = before
            throw error
        }
    }

    /// Counts a refusal if another connection holds a lock, because a refused action has no effect. (SQLite's error is BUSY, or PROTOCOL
    /// for a lock that no connection should hold for long.)
    private func attempt(_ what: String, _ body: () throws -> Void) {
        do {
            try body()
        } catch let error as DatabaseError where [.SQLITE_BUSY, .SQLITE_PROTOCOL].contains(error.resultCode) {
            refusals += 1
        } catch {
            damage = damage ?? "\(what): \(error)"
        }
    }

    // MARK: The end

    private func verify(_ queue: DatabaseQueue, integrity: Bool) throws {
        defer { try? queue.close() }
        try queue.read { db in
            if integrity {
                let problems = try String.fetchAll(db, sql: "PRAGMA integrity_check(3)")
                guard problems == ["ok"] else { throw TestKitError("integrity_check: \(problems)") }
            }
            try content.rows.compare(with: db)
        }
    }

    private func close() throws {
        try checkpointer.close()
        try fellow.close()
        try reader.close()
        try stranger.close()
    }
}

extension CheckpointSchedule.Mode {
    var grdb: Database.CheckpointMode {
        switch self {
        case .passive: .passive
        case .full: .full
        case .restart: .restart
        case .truncate: .truncate
        }
    }
}

extension CheckpointSchedule {
    /// Runs the schedule on a new database, and removes it afterwards.
    func run(by checkpointer: Checkpointer, in folder: String) throws -> ScheduleOutcome {
        let place = URL(fileURLWithPath: folder).appendingPathComponent("schedule", isDirectory: true)
        try? FileManager.default.removeItem(at: place)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: place) }
        return try ScheduleRun(self, by: checkpointer, at: place.appendingPathComponent("shared.sqlite").path).run()
    }
}

extension PeerDatabase {
    fileprivate func checkpoint(_ mode: CheckpointSchedule.Mode) throws {
        switch self {
        case .shared(let database):
            // A reader that holds the checkpoint up does not end meanwhile, so a longer wait is useless.
            try database.checkpoint(mode.grdb, waitingForReaders: .milliseconds(1))
        case .pool(let pool): _ = try pool.writeWithoutTransaction { try $0.checkpoint(mode.grdb) }
        case .queue(let queue): _ = try queue.writeWithoutTransaction { try $0.checkpoint(mode.grdb) }
        }
    }
}
