import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableDelivery
@testable import RoundtableFiles

/// What an owner does next with the commands of its outbox (rules X5–X11), without files, clocks and databases.
@Suite struct OutboxScheduleTests {
    /// **Invariant** (X4–X7, X9): two senders and a dead letter. Whichever actions of the first two runs fail, and however: the order of each
    /// sender is kept, a suspect shares its transaction with no other command, only decided files are removed, none is left behind, and a
    /// next try is planned as long as a command waits. Once nothing fails any more, everything is decided within four runs.
    ///
    /// With `ROUNDTABLE_LONG=1`, there is one more fault.
    @Test(arguments: [true, false])
    func allRunsWithFaults(keepsFiles: Bool) throws {
        let faults = isLongRun ? 3 : 2
        var choices = Choices()
        var walks = 0
        repeat {
            var model = OutboxScheduleModel(choices, faults: faults)
            for _ in 0..<2 { model.run(keepingFiles: keepsFiles) }
            model.faultsLeft = 0
            for _ in 0..<4 where !model.isDone { model.run(keepingFiles: false) }
            choices = model.choices
            walks += 1
            if model.violations.isEmpty, model.isDone { continue }
            let problems = model.isDone ? model.violations : model.violations + ["not everything is decided"]
            Issue.record("\((problems + model.trace).joined(separator: "\n"))")
            return
        } while choices.advance()
        #expect(walks > 2000, "the walk is suspiciously short")
    }

    /// **Invariant** (X7): a command that fails each time is set aside in the end, and delays no other sender for longer than two runs.
    @Test(arguments: OutboxScheduleModel.Poison.allCases)
    func aCommandThatAlwaysFails(poison: OutboxScheduleModel.Poison) {
        var model = OutboxScheduleModel(Choices(), faults: 0)
        model.poison = poison
        for _ in 0..<2 { model.run(keepingFiles: false) }
        #expect(model.senders.isSubset(of: ["a"]), "\(model.trace.joined(separator: "\n"))")
        for _ in 0..<OutboxSuspects.chances { model.run(keepingFiles: false) }
        let problems = (model.violations + model.trace).joined(separator: "\n")
        #expect(model.isDone && model.violations.isEmpty, "\(problems)")
    }

    // MARK: Single decisions

    private var schedule = OutboxSchedule(author: "own")
    private let date = Date(timeIntervalSince1970: 1_800_000_000)

    /// Begins a run, and reports this listing when the schedule asks for one. All actions before it succeed.
    private mutating func begin(
        _ files: [(String, Int)] = [],
        _ letters: OutboxSchedule.RetriableLetters = .init(),
        keepingFiles: Bool = false,
        at now: Nanoseconds = 0
    ) {
        schedule.begin(keepingFiles: keepingFiles)
        while true {
            switch schedule.next(isOver: false, at: now) {
            case .list:
                let names = files.map { "\(CommandFileName.model($0, UInt64($1)))" }
                schedule.listed(OutboxListing(first: names) { names }, letters)
                return
            case .stop:
                Issue.record("nothing was listed")
                return
            default: break
            }
        }
    }

    /// Reports a whole command for each file that is to be read.
    ///
    /// - returns: the next action.
    private mutating func readAll(isOver: Bool = false, bytes: Int = 0, at now: Nanoseconds = 0) -> String {
        while true {
            let action = schedule.next(isOver: isOver, at: now)
            guard case .read(let name) = action else { return Self.text(action) }
            schedule.read(name, .command(.model(name.sender, bytes: bytes)), at: date)
        }
    }

    private mutating func next(isOver: Bool = false, at now: Nanoseconds = 0) -> String {
        Self.text(schedule.next(isOver: isOver, at: now))
    }

    private static func text(_ action: OutboxSchedule.Action) -> String {
        switch action {
        case .clean: "clean"
        case .lookForOwners: "look for owners"
        case .list: "list"
        case .read(let name): "read \(name.sender)"
        case .moveAway(let name, _): "move \(name.sender)"
        case .decide(let commands): "decide \(commands.map(\.command.sender).joined())"
        case .withdrawAnswers(let ids): "withdraw \(ids.count)"
        case .answer(nil): "answer all"
        case .answer(let ids?): "answer \(ids.count)"
        case .removeFiles: "remove"
        case .forget: "forget"
        case .stop(nil): "stop"
        case .stop(let error?): "throw \(error)"
        }
    }

    private mutating func removeAll() -> String {
        schedule.removedAll()
        return next()
    }

    @Test mutating func aRunWithoutCommands() {
        schedule.begin(keepingFiles: false)
        #expect((0..<3).map { _ in next() } == ["clean", "look for owners", "list"])
        schedule.listed(OutboxListing(), .init())
        #expect(next() == "forget")
        schedule.forgot(at: 0)
        #expect(next() == "answer all" && next() == "stop")
        // Within the hour, it does not clean, and within the day, it does not forget.
        begin(at: 3600 * 1_000_000_000 - 1)
        #expect(next(at: 24 * 3600 * 1_000_000_000 - 1) == "answer all")
        schedule.begin(keepingFiles: false)
        #expect(next(at: 3600 * 1_000_000_000) == "clean")
    }

    @Test mutating func aRunWithCommands() {
        begin([("a", 1), ("b", 1), ("a", 2)])
        #expect(readAll() == "decide aba")
        schedule.decided([.applied, .known, .applied], at: 0)
        #expect(next() == "answer 3" && next() == "remove")
        #expect(removeAll() == "answer all" && next() == "stop")
        #expect(schedule.report.applied == 2 && schedule.report.known == 1 && schedule.report.nextTry == nil)
    }

    @Test mutating func aRunThatIsOverEndsAfterTheBatch() {
        begin([("a", 1), ("a", 2)])
        #expect(readAll() == "decide aa")
        schedule.decided([.applied], at: 0)
        #expect(next(isOver: true) == "remove")
        schedule.removedAll()
        #expect(next(isOver: true) == "answer all" && next(isOver: true) == "stop")
    }

    /// What a batch could not take is decided in the next one, unless an earlier command of its sender waits.
    @Test mutating func whatIsLeftOfABatch() {
        begin([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
        #expect(readAll() == "decide abab")
        schedule.decided([.waits(until: date), .applied], at: 0)
        #expect(next() == "answer 1" && next() == "decide b")
        #expect(schedule.report.nextTry == date)
    }

    /// - Parameters:
    ///   - next: what follows when the file is the first of sender `a`, which has another one, and `b` follows.
    ///   - wait: the seconds until the next try.
    @Test(
        arguments: [
            (.missing, ["read a", "read b"], nil, 0),
            (.newer(path: "/x"), ["read b", "decide b"], nil, 1),
            (.failed(ModelError()), ["read b", "decide b"], 1, 1),
            (.damaged(reason: "", age: 0), ["read b", "decide b"], 0.25, 0),
            (.damaged(reason: "", age: 4.9), ["read b", "decide b"], 0.25, 0),
            (.damaged(reason: "", age: 5), ["move a", "read a"], nil, 0),
            // The clock was set back.
            (.damaged(reason: "", age: -1), ["move a", "read a"], nil, 0),
            (.damaged(reason: "", age: nil), ["move a", "read a"], nil, 0),
        ] as [(OutboxSchedule.Reading, [String], TimeInterval?, Int)]
    )
    mutating func filesThatAreNoCommand(
        _ reading: OutboxSchedule.Reading,
        expected: [String],
        wait: TimeInterval?,
        events: Int
    ) {
        begin([("a", 1), ("a", 2), ("b", 1)])
        schedule.read(.model("a", 1), reading, at: date)
        var actions: [String] = []
        for _ in 0..<2 {
            let action = schedule.next(isOver: false, at: 0)
            actions.append(Self.text(action))
            if case .read(let name) = action { schedule.read(name, .command(.model(name.sender)), at: date) }
        }
        #expect(actions == expected)
        #expect(schedule.report.nextTry == wait.map { date + $0 })
        #expect(schedule.takeEvents().count == events)
    }

    /// A file that cannot be read is reported once, until no file waits.
    @Test mutating func anUnreadableFileIsReportedOnce() {
        for expected in [1, 0, 0] {
            begin([("a", 1)])
            schedule.read(.model("a", 1), .failed(ModelError()), at: date)
            #expect(schedule.takeEvents().count == expected)
        }
        begin()
        begin([("a", 1)])
        schedule.read(.model("a", 1), .newer(path: "/x"), at: date)
        #expect(schedule.takeEvents().count == 1)
    }

    @Test mutating func aDamagedFileThatStaysIsNotReadAgain() {
        begin([("a", 1), ("a", 2)])
        schedule.read(.model("a", 1), .damaged(reason: "", age: nil), at: date)
        #expect(next() == "move a")
        schedule.moved(.model("a", 1), reason: "", .failed(path: "/x", ModelError()))
        #expect(schedule.report.damaged == 1 && schedule.takeEvents().count == 2)
        begin([("a", 1)])
        #expect(next() != "read a")
    }

    /// When a dead letter's retry is decided, its old answer is withdrawn. Letters come before files, and suspected ones after them.
    @Test mutating func deadLetters() {
        func letter(_ sender: String) -> DeadLetter {
            DeadLetter(.model(sender), at: date, reason: .failed, error: "", attempts: 8)
        }
        let letters = [letter("x"), letter("y")]
        begin([("a", 1)], .init(due: letters, areAll: false, nextTry: date))
        #expect(schedule.report.nextTry == date)
        #expect(readAll() == "decide xya")
        schedule.decided([.applied], at: 0)
        #expect(next() == "withdraw 1" && next() == "answer 1" && next() == "decide ya")
        schedule.batchFailed(
            .command(.init(file: nil, command: letters[1].command), reason: ModelError(), isInterrupted: true)
        )
        #expect(next().hasPrefix("throw"))
        begin([("a", 1)], .init(due: letters, areAll: false))
        #expect(readAll() == "decide xa")
        schedule.decided([.applied, .applied], at: 0)
        #expect(next() == "withdraw 1" && next() == "answer 2" && next() == "remove")
        #expect(removeAll() == "decide y")
        schedule.decided([.applied], at: 0)
        #expect(next() == "withdraw 1" && next() == "answer 1")
        // There may be more of them.
        #expect(next() == "list")
    }

    @Test mutating func lettersAreReadAgainOnlyAfterProgress() {
        let letter = DeadLetter(.model("x"), at: date, reason: .failed, error: "", attempts: 8)
        begin([], .init(due: [letter], areAll: false))
        #expect(readAll() == "decide x")
        schedule.decided([.waits(until: date)], at: 0)
        #expect(next() == "forget" && next() == "answer all" && next() == "stop")
    }

    /// Another listing finds what the first one had to leave out.
    @Test mutating func aListingThatIsCut() {
        begin()
        _ = (next(), next())
        schedule.begin(keepingFiles: false)
        while next() != "list" {}
        let (first, second) = (CommandFileName.model("a", 1), CommandFileName.model("a", 2))
        schedule.listed(OutboxListing(first: ["\(second)"]) { ["\(first)", "\(second)"] }, .init())
        #expect(next() == "list")
        schedule.listed(OutboxListing(first: ["\(second)"]) { ["\(first)", "\(second)"] }, .init())
        #expect(next(isOver: true) == "answer all")
    }

    /// A sender whose command waits is not read any further before the next listing.
    @Test mutating func aBlockedSenderIsNotReadAhead() {
        let bytes = OutboxQueues.maximumBytes / 2
        begin([("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)])
        #expect(readAll(bytes: bytes) == "decide ab")
        schedule.decided([.waits(until: date), .applied], at: 0)
        #expect(next() == "answer 1" && readAll(bytes: bytes) == "decide b")
        schedule.decided([.applied], at: 0)
        #expect(next() == "answer 1" && readAll() == "remove")
    }

    @Test mutating func aRunThatIsOverEndsAfterAFailedBatch() {
        begin([("a", 1), ("a", 2)])
        #expect(readAll() == "decide aa")
        schedule.batchFailed(.commit([UUID(), UUID()], reason: ModelError()))
        #expect(next(isOver: true) == "answer all" && next(isOver: true) == "stop")
    }

    // MARK: Removing files

    @Test mutating func keptFilesAreRemovedWhenTheirTimeHasCome() throws {
        begin([("a", 1)], keepingFiles: true)
        #expect(readAll() == "decide a")
        schedule.decided([.applied], at: 1000)
        #expect(next() == "answer 1" && next() == "answer all" && next() == "stop")
        let due = try #require(schedule.decidedFiles.removalTime)
        #expect(due == 1000 + DecidedFiles.time)
        schedule.begin(keepingFiles: true)
        #expect(next(at: due - 1) == "look for owners")
        schedule.begin(keepingFiles: true)
        // The askers do not wait for the sync.
        #expect(next(at: due) == "answer all" && next(at: due) == "remove")
        schedule.begin(keepingFiles: false)
        #expect(next(at: due - 1) == "answer all" && next(at: due - 1) == "remove")
        // A kept file is not read again.
        begin([("a", 1)])
        #expect(next() == "remove")
    }

    @Test(arguments: [
        (1, DecidedFiles.maximumBytes, "remove"), (2, 1, "answer all"), (DecidedFiles.maximumCount, 0, "remove"),
    ])
    mutating func keptFilesAreRemovedWhenTheyAreMany(count: Int, bytes: Int, expected: String) {
        begin((1...count).map { ("a", $0) }, keepingFiles: true)
        var action = readAll(bytes: bytes)
        while action.hasPrefix("decide") {
            schedule.decided(Array(repeating: .applied, count: action.count - "decide ".count), at: 0)
            #expect(next().hasPrefix("answer"))
            action = readAll(bytes: bytes)
        }
        #expect(action == expected)
    }

    /// A failure does not keep commands from being applied. It is thrown at the end.
    @Test mutating func aFailedRemovalBetweenBatches() {
        begin([("own", 1), ("own", 2)], keepingFiles: true)
        #expect(readAll() == "decide ownown")
        schedule.decided([.applied], at: 0)
        #expect(next() == "answer 1" && next() == "remove")
        schedule.removalFailed(ModelError())
        #expect(next() == "decide own")
        schedule.decided([.applied], at: 0)
        // It is not tried again in this run.
        #expect(next() == "answer 1" && next() == "answer all" && next() == "throw ModelError()")
    }

    @Test mutating func aFailedRemovalAtTheEnd() {
        begin([("a", 1)])
        #expect(readAll() == "decide a")
        schedule.decided([.applied], at: 0)
        #expect(next() == "answer 1" && next() == "remove")
        schedule.removalFailed(ModelError())
        #expect(next() == "remove")
        schedule.removalFailed(ModelError())
        #expect(next() == "throw ModelError()")
    }

    @Test mutating func filesAreRemovedBeforeAnErrorIsThrown() {
        begin([("a", 1), ("b", 1)], keepingFiles: true)
        #expect(readAll() == "decide ab")
        schedule.decided([.applied], at: 0)
        #expect(next() == "answer 1" && next() == "decide b")
        schedule.batchFailed(.database(ModelError()))
        #expect(next() == "remove" && removeAll() == "throw ModelError()")
    }

    // MARK: Failures

    @Test mutating func failuresThatEndNoRun() {
        schedule.begin(keepingFiles: false)
        #expect(next() == "clean")
        schedule.cleaningFailed(ModelError())
        #expect(next() == "look for owners")
        schedule.foundOwners([.otherFolder(database: "", folder: "", owner: "")])
        #expect(next() == "list")
        schedule.listed(OutboxListing(), .init())
        #expect(next() == "forget" && next() == "answer all")
        schedule.answeringFailed(ModelError(), at: date)
        #expect(schedule.report.nextTry == date + 1)
        #expect(next() == "stop" && schedule.takeEvents().count == 3 && schedule.takeEvents().isEmpty)
    }

    /// The commands of other senders come first after one that has ended a transaction.
    @Test mutating func theNextRunBeginsAfterTheSuspectsSender() {
        begin([("a", 1), ("b", 1)])
        #expect(readAll() == "decide ab")
        schedule.batchFailed(.command(.model("a"), reason: ModelError(), isInterrupted: true))
        #expect(next() == "throw ModelError()")
        begin([("a", 1), ("b", 1)])
        #expect(next() == "read b")
    }

    @Test mutating func theFirstMeeting() {
        let id = UUID()
        #expect(schedule.firstMet(id, at: date) == date)
        #expect(schedule.firstMet(id, at: date + 5) == date)
        // The clock was set back.
        #expect(schedule.firstMet(id, at: date - 5) == date - 5)
        begin()
        #expect(schedule.firstMet(id, at: date + 9) == date + 9)
    }
}
