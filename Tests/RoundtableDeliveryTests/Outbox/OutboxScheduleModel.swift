import Foundation
import GRDB
import RoundtableCore
import RoundtableKernel
import RoundtableUnitSupport

@testable import RoundtableDelivery
@testable import RoundtableFiles

/// All sequences of choices, one after the other. A test makes the same choices again until it reaches the last one that has another
/// alternative.
struct Choices {
    private var path: [(taken: Int, of: Int)] = []
    private var position = 0

    mutating func pick(_ count: Int) -> Int {
        if position == path.count { path.append((0, count)) }
        defer { position += 1 }
        return path[position].taken
    }

    /// Begins the next sequence.
    ///
    /// - returns: false after the last one.
    mutating func advance() -> Bool {
        position = 0
        while let last = path.popLast() {
            if last.taken + 1 < last.of {
                path.append((last.taken + 1, last.of))
                return true
            }
        }
        return false
    }
}

struct ModelError: Error {}

/// The folder and the database of an outbox, as far as `OutboxSchedule` and `OutboxBatch` learn of them, and the faults that may befall
/// their owner. Each fault is a choice, so walking all choices walks all runs with a number of faults.
struct OutboxScheduleModel {
    var choices: Choices
    var faultsLeft: Int
    private(set) var trace: [String] = []
    private(set) var violations: [String] = []

    private(set) var schedule = OutboxSchedule(author: "own")
    private var now: Nanoseconds = 1_000_000_000
    private var date = Date(timeIntervalSince1970: 1_800_000_000)

    /// The files in the folder of the commands.
    private var files: [CommandFileName: CommandFile] = [:]
    private var damaged: Set<CommandFileName> = []
    private var letters: [DeadLetter] = []
    /// The commands whose outcome is recorded, and the next tries.
    private var outcomes: Set<UUID> = []
    private var retries: [UUID: Date] = [:]

    /// The first command of sender `a` fails each time, in this way.
    var poison: Poison?

    enum Poison: CaseIterable { case error, databaseError, lostTransaction, commit }

    // The current run
    private var isOver = false
    private var hasFailedToRemove = false
    private var hasFailedInQueue = false
    private var metNewerFormat = false

    init(_ choices: Choices, faults: Int) {
        self.choices = choices
        faultsLeft = faults
        for (sender, number) in [("a", 1), ("a", 2), ("own", 1)] {
            files[.model(sender, UInt64(number))] = .model(sender, number)
        }
        letters = [DeadLetter(.model("z", 1), at: date, reason: .failed, error: "", attempts: 8)]
    }

    /// Chooses between what should happen, which is 0, and faults.
    private mutating func fault(of count: Int, _ name: String) -> Int {
        let choice = faultsLeft > 0 ? choices.pick(count + 1) : 0
        if choice > 0 {
            faultsLeft -= 1
            trace.append("  fault \(choice) of \(name)")
        }
        return choice
    }

    private mutating func check(_ holds: Bool, _ message: @autoclosure () -> String) {
        if !holds { violations.append(message()) }
    }

    /// Whether everything is decided, and nothing is left to do.
    var isDone: Bool {
        files.keys.allSatisfy(damaged.contains) && letters.isEmpty && schedule.decidedFiles.isEmpty
    }

    private func isPoison(_ id: UUID) -> Bool { poison != nil && files[.model("a", 1)]?.id == id }

    private var isAnythingWaiting: Bool {
        !letters.isEmpty || files.contains { !damaged.contains($0) && !outcomes.contains($1.id) }
    }

    /// The senders of what is not decided.
    var senders: Set<String> {
        Set(files.values.filter { !outcomes.contains($0.id) }.map(\.sender)).union(letters.map(\.sender))
    }

    // MARK: A run

    /// - returns: the error that ended the run.
    @discardableResult
    mutating func run(keepingFiles: Bool) -> (any Error)? {
        (isOver, hasFailedToRemove, hasFailedInQueue, metNewerFormat) = (false, false, false, false)
        date += 61
        now += 1_000_000
        trace.append("run")
        schedule.begin(keepingFiles: keepingFiles)
        defer { schedule.end() }
        for _ in 0..<200 {
            let action = schedule.next(isOver: isOver, at: now)
            trace.append("\(action)")
            now += 1000
            guard case .stop(let error) = action else {
                perform(action)
                continue
            }
            let mayLeaveFiles = hasFailedToRemove || (keepingFiles && !hasFailedInQueue)
            let mayStopEarly = error != nil && !hasFailedInQueue
            check(schedule.decidedFiles.isEmpty || mayLeaveFiles || mayStopEarly, "files of decided commands are left")
            check(error != nil || !hasFailedToRemove, "the failure to remove files is not thrown")
            let isWokenAnyway = error != nil || isOver || metNewerFormat || !isAnythingWaiting
            check(isWokenAnyway || schedule.report.nextTry != nil, "a command waits, and no next try is planned")
            return error
        }
        check(false, "the run does not end")
        return nil
    }

    private mutating func perform(_ action: OutboxSchedule.Action) {
        switch action {
        case .clean:
            if fault(of: 1, "cleaning") > 0 { schedule.cleaningFailed(ModelError()) }
        case .lookForOwners:
            if fault(of: 1, "looking for owners") > 0 {
                schedule.failed(ModelError())
            } else {
                schedule.foundOwners([])
            }
        case .list:
            list()
        case .read(let name):
            read(name)
        case .moveAway(let name, let reason):
            let move: OutboxSchedule.Move
            if fault(of: 1, "moving") > 0 {
                move = .failed(path: "/x", ModelError())
            } else {
                files[name] = nil
                move = .moved(to: "/x")
            }
            schedule.moved(name, reason: reason, move)
        case .decide(let commands):
            decide(commands)
        case .withdrawAnswers(let ids):
            check(ids.allSatisfy { id in outcomes.contains(id) }, "an answer that holds is withdrawn")
        case .answer(let ids):
            switch fault(of: 2, "answering") {
            case 0: break
            case 1: schedule.answeringFailed(ModelError(), at: date)
            default:
                hasFailedInQueue = ids != nil
                schedule.failed(ModelError())
            }
        case .removeFiles:
            removeFiles()
        case .forget:
            if fault(of: 1, "forgetting") > 0 { schedule.failed(ModelError()) } else { schedule.forgot(at: now) }
        case .stop: break
        }
    }

    private mutating func list() {
        if fault(of: 1, "listing") > 0 {
            schedule.failed(ModelError())
            return
        }
        let names = files.keys.map(\.description)
        schedule.listed(
            OutboxListing(first: names) { names },
            .init(due: letters.filter { isDue($0.id) }, nextTry: letters.compactMap { retries[$0.id] }.min())
        )
    }

    private func isDue(_ id: UUID) -> Bool { retries[id].map { $0 <= date } ?? true }

    private mutating func read(_ name: CommandFileName) {
        check(!schedule.decidedFiles.contains(name), "a decided file is read")
        guard let command = files[name] else {
            schedule.read(name, .missing, at: date)
            return
        }
        switch fault(of: 4 + (isNext(name) ? 1 : 0), "reading \(name)") {
        case 0:
            schedule.read(name, damaged.contains(name) ? .damaged(reason: "", age: nil) : .command(command), at: date)
        case 1: schedule.read(name, .failed(ModelError()), at: date)
        case 2:
            metNewerFormat = true
            schedule.read(name, .newer(path: "/x"), at: date)
        case 3: schedule.read(name, .damaged(reason: "", age: 1), at: date)
        case 4:
            damaged.insert(name)
            schedule.read(name, .damaged(reason: "", age: nil), at: date)
        default:
            isDecidedByAnotherOwner(name)
            schedule.read(name, .missing, at: date)
        }
    }

    private mutating func removeFiles() {
        check(
            schedule.decidedFiles.names.allSatisfy { files[$0].map { outcomes.contains($0.id) } ?? true },
            "a waiting command is removed"
        )
        let fails = fault(of: 1, "removing") > 0
        for name in schedule.decidedFiles.names.sorted().dropFirst(fails ? 1 : 0) {
            files[name] = nil
            schedule.removed(name)
        }
        if fails {
            hasFailedToRemove = true
            schedule.removalFailed(ModelError())
        } else {
            schedule.removedAll()
        }
    }

    // MARK: Deciding

    /// Whether the command is the next one of its sender that an owner may decide.
    private func isNext(_ name: CommandFileName, with decided: Set<UUID> = []) -> Bool {
        files.allSatisfy { other, command in
            other.encodedSender != name.encodedSender || other >= name || damaged.contains(other)
                || outcomes.contains(command.id) || decided.contains(command.id)
        }
    }

    private mutating func isDecidedByAnotherOwner(_ name: CommandFileName) {
        if let command = files.removeValue(forKey: name) { outcomes.insert(command.id) }
    }

    private mutating func decide(_ commands: [PendingCommand]) {
        let suspected = commands.count { schedule.suspects.contains($0.command.id) }
        check(suspected == 0 || commands.count == 1, "a suspect shares its transaction")
        var batch = OutboxBatch(commands)
        batch.begin(at: now)
        do {
            let (decided, failed) = try transact(&batch)
            let isRefused = decided.contains { isPoison($0) && schedule.suspects.lostError(of: $0) == nil }
            if isRefused, poison == .commit { throw ModelError() }
            switch fault(of: 3, "the commit") {
            case 1: throw ModelError()
            case 2: throw DatabaseError(resultCode: .SQLITE_FULL)
            case 3: isOver = true
            default: break
            }
            outcomes.formUnion(decided)
            letters.removeAll { decided.contains($0.id) }
            for id in decided { retries[id] = nil }
            for id in failed { retries[id] = date + 60 }
            schedule.decided(batch.decisions, at: now)
        } catch {
            let failure = batch.failure(error, isAborted: false)
            schedule.batchFailed(failure)
            if case .stop = peek() { hasFailedInQueue = true }
            if case .removeFiles = peek() { hasFailedInQueue = true }
        }
    }

    private func peek() -> OutboxSchedule.Action {
        var schedule = schedule
        return schedule.next(isOver: isOver, at: now)
    }

    /// - returns: the commands that are decided for good, and those to be retried.
    private mutating func transact(_ batch: inout OutboxBatch) throws -> (decided: Set<UUID>, failed: Set<UUID>) {
        var (decided, failed): (Set<UUID>, Set<UUID>) = ([], [])
        while true {
            switch batch.next() {
            case .commit:
                return (decided, failed)
            case .check(let name):
                if isNext(name), fault(of: 1, "another owner") > 0 { isDecidedByAnotherOwner(name) }
                batch.checked(exists: files[name] != nil)
            case .decide(let pending):
                let decision = try decision(about: pending)
                if !decision.blocksSender {
                    if let name = pending.file { check(isNext(name, with: decided), "\(name) is decided out of order") }
                    decided.insert(pending.command.id)
                } else {
                    failed.insert(pending.command.id)
                }
                if fault(of: 1, "time") > 0 { now += OutboxBatch.time }
                batch.decided(decision, at: now)
            }
        }
    }

    private mutating func decision(about pending: PendingCommand) throws -> OutboxDecision {
        let id = pending.command.id
        if outcomes.contains(id) { return .known }
        if let next = retries[id], !isDue(id) { return .waits(until: next) }
        let failed = OutboxDecision.failed(
            OutboxCommandInfo(pending.command, attempt: 1),
            ModelError(),
            next: date + 60
        )
        let letter = DeadLetter(pending.command, at: date, reason: .refused, error: "", attempts: 1)
        if schedule.suspects.lostError(of: id) != nil { return poison == nil ? failed : .setAside(letter) }
        if isPoison(id) {
            switch poison {
            case .error: return .setAside(letter)
            case .databaseError: throw DatabaseError(resultCode: .SQLITE_LOCKED)
            case .lostTransaction: throw TransactionLost(id: id, error: ModelError())
            case .commit, nil: break
            }
        }
        switch fault(of: 5, "deciding") {
        case 0: return .applied
        case 1: return failed
        case 2: return .setAside(letter)
        case 3: throw DatabaseError(resultCode: .SQLITE_IOERR)
        case 4: throw DatabaseError.suspended("/x")
        default: throw TransactionLost(id: id, error: ModelError())
        }
    }
}

extension CommandFileName {
    static func model(_ sender: String, _ number: UInt64) -> CommandFileName {
        guard let name = CommandFileName(sender: sender, epoch: 1, stream: 1, number: number) else {
            preconditionFailure("not a sender: \(sender)")
        }
        return name
    }
}

extension CommandFile {
    static func model(_ sender: String = "a", _ number: Int = 1, bytes: Int = 0) -> CommandFile {
        CommandFile(
            id: UUID(),
            kind: OutboxCommandKind(name: "model", version: 1),
            sender: sender,
            time: UInt64(number),
            payload: Data(count: bytes)
        )
    }
}

extension PendingCommand {
    static func model(_ sender: String, _ number: Int = 1, bytes: Int = 0) -> PendingCommand {
        let command = CommandFile.model(sender, number, bytes: bytes)
        return PendingCommand(file: .model(sender, UInt64(number)), command: command)
    }
}
