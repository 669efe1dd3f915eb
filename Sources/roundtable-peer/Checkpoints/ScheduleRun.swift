import Foundation
import GRDB
import Roundtable
import RoundtableTestKit

/// One schedule on a database of its own, beside a model of what the database must hold.
final class ScheduleRun {
    private let schedule: CheckpointSchedule
    private let path: String
    private var content: ScheduleContent
    private let checkpointer: PeerDatabase
    private let stranger: DatabaseQueue
    private let fellow: PeerDatabase
    private let reader: DatabaseQueue
    /// What the reader must see for as long as it stays; nil while it is not reading.
    private var snapshot: ScheduleContent.Rows?
    /// What the table holds once the stranger commits; nil while it is not within a transaction.
    private var written: ScheduleContent.Rows?
    private var refusals = 0
    private var interventions = 0
    private var damage: String?

    /// - parameter path: of a file that does not exist.
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
            // No power is cut here, and disks are slow.
            try db.execute(sql: "PRAGMA synchronous = NORMAL")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private static func shared(_ path: String, _ author: String) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        // The fellow writes while the checkpointer may have the turn, and cannot give it up.
        options.patience = .milliseconds(1)
        options.busyTimeout = .milliseconds(50)
        // A checkpoint in the background would be on another thread.
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
        // More frames than the WAL had: what a checkpoint has left out shows.
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

    /// A write returns after the checkpoint that it brings about: by then, others may have committed more.
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

    /// That somebody holds a lock is part of the game: what was refused has not happened. (SQLite says BUSY, or PROTOCOL when it is a
    /// lock that nobody should hold for long.)
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
    /// On a new database, which is removed afterwards.
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
            // A reader that is in the way stays there.
            try database.checkpoint(mode.grdb, waitingForReaders: .milliseconds(1))
        case .pool(let pool): _ = try pool.writeWithoutTransaction { try $0.checkpoint(mode.grdb) }
        case .queue(let queue): _ = try queue.writeWithoutTransaction { try $0.checkpoint(mode.grdb) }
        }
    }
}
