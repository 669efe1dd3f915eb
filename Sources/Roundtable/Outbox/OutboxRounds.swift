import Foundation
import GRDB
import RoundtableKernel

/// Takes what waits in the outbox, and has it decided, batch after batch. For one thread at a time.
final class OutboxRounds {
    /// How long the turn is kept, if one command does not take longer.
    private static let batchTime: Nanoseconds = 10_000_000
    /// After so many, files are removed, for one sync of the WAL.
    private static let removalCount = 1000
    private static let removalBytes = 4 << 20
    /// Or after this time: whoever has submitted a command may be about to ask for its outcome, and is not to wait for the sync.
    private static let askingTime: Nanoseconds = 10_000_000
    /// A file that is cut off, and has grown within this time, may be one that is being copied.
    private static let copyingTime: TimeInterval = 5
    private static let cleaningInterval: Nanoseconds = 3600 * 1_000_000_000
    private static let forgettingInterval: Nanoseconds = 24 * 3600 * 1_000_000_000
    /// Rule X11.
    private static let memory: TimeInterval = 30 * 24 * 3600

    let folder: OutboxFolder
    private let databasePath: String
    private let author: String
    let handlers: OutboxHandlers
    /// Files that could not be moved out of the way. They delay nobody.
    private var ignored: Set<CommandFileName> = []
    /// What was told already.
    private var told: Set<CommandFileName> = []
    private var answers: OutboxAnswers
    private let neighbours: OutboxNeighbours
    private var lastSender: String?
    /// Errors of commands that have taken their transaction with them.
    private var lost: [UUID: any Error] = [:]
    /// Commands that share no transaction with others: those that have ended one, and those of one that could not be committed.
    private var suspects: [UUID: Suspect] = [:]
    /// Transactions that have decided something.
    private var commits = 0
    /// When commands were met first that nobody here knows.
    private var firstMet: [UUID: Date] = [:]
    /// Of the database that the last transaction was in.
    private var identity: FileIdentity?
    /// Decided, and committed: once the WAL is on the disk, they can go.
    private var decided: Set<CommandFileName> = []
    private var decidedBytes = 0
    /// When what is decided is to be removed; nil when there is nothing.
    private(set) var removalIsDue: Nanoseconds?
    private var keepsFiles = false
    /// In this run.
    private var removalFailure: (any Error)?
    private var cleaned: Nanoseconds?
    private var forgot: Nanoseconds?
    private var report = OutboxReport()
    /// The folder of the last listing, in a run.
    private var commands: OpenFolder?
    /// To be told.
    private var events: [OutboxHandlers.Event] = []

    private struct Suspect {
        /// How often it has ended a transaction with an error that may be the database's.
        var failures = 0
        /// How many transactions had been committed when it did so last.
        var commits = Int.max
    }
    /// A suspect that is alone is given so many chances before a try is counted: nobody else's commands tell whether the database works.
    private static let chances = 8

    init(of database: SharedDatabase, handlers: OutboxHandlers) {
        folder = database.outboxFolder
        databasePath = database.path
        author = database.author
        self.handlers = handlers
        answers = OutboxAnswers(folder: folder)
        neighbours = OutboxNeighbours(folder, author: author)
    }

    /// Decides what waits now, as far as it can be decided. What comes meanwhile is for the next run.
    ///
    /// - Parameters:
    ///   - keepsFiles: whether the files of what it decides are left for a moment, until ``removalIsDue``.
    ///   - isOver: asked after each batch.
    /// - throws: errors that are the database's; `SystemError`. What was decided until then stays decided.
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

    /// Who has asked until now does not wait for it.
    private func removeIfDue(_ database: SharedDatabase) throws {
        guard isRemovalDue || !keepsFiles && removalIsDue != nil else { return }
        try answerQuestions(database)
        removeInPassing()
    }

    /// What keeps files from being removed keeps nobody from applying. It is told at the end of the run.
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

    /// What is to be told of the rounds until now.
    func takeEvents() -> [OutboxHandlers.Event] {
        defer { events = [] }
        return events
    }

    // MARK: Batches

    /// - returns: whether anything was decided.
    private func decide(_ queues: inout OutboxQueues, _ database: SharedDatabase, _ isOver: () -> Bool) throws -> Bool {
        var hasDecided = false
        var hasEnded = false
        // Also when it fails: what was committed is committed.
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
            // What is kept counts against the limits of senders.
            if decided.count >= Self.removalCount || decidedBytes >= Self.removalBytes || isRemovalDue {
                removeInPassing()
            }
        }
        if !keepsFiles { try removeDecided() }
        hasEnded = true
        return hasDecided
    }

    /// - returns: whether it is decided for good.
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
            // Nobody asks for what was performed here, and the next is submitted as long as it lies there.
            let delay = pending.command.sender == author ? 0 : Self.askingTime
            removalIsDue = min(removalIsDue ?? .max, MonotonicClock.now + delay)
        } else {
            // What was answered before is not so any more.
            OutboxQuestion(id: id, folder: folder).withdrawAnswer()
        }
        return true
    }

    /// As many as may share a transaction.
    private func batch(_ ready: [PendingCommand]) -> [PendingCommand] {
        let sound = ready.prefix { suspects[$0.command.id] == nil }
        return Array(sound.isEmpty ? ready.prefix(1) : sound)
    }

    /// Why a batch was not committed.
    private enum BatchFailure: Error {
        /// A command has ended the transaction, and that may be the database's fault.
        case command(PendingCommand, reason: any Error, isInterrupted: Bool)
        /// Its own error has taken the transaction with it.
        case lost(UUID, reason: any Error)
        /// Deferred constraints, and observers that refuse: somebody's fault, and nobody knows whose.
        case commit([UUID], reason: any Error)
    }

    /// Finds out whose fault it is, so that the batch can be tried again (rule X7).
    ///
    /// - throws: the reason, when it is the database's, as far as is known.
    private func take(_ failure: BatchFailure) throws {
        switch failure {
        case .lost(let id, let reason): lost[id] = reason
        case .commit(let ids, let reason):
            guard ids.count == 1 else {
                for id in ids where suspects[id] == nil { suspects[id] = Suspect() }
                return
            }
            // When the failure cannot be recorded either, it is not this command's.
            if lost[ids[0]] != nil { throw reason }
            lost[ids[0]] = reason
        case .command(let pending, let reason, let isInterrupted):
            let id = pending.command.id
            let reason = explained(reason, pending.command)
            // The others come first next time.
            lastSender = pending.file?.encodedSender ?? lastSender
            var suspect = suspects[id] ?? Suspect()
            defer { suspects[id] = suspect }
            // The database works for others, or seems to: whether it does for the record of the try, is seen then.
            let isOwnFault = commits > suspect.commits || suspect.failures + 1 >= Self.chances
            if isInterrupted { throw reason }
            suspect.commits = commits
            suspect.failures += 1
            guard isOwnFault, lost[id] == nil else { throw reason }
            lost[id] = reason
        }
    }

    /// Decides about as many of these as fit into one transaction, in order.
    ///
    /// - returns: the decisions about the first ones.
    private func transact(_ commands: [PendingCommand], _ database: SharedDatabase) throws -> [OutboxDecision] {
        var decisions: [OutboxDecision] = []
        var hasDecided = false
        var culprit: (command: PendingCommand, isDoomed: Bool)?
        let context = DecisionContext(
            isDoomed: { database.gate.isDoomed },
            rollbacks: { database.writer.rollbacks },
            firstMet: { [self] id, now in
                // A clock that was set back begins anew.
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
                        // Its id may be forgotten by now, but not before its file had gone (rule X11).
                        if try status(of: file) == nil {
                            decisions.append(.gone)
                            continue
                        }
                    }
                    let decision: OutboxDecision
                    do {
                        decision = try handlers.decide(pending, lost: lost[pending.command.id], context, db)
                    } catch {
                        culprit = (pending, context.isDoomed())
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
                let isInterrupted = isInterrupted || culprit.isDoomed
                throw BatchFailure.command(culprit.command, reason: error, isInterrupted: isInterrupted)
            }
            guard hasDecided, !error.isOfDatabase, !isInterrupted else { throw explained(error) }
            throw BatchFailure.commit(commands.prefix(decisions.count).map(\.command.id), reason: error)
        }
        neighbours.hasCommitted()
        if decisions.contains(where: \.isNew) { commits += 1 }
        return decisions
    }

    /// A full disk is the owner's to mend.
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
            // The disk may recover. Until then, later ones wait.
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

    /// Rule X9.
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

    /// Rule X5. Touches no more than files.
    func removeDecided() throws {
        if decided.isEmpty { return }
        guard try System.identity(ofFileAt: databasePath) == identity else {
            // What this process has done is not in the database that is there now.
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
                // The others go all the same.
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

    /// Rule X10. What keeps it from answering keeps nobody from applying.
    ///
    /// - parameter ids: nil for whatever was asked.
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

    /// Rule X11. When no file waits.
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
