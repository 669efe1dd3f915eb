import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableGate
import RoundtableKernel

/// Applies the waiting commands of an outbox, in runs. ``OutboxSchedule`` says what to do next, and this does it. It is used by one thread
/// at a time.
final class OutboxRounds {
    /// How long the id of a decided command is kept, in seconds (rule X11).
    private static let memory: TimeInterval = 30 * 24 * 3600

    let folder: OutboxFolder
    private let databaseFiles: DatabaseFiles
    var databasePath: String { databaseFiles.databasePath }
    let handlers: OutboxHandlers
    let ownership: OutboxOwnershipRecorder
    private var answers: OutboxAnswers
    private(set) var files: OutboxCommandFiles
    var schedule: OutboxSchedule
    /// The identity of the database file that the last transaction was in.
    var identity: FileIdentity?

    init(of database: SharedDatabase, handlers: OutboxHandlers) {
        folder = database.outboxFolder
        databaseFiles = database.files
        self.handlers = handlers
        answers = OutboxAnswers(folder: folder)
        ownership = OutboxOwnershipRecorder(folder, author: database.author)
        files = OutboxCommandFiles(folder)
        schedule = OutboxSchedule(author: database.author)
    }

    /// Decides the commands that wait now, as far as they can be decided. Commands that come during a run are left to the next one.
    ///
    /// - Parameters:
    ///   - keepsFiles: whether the files of decided commands are kept for a moment, until ``removalIsDue``.
    ///   - isOver: called between batches. If it returns true, the run ends.
    /// - throws: errors of the database; `SystemError`. What was decided before the error stays decided.
    func run(
        _ database: SharedDatabase,
        keepingFiles keepsFiles: Bool = false,
        isOver: () -> Bool = { false }
    ) throws -> OutboxReport {
        schedule.begin(keepingFiles: keepsFiles)
        defer {
            schedule.end()
            files.close()
        }
        while true {
            let action = schedule.next(isOver: isOver(), at: MonotonicClock.now)
            if case .stop(let error) = action {
                if let error { throw error }
                return schedule.report
            }
            do {
                try perform(action, database)
            } catch {
                schedule.failed(error)
            }
        }
    }

    /// When the files of decided commands are to be removed; nil when there are none.
    var removalIsDue: Nanoseconds? { schedule.decidedFiles.removalTime }

    func takeEvents() -> [OutboxEvent] { schedule.takeEvents() }

    private var now: Date { handlers.environment.now() }

    // MARK: Actions

    private func perform(_ action: OutboxSchedule.Action, _ database: SharedDatabase) throws {
        switch action {
        case .clean:
            do {
                try folder.removeRemains(now: now)
            } catch {
                schedule.cleaningFailed(folder.translated(error))
            }
        case .lookForOwners:
            schedule.foundOwners(try ownership.findOthers(database))
        case .list:
            let listing = try files.list(names: handlers.environment.names)
            schedule.listed(listing, try lettersToRetry(database))
        case .read(let name):
            schedule.read(name, files.read(name) { now }, at: now)
        case .moveAway(let name, let reason):
            schedule.moved(name, reason: reason, files.moveAway(name))
        case .decide(let commands):
            do {
                schedule.decided(try decide(commands, database), at: MonotonicClock.now)
            } catch {
                schedule.batchFailed(error)
            }
        case .withdrawAnswers(let ids):
            for id in ids { OutboxQuestion(id: id, folder: folder).withdrawAnswer() }
        case .answer(let ids):
            do {
                try answers.give(database, about: ids)
            } catch let error as SystemError {
                schedule.answeringFailed(folder.translated(error), at: now)
            }
        case .removeFiles:
            do {
                try removeDecided()
            } catch {
                schedule.removalFailed(error)
            }
        case .forget:
            let time = MonotonicClock.now
            try forget(database)
            schedule.forgot(at: time)
        case .stop: break
        }
    }

    private func lettersToRetry(_ database: SharedDatabase) throws -> OutboxSchedule.RetriableLetters {
        try database.read { db in
            _ = try database.identityOfFile()
            var letters = OutboxSchedule.RetriableLetters()
            guard try OutboxTables.exist(db) else { return letters }
            let (policy, now) = (handlers.retryPolicy, now)
            (letters.due, letters.areAll) = try OutboxTables.deadLettersToRetry(handlers.kinds, db) { retry in
                let isDue = policy.isDue(retry.next, at: now)
                if !isDue { letters.nextTry = min(letters.nextTry ?? retry.next, retry.next) }
                return isDue
            }
            return letters
        }
    }

    // Rule X5: An owner removes the file after the commit, and after `NAME-wal` was synced. Until then the table shows what was applied.
    // Before it removes or answers anything, it verifies that its database is in its place.

    /// Removes the files of decided commands (rule X5). This uses files alone, not the connection.
    func removeDecided() throws {
        let names = schedule.decidedFiles.names
        if names.isEmpty { return }
        guard try System.identity(ofFileAt: databasePath) == identity else {
            // The database that is there now does not hold what this process has decided.
            schedule.removedAll()
            return try databaseFiles.requireInPlace()
        }
        try System.syncFile(at: databasePath + "-wal")
        var failure: (any Error)?
        let commands = try folder.openIfThere(.commands)
        for name in names {
            do {
                try commands?.removeFile("\(name)")
                schedule.removed(name)
            } catch {
                // The other files are removed nevertheless.
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        schedule.removedAll()
    }

    // Rule X11: An id is remembered for 30 days after it was decided, and longer while a command is in `commands` or the file `handed-over`
    // exists; what is submitted again later is applied again. An owner skips a command whose file is gone when its transaction begins.

    /// Forgets the ids of commands that were decided long ago (rule X11), unless some of them may be handed over again (rule Z7).
    private func forget(_ database: SharedDatabase) throws {
        let limit = now.addingTimeInterval(-Self.memory)
        let isNeeded = try database.read { db in
            try OutboxTables.exist(db) && OutboxTables.hasDecided(before: limit, db)
        }
        guard isNeeded, try !folder.isHandedOver() else { return }
        try folder.sync(.commands)
        do {
            try database.write(whileSuspended: .fail) { try OutboxTables.forget(decidedBefore: limit, $0) }
        } catch {
            throw explained(error)
        }
    }
}
