import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Reads the waiting commands of an outbox and has them decided, batch by batch. It is used by one thread at a time.
final class OutboxRounds {
    /// How long a batch keeps the turn, in ns, if one command does not take longer.
    private static let batchTime: Nanoseconds = 10_000_000
    /// The number and the bytes of decided commands at which their files are removed, with one sync of the WAL.
    private static let removalCount = 1000
    private static let removalBytes = 4 << 20
    /// The time, in ns, after which files are removed in any case. A process that has submitted a command may be about to ask for its
    /// outcome, and is not to wait for the sync.
    private static let askingTime: Nanoseconds = 10_000_000
    /// A file that is cut off and was changed within this time, in seconds, may be one that is being copied.
    private static let copyingTime: TimeInterval = 5
    private static let cleaningInterval: Nanoseconds = 3600 * 1_000_000_000
    private static let forgettingInterval: Nanoseconds = 24 * 3600 * 1_000_000_000
    /// How long the id of a decided command is kept, in seconds (rule X11).
    private static let memory: TimeInterval = 30 * 24 * 3600

    let folder: OutboxFolder
    private let databasePath: String
    private let author: String
    let handlers: OutboxHandlers
    /// Damaged files that could not be moved away. They delay no command.
    private var ignored: Set<CommandFileName> = []
    /// The files that were reported already.
    private var told: Set<CommandFileName> = []
    private var answers: OutboxAnswers
    private let neighbours: OutboxNeighbours
    private var lastSender: String?
    /// The errors of commands whose transaction was lost. The next transaction records them.
    private var lost: [UUID: any Error] = [:]
    /// Commands that share no transaction with others: those that have ended one, and those of a batch that could not be committed.
    private var suspects: [UUID: Suspect] = [:]
    /// The number of transactions that have decided something.
    private var commits = 0
    /// When this owner first met commands that it does not know.
    private var firstMet: [UUID: Date] = [:]
    /// The identity of the database file that the last transaction was in.
    private var identity: FileIdentity?
    /// The files of commands that are decided and committed. They can be removed once the WAL is on the disk.
    private var decided: Set<CommandFileName> = []
    private var decidedBytes = 0
    /// When the files of decided commands are to be removed; nil when there are none.
    private(set) var removalIsDue: Nanoseconds?
    private var keepsFiles = false
    /// The error that ended the removal of files in this run.
    private var removalFailure: (any Error)?
    private var cleaned: Nanoseconds?
    private var forgot: Nanoseconds?
    private var report = OutboxReport()
    /// The folder of the last listing; nil outside of a run.
    private var commands: OpenFolder?
    /// The events that are to be reported.
    private var events: [OutboxHandlers.Event] = []

    private struct Suspect {
        /// How often the command has ended a transaction with an error that may be the database's.
        var failures = 0
        /// The number of committed transactions when the command did so last.
        var commits = Int.max
    }
    /// The number of failures after which a try is counted although no other command was committed. Without other commands, nothing
    /// shows whether the database works.
    private static let chances = 8

    init(of database: SharedDatabase, handlers: OutboxHandlers) {
        folder = database.outboxFolder
        databasePath = database.path
        author = database.author
        self.handlers = handlers
        answers = OutboxAnswers(folder: folder)
        neighbours = OutboxNeighbours(folder, author: author)
    }

    /// Decides the commands that wait now, as far as they can be decided. Commands that come during a run are left to the next one.
    ///
    /// - Parameters:
    ///   - keepsFiles: whether the files of decided commands are kept for a moment, until ``removalIsDue``.
    ///   - isOver: called after each batch. If it returns true, the run ends.
    /// - throws: errors of the database; `SystemError`. What was decided before the error stays decided.
    func run(
        _ database: SharedDatabase,
        keepingFiles keepsFiles: Bool = false,
        isOver: () -> Bool = { false }
    ) throws -> OutboxReport {
        report = OutboxReport()
        self.keepsFiles = keepsFiles
        defer { (lost, commands) = ([:], nil) }
        cleanIfNeeded()
        removalFailure = nil
        try removeIfDue(database)
        events += try neighbours.look(database)
        while true {
            commands = try folder.openIfThere(.commands)
            let names = handlers.environment.names
            let listing = try commands.map { try OutboxListing($0, names: names) } ?? OutboxListing()
            var queues = OutboxQueues(listing, after: lastSender)
            var (letters, areAll) = try deadLettersToRetry(database)
            let last = letters.partition { suspects[$0.id] != nil }
            queues.insert(Array(letters[..<last]))
            if listing.isEmpty {
                ignored = []
                told = []
                firstMet = [:]
                if letters.isEmpty { suspects = [:] }
            }
            var hasDecided = try decide(&queues, database, isOver)
            if last < letters.count, !isOver() {
                queues = OutboxQueues(Array(letters[last...]))
                hasDecided = try decide(&queues, database, isOver) || hasDecided
            }
            if listing.isEmpty { try forgetIfNeeded(database) }
            let isMoreLeft = listing.isCut || !areAll && hasDecided
            if !isMoreLeft || isOver() { break }
        }
        try answerQuestions(database)
        if let removalFailure { throw removalFailure }
        return report
    }

    /// Removes the files of decided commands if that is due. Pending questions are answered first, so that the askers do not wait for the
    /// sync.
    private func removeIfDue(_ database: SharedDatabase) throws {
        guard isRemovalDue || !keepsFiles && removalIsDue != nil else { return }
        try answerQuestions(database)
        removeInPassing()
    }

    /// Removes the files of decided commands. An error does not keep commands from being applied: it is thrown at the end of the run.
    private func removeInPassing() {
        guard removalFailure == nil else { return }
        do {
            try removeDecided()
        } catch {
            removalFailure = error
        }
    }

    private var isRemovalDue: Bool { removalIsDue.map { $0 <= MonotonicClock.now } ?? false }

    private func tell(_ event: OutboxHandlers.Event) { events.append(event) }

    /// Returns the events that are to be reported, and forgets them.
    func takeEvents() -> [OutboxHandlers.Event] {
        defer { events = [] }
        return events
    }

    // MARK: Batches

    /// - returns: whether anything was decided.
    private func decide(_ queues: inout OutboxQueues, _ database: SharedDatabase, _ isOver: () -> Bool) throws -> Bool {
        var hasDecided = false
        var hasEnded = false
        // Files are removed after a failure as well, because the committed transactions stay committed.
        defer { if !hasEnded { try? removeDecided() } }
        while true {
            queues.fill(read)
            if queues.ready.isEmpty { break }
            let decisions: [OutboxDecision]
            do {
                decisions = try transact(batch(queues.ready), database)
            } catch let failure as BatchFailure {
                try take(failure)
                if isOver() { break }
                continue
            }
            var blocked: Set<String> = []
            var ids: Set<UUID> = []
            for (pending, decision) in zip(queues.ready, decisions) {
                if note(decision, of: pending) {
                    hasDecided = true
                    ids.insert(pending.command.id)
                } else if let file = pending.file {
                    blocked.insert(file.encodedSender)
                }
            }
            queues.remove(decided: decisions.count, blocked: blocked)
            if isOver() { break }
            try answerQuestions(database, about: ids)
            // Kept files count against the limits of senders.
            if decided.count >= Self.removalCount || decidedBytes >= Self.removalBytes || isRemovalDue {
                removeInPassing()
            }
        }
        if !keepsFiles { try removeDecided() }
        hasEnded = true
        return hasDecided
    }

    /// - returns: whether the command is decided for good.
    private func note(_ decision: OutboxDecision, of pending: PendingCommand) -> Bool {
        let id = pending.command.id
        lost[id] = nil
        lastSender = pending.file?.encodedSender ?? lastSender
        switch decision {
        case .failed(let info, let error, let next):
            report.failed += 1
            tell(.attemptFailed(info, error: error, next: next))
            report.waits(until: next)
            return false
        case .waits(let next):
            report.waits(until: next)
            return false
        case .gone: break
        case .applied: report.applied += 1
        case .known: report.known += 1
        case .setAside(let letter):
            report.setAside += 1
            tell(.setAside(letter))
        }
        suspects[id] = nil
        firstMet[id] = nil
        if let file = pending.file {
            decided.insert(file)
            decidedBytes += pending.command.payload.count
            // No process asks for the outcome of a command of this author, and `perform` submits the next one as long as the file exists.
            let delay = pending.command.sender == author ? 0 : Self.askingTime
            removalIsDue = min(removalIsDue ?? .max, MonotonicClock.now + delay)
        } else {
            // An earlier answer no longer holds.
            OutboxQuestion(id: id, folder: folder).withdrawAnswer()
        }
        return true
    }

    /// The first commands, as many as may share a transaction.
    private func batch(_ ready: [PendingCommand]) -> [PendingCommand] {
        let sound = ready.prefix { suspects[$0.command.id] == nil }
        return Array(sound.isEmpty ? ready.prefix(1) : sound)
    }

    /// Why a batch was not committed.
    private enum BatchFailure: Error {
        /// A command has ended the transaction with an error that may be the database's.
        case command(PendingCommand, reason: any Error, isInterrupted: Bool)
        /// A command's own error has ended the transaction.
        case lost(UUID, reason: any Error)
        /// The commit failed, by a deferred constraint or an observer's veto. It is not known which command is the cause.
        case commit([UUID], reason: any Error)
    }

    /// Determines which command is the cause, so that the batch can be retried (rule X7).
    ///
    /// - throws: the reason, if the cause is the database, as far as is known.
    private func take(_ failure: BatchFailure) throws {
        switch failure {
        case .lost(let id, let reason): lost[id] = reason
        case .commit(let ids, let reason):
            guard ids.count == 1 else {
                for id in ids where suspects[id] == nil { suspects[id] = Suspect() }
                return
            }
            // If the failure cannot be recorded either, this command is not the cause.
            if lost[ids[0]] != nil { throw reason }
            lost[ids[0]] = reason
        case .command(let pending, let reason, let isInterrupted):
            let id = pending.command.id
            let reason = explained(reason, pending.command)
            // The commands of other senders come first next time.
            lastSender = pending.file?.encodedSender ?? lastSender
            var suspect = suspects[id] ?? Suspect()
            defer { suspects[id] = suspect }
            // The database works for other commands, or the chances are used up. The next transaction shows whether the try can be
            // recorded.
            let isOwnFault = commits > suspect.commits || suspect.failures + 1 >= Self.chances
            if isInterrupted { throw reason }
            suspect.commits = commits
            suspect.failures += 1
            guard isOwnFault, lost[id] == nil else { throw reason }
            lost[id] = reason
        }
    }

    /// Decides as many of these commands as fit into one transaction, in order.
    ///
    /// - returns: the decisions about the first ones.
    private func transact(_ commands: [PendingCommand], _ database: SharedDatabase) throws -> [OutboxDecision] {
        var decisions: [OutboxDecision] = []
        var hasDecided = false
        var culprit: (command: PendingCommand, isAborted: Bool)?
        let context = DecisionContext(
            isAborted: { database.gate.isAborted },
            rollbacks: { database.writer.rollbacks },
            firstMet: { [self] id, now in
                // If the clock was set back, the time begins again.
                let date = min(firstMet[id] ?? now, now)
                firstMet[id] = date
                return date
            }
        )
        do {
            try database.write(whileSuspended: .fail) { db in
                let end = MonotonicClock.now + Self.batchTime
                identity = try db.identityOfUnmovedFile()
                try OutboxTables.createIfAbsent(db)
                try neighbours.record(db)
                var blocked: Set<String> = []
                for pending in commands {
                    if let file = pending.file {
                        if blocked.contains(file.encodedSender) {
                            decisions.append(.waits(until: .distantFuture))
                            continue
                        }
                        // The id may be forgotten by now, but only after the file was removed (rule X11).
                        if try status(of: file) == nil {
                            decisions.append(.gone)
                            continue
                        }
                    }
                    let decision: OutboxDecision
                    do {
                        decision = try handlers.decide(pending, lost: lost[pending.command.id], context, db)
                    } catch {
                        culprit = (pending, context.isAborted())
                        throw error
                    }
                    decisions.append(decision)
                    switch decision {
                    case .failed, .waits: if let file = pending.file { blocked.insert(file.encodedSender) }
                    case .applied, .known, .gone, .setAside: break
                    }
                    if MonotonicClock.now >= end { break }
                }
                hasDecided = true
            }
        } catch let error as TransactionLost {
            throw BatchFailure.lost(error.id, reason: error.error)
        } catch {
            let isInterrupted = (error as? DatabaseError)?.isSuspension == true
            if let culprit {
                let isInterrupted = isInterrupted || culprit.isAborted
                throw BatchFailure.command(culprit.command, reason: error, isInterrupted: isInterrupted)
            }
            guard hasDecided, !error.isOfDatabase, !isInterrupted else { throw explained(error) }
            throw BatchFailure.commit(commands.prefix(decisions.count).map(\.command.id), reason: error)
        }
        neighbours.hasCommitted()
        if decisions.contains(where: \.isNew) { commits += 1 }
        return decisions
    }

    /// Returns the error, and explains that of a full disk, because the owner is the one who can make room.
    private func explained(_ error: any Error, _ command: CommandFile? = nil) -> any Error {
        let what = command.map { "\($0.kind) from '\($0.sender)' (\($0.id)) is not applied. " } ?? ""
        let consequence = "\(what)What waits in \(folder.path) is kept, and applied as soon as there is some."
        return error.explainingNoRoom(in: databasePath, consequence)
    }

    /// - returns: the first of them, and whether they are all.
    private func deadLettersToRetry(_ database: SharedDatabase) throws -> ([DeadLetter], areAll: Bool) {
        try database.read { db in
            _ = try db.identityOfUnmovedFile()
            guard try OutboxTables.exist(db) else { return ([], true) }
            let now = handlers.environment.now()
            return try OutboxTables.deadLettersToRetry(handlers.kinds, db) { retry in
                let isDue = handlers.isDue(retry, now)
                if !isDue { report.waits(until: retry.next) }
                return isDue
            }
        }
    }

    // MARK: Files

    private func read(_ name: CommandFileName) -> OutboxQueues.Reading {
        if ignored.contains(name) || decided.contains(name) { return .skipped }
        do {
            guard let commands else { return .skipped }
            switch try CommandFile.read(name, in: commands, notOf: folder.databasePath) {
            case nil: return .skipped
            case .command(let command): return .ready(command)
            case .newer:
                if told.insert(name).inserted { tell(.waitsForNewerVersion(path: folder.path(of: name))) }
                return .blocked
            case .damaged(let reason, let isCutOff):
                if isCutOff, try mayGrow(name) {
                    report.waits(until: handlers.environment.now().addingTimeInterval(0.25))
                    return .unfinished
                }
                moveAway(name, reason)
                return .skipped
            }
        } catch {
            if told.insert(name).inserted { tell(.failed(Self.outboxError(error, folder))) }
            // The disk may recover. Until then, later commands of the sender wait.
            report.waits(until: handlers.environment.now().addingTimeInterval(1))
            return .blocked
        }
    }

    private func status(of name: CommandFileName) throws -> FileStatus? { try commands?.status(ofFile: "\(name)") }

    private func mayGrow(_ name: CommandFileName) throws -> Bool {
        guard let status = try status(of: name) else { return false }
        let age = handlers.environment.now().timeIntervalSince1970 - Double(status.modificationTime) / 1e9
        return (0..<Self.copyingTime).contains(age)
    }

    /// Moves a damaged file away (rule X9).
    private func moveAway(_ name: CommandFileName, _ reason: String) {
        report.damaged += 1
        do {
            let damaged = try folder.open(.damaged)
            try commands?.renameFile("\(name)", to: "\(name)", in: damaged)
            tell(.damagedFile(path: damaged.file("\(name)"), reason: reason))
        } catch let error as SystemError where error.errno == ENOENT {
            // Another owner has moved it.
        } catch {
            ignored.insert(name)
            tell(.damagedFile(path: folder.path(of: name), reason: reason))
            tell(.failed(Self.outboxError(error, folder)))
        }
    }

    /// Removes the files of decided commands (rule X5). This uses files alone, not the connection.
    func removeDecided() throws {
        if decided.isEmpty { return }
        guard try System.identity(ofFileAt: databasePath) == identity else {
            // The database that is there now does not hold what this process has decided.
            forgetDecided()
            throw OutboxError.databaseReplaced(path: databasePath)
        }
        try System.syncFile(at: databasePath + "-wal")
        var failure: (any Error)?
        let commands = try folder.openIfThere(.commands)
        for name in decided {
            do {
                try commands?.removeFile("\(name)")
                decided.remove(name)
            } catch {
                // The other files are removed nevertheless.
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        forgetDecided()
    }

    private func forgetDecided() {
        decided = []
        decidedBytes = 0
        removalIsDue = nil
    }

    static func outboxError(_ error: any Error, _ folder: OutboxFolder) -> any Error {
        (error as? SystemError).map { OutboxError($0, folder: folder.path) } ?? error
    }

    /// Answers questions (rule X10). A failure to answer does not keep commands from being applied.
    ///
    /// - parameter ids: the commands whose questions are answered; nil for all.
    private func answerQuestions(_ database: SharedDatabase, about ids: Set<UUID>? = nil) throws {
        if ids?.isEmpty == true { return }
        do {
            try answers.give(database, about: ids)
        } catch let error as SystemError {
            tell(.failed(Self.outboxError(error, folder)))
            report.waits(until: handlers.environment.now().addingTimeInterval(1))
        }
    }

    // MARK: Cleaning

    private func cleanIfNeeded() {
        let now = MonotonicClock.now
        if let cleaned, now < cleaned + Self.cleaningInterval { return }
        cleaned = now
        do {
            try folder.removeRemains(now: handlers.environment.now())
        } catch {
            tell(.failed(Self.outboxError(error, folder)))
        }
    }

    /// Forgets the ids of commands that were decided long ago. Called when no file waits (rule X11).
    private func forgetIfNeeded(_ database: SharedDatabase) throws {
        let now = MonotonicClock.now
        if let forgot, now < forgot + Self.forgettingInterval { return }
        let limit = handlers.environment.now().addingTimeInterval(-Self.memory)
        let isNeeded = try database.read { db in
            try OutboxTables.exist(db) && OutboxTables.hasDecided(before: limit, db)
        }
        if isNeeded {
            try folder.sync(.commands)
            do {
                try database.write(whileSuspended: .fail) { try OutboxTables.forget(decidedBefore: limit, $0) }
            } catch {
                throw explained(error)
            }
        }
        forgot = now
    }
}
