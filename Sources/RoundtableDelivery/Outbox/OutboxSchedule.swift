import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Decides what an owner does next with the commands of its outbox, in runs that apply what waits (rules X5–X11). It is a pure state
/// machine: ``OutboxRounds`` carries out its actions and reports the results. It knows neither clocks nor files nor databases.
///
/// A run goes through these phases. One that has nothing to do is skipped.
///
/// | phase | action | then |
/// | --- | --- | --- |
/// | cleaning | remove what dead processes have left | removing kept files |
/// | removing kept files | answer, then remove the files of decided commands, if that is due | looking for owners |
/// | looking for owners | detect other databases and folders | listing |
/// | listing | list the files, and read the dead letters to retry | a queue |
/// | a queue: reading | read files ahead; move damaged ones away | deciding, or the end of the queue |
/// | a queue: deciding | decide a batch in one transaction | answering; after a failure of one command, reading |
/// | a queue: answering | answer what was asked about the batch; remove files if they are many, or it is due | reading |
/// | the end of a queue | remove the files of decided commands, unless they are kept | a queue of suspected dead letters; forgetting |
/// | forgetting | forget the ids of old commands, if no file waits | listing, if it did not get everything; the last answers |
/// | the last answers | answer all questions | stop |
///
/// An error that is not a command's ends the run. In a queue, the files of decided commands are removed first, because the committed
/// transactions stay committed.
struct OutboxSchedule {
    /// What the next action is chosen by. It is set in advance to what follows the action that was returned last.
    private enum Phase {
        case cleaning, removingKeptFiles(hasAnswered: Bool), lookingForOwners, listing
        case reading, movingAway(CommandFileName, reason: String), deciding, retrying
        case withdrawingAnswers([UUID], decided: Set<UUID>), answering(Set<UUID>), removing
        case endingQueue, queueEnded, forgetting, listingAgain, answeringAll
        case stopping, failing(any Error), failed(any Error)
    }

    private static let cleaningInterval: Nanoseconds = 3600 * 1_000_000_000
    private static let forgettingInterval: Nanoseconds = 24 * 3600 * 1_000_000_000
    /// A file that is cut off and was changed within this time, in seconds, may be one that is being copied (rule X9).
    static let copyingTime: TimeInterval = 5
    /// The pauses, in seconds, before a file that may be growing is read again, and before a failed call is repeated.
    static let growingPause: TimeInterval = 0.25
    static let failurePause: TimeInterval = 1

    // MARK: State that outlasts a run

    private let author: String
    private(set) var decidedFiles = DecidedFiles()
    private(set) var suspects = OutboxSuspects()
    private var events: [OutboxEvent] = []
    /// Damaged files that could not be moved away. They delay no command.
    private var ignored: Set<CommandFileName> = []
    /// The unreadable files that were reported already.
    private var reported: Set<CommandFileName> = []
    private var lastSender: String?
    /// When this owner first met commands that it does not know.
    private var meetings: [UUID: Date] = [:]
    private var cleaned: Nanoseconds?
    private var forgotten: Nanoseconds?

    // MARK: State of a run

    private var phase = Phase.stopping
    private(set) var report = OutboxReport()
    private var keepsFiles = false
    /// The error that ended the removal of files in this run. It is thrown at the end, because it keeps no command from being applied.
    private var removalFailure: (any Error)?
    private var queues = OutboxQueues()
    /// Whether a queue is being decided.
    private var isInQueue = false
    /// Dead letters that have ended a transaction. They are tried after all others.
    private var suspectedLetters: [DeadLetter] = []
    private var isNoFileWaiting = false
    private var listsAllFiles = true
    private var hasAllLetters = true
    private var hasDecided = false

    /// - parameter author: the name of the owner.
    init(author: String) { self.author = author }

    /// Begins a run.
    ///
    /// - parameter keepsFiles: whether the files of decided commands are kept for a moment.
    mutating func begin(keepingFiles keepsFiles: Bool) {
        self.keepsFiles = keepsFiles
        report = OutboxReport()
        removalFailure = nil
        isInQueue = false
        phase = .cleaning
    }

    /// Frees what belongs to a run, also if it was ended before its last action.
    mutating func end() {
        suspects.endRun()
        (queues, suspectedLetters) = (OutboxQueues(), [])
    }

    // MARK: The next action

    /// - parameter isOver: whether the run is to end after the current batch: the drain is cancelled, or its time is up.
    mutating func next(isOver: Bool, at now: Nanoseconds) -> Action {
        while true {
            switch phase {
            case .cleaning:
                phase = .removingKeptFiles(hasAnswered: false)
                if let cleaned, now < cleaned + Self.cleaningInterval { continue }
                cleaned = now
                return .clean
            case .removingKeptFiles(false):
                let isNeeded = decidedFiles.isRemovalDue(at: now) || !keepsFiles && !decidedFiles.isEmpty
                phase = isNeeded ? .removingKeptFiles(hasAnswered: true) : .lookingForOwners
                // The questions are answered first, so that the askers do not wait for the sync.
                if isNeeded { return .answer(nil) }
            case .removingKeptFiles(true):
                phase = .lookingForOwners
                return .removeFiles
            case .lookingForOwners:
                phase = .listing
                return .lookForOwners
            case .listing:
                return .list
            case .reading:
                if let name = nextFile() { return .read(name) }
                phase = queues.ready.isEmpty ? .endingQueue : .deciding
            case .movingAway(let name, let reason):
                phase = .reading
                return .moveAway(name, reason: reason)
            case .deciding:
                return .decide(suspects.batch(of: queues.ready))
            case .retrying:
                phase = isOver ? .endingQueue : .reading
            case .withdrawingAnswers(let letters, let ids):
                phase = .answering(ids)
                if !letters.isEmpty { return .withdrawAnswers(letters) }
            case .answering(let ids):
                phase = isOver ? .endingQueue : .removing
                if !isOver, !ids.isEmpty { return .answer(ids) }
            case .removing:
                phase = .reading
                if decidedFiles.isRemovalNeeded(at: now), removalFailure == nil { return .removeFiles }
            case .endingQueue:
                phase = .queueEnded
                if !keepsFiles, !decidedFiles.isEmpty { return .removeFiles }
            case .queueEnded:
                isInQueue = false
                if suspectedLetters.isEmpty || isOver {
                    phase = .forgetting
                } else {
                    beginQueue(OutboxQueues(suspectedLetters))
                    suspectedLetters = []
                }
            case .forgetting:
                phase = .listingAgain
                if let forgotten, now < forgotten + Self.forgettingInterval { continue }
                if isNoFileWaiting { return .forget }
            case .listingAgain:
                let isMoreLeft = !listsAllFiles || !hasAllLetters && hasDecided
                phase = isMoreLeft && !isOver ? .listing : .answeringAll
            case .answeringAll:
                phase = .stopping
                return .answer(nil)
            case .stopping:
                return .stop(removalFailure)
            case .failing(let error):
                phase = .failed(error)
                if !decidedFiles.isEmpty { return .removeFiles }
            case .failed(let error):
                return .stop(error)
            }
        }
    }

    private mutating func nextFile() -> CommandFileName? {
        while let name = queues.nextFile {
            guard ignored.contains(name) || decidedFiles.contains(name) else { return name }
            queues.skipFile()
        }
        return nil
    }

    private mutating func beginQueue(_ queues: OutboxQueues) {
        self.queues = queues
        isInQueue = true
        phase = .reading
    }

    // MARK: Listing and reading

    mutating func listed(_ listing: OutboxListing, _ letters: RetriableLetters) {
        isNoFileWaiting = listing.isEmpty
        listsAllFiles = !listing.isCut
        hasAllLetters = letters.areAll
        hasDecided = false
        if let date = letters.nextTry { report.waits(until: date) }
        suspectedLetters = letters.due.filter { suspects.contains($0.id) }
        var queues = OutboxQueues(listing, after: lastSender)
        queues.insert(letters.due.filter { !suspects.contains($0.id) })
        if listing.isEmpty {
            (ignored, reported, meetings) = ([], [], [:])
            if letters.due.isEmpty { suspects.removeAll() }
        }
        beginQueue(queues)
    }

    mutating func read(_ name: CommandFileName, _ reading: Reading, at date: Date) {
        switch reading {
        case .command(let command):
            queues.take(command)
        case .missing:
            queues.skipFile()
        case .newer(let path):
            if reported.insert(name).inserted { events.append(.waitsForNewerVersion(path: path)) }
            queues.skipSender()
        case .damaged(_, let age?) where (0..<Self.copyingTime).contains(age):
            // It was possibly not put there after all files that precede it, so the sender's later commands wait.
            report.waits(until: date.addingTimeInterval(Self.growingPause))
            queues.skipSender()
        case .damaged(let reason, _):
            report.damaged += 1
            queues.skipFile()
            phase = .movingAway(name, reason: reason)
        case .failed(let error):
            if reported.insert(name).inserted { events.append(.failed(error)) }
            // The disk may recover. Until then, later commands of the sender wait.
            report.waits(until: date.addingTimeInterval(Self.failurePause))
            queues.skipSender()
        }
    }

    mutating func moved(_ name: CommandFileName, reason: String, _ move: Move) {
        switch move {
        case .moved(let path):
            events.append(.damagedFile(path: path, reason: reason))
        case .gone: break
        case .failed(let path, let error):
            ignored.insert(name)
            events += [.damagedFile(path: path, reason: reason), .failed(error)]
        }
    }

    // MARK: Deciding

    /// The date on which this owner first met a command that it does not know.
    mutating func firstMet(_ id: UUID, at now: Date) -> Date {
        // If the clock was set back, the time begins again.
        let date = min(meetings[id] ?? now, now)
        meetings[id] = date
        return date
    }

    /// The batch was committed.
    ///
    /// - parameter decisions: the decisions about its first commands.
    mutating func decided(_ decisions: [OutboxDecision], at now: Nanoseconds) {
        suspects.committed(hasDecided: decisions.contains(where: \.isNew))
        var blocked: Set<String> = []
        var ids: Set<UUID> = []
        var letters: [UUID] = []
        for (pending, decision) in zip(queues.ready, decisions) {
            let id = pending.command.id
            suspects.recorded(id)
            lastSender = pending.file?.encodedSender ?? lastSender
            note(decision)
            if decision.blocksSender {
                if let file = pending.file { blocked.insert(file.encodedSender) }
                continue
            }
            suspects.remove(id)
            meetings[id] = nil
            ids.insert(id)
            if let file = pending.file {
                let isOwn = pending.command.sender == author
                decidedFiles.insert(file, bytes: pending.command.payload.count, isOwn: isOwn, at: now)
            } else {
                letters.append(id)
            }
        }
        if !ids.isEmpty { hasDecided = true }
        queues.remove(decided: decisions.count, blocked: blocked)
        phase = .withdrawingAnswers(letters, decided: ids)
    }

    private mutating func note(_ decision: OutboxDecision) {
        switch decision {
        case .applied: report.applied += 1
        case .known: report.known += 1
        case .gone: break
        case .setAside(let letter):
            report.setAside += 1
            events.append(.setAside(letter))
        case .failed(let info, let error, let next):
            report.failed += 1
            events.append(.attemptFailed(info, error: error, next: next))
            report.waits(until: next)
        case .waits(let next):
            report.waits(until: next)
        }
    }

    /// The batch was not committed.
    mutating func batchFailed(_ failure: OutboxBatch.Failure) {
        if case .command(let pending, _, _) = failure {
            // The commands of other senders come first next time.
            lastSender = pending.file?.encodedSender ?? lastSender
        }
        if let error = suspects.failed(failure) { failed(error) } else { phase = .retrying }
    }

    // MARK: Other reports

    /// An action has failed with an error that ends the run.
    mutating func failed(_ error: any Error) { phase = isInQueue ? .failing(error) : .failed(error) }

    mutating func cleaningFailed(_ error: any Error) { events.append(.failed(error)) }

    mutating func foundOwners(_ found: [OutboxEvent]) { events += found }

    /// A failure to answer does not keep commands from being applied.
    mutating func answeringFailed(_ error: any Error, at date: Date) {
        events.append(.failed(error))
        report.waits(until: date.addingTimeInterval(Self.failurePause))
    }

    mutating func removed(_ name: CommandFileName) { decidedFiles.remove(name) }

    /// All files in ``decidedFiles`` are removed, or are no longer this owner's to remove.
    mutating func removedAll() { decidedFiles.removeAll() }

    mutating func removalFailed(_ error: any Error) {
        switch phase {
        case .failed: break
        // At the end of a queue, the removal is tried once more before the run ends.
        case .queueEnded: failed(error)
        default: removalFailure = error
        }
    }

    mutating func forgot(at now: Nanoseconds) { forgotten = now }

    /// Returns the events that are to be reported, and forgets them.
    mutating func takeEvents() -> [OutboxEvent] {
        defer { events = [] }
        return events
    }
}
