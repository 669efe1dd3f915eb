import Foundation
import GRDB
import RoundtableCore
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableDelivery
@testable import RoundtableFiles

/// The values that `OutboxSchedule` and `OutboxDecision` decide by: batches, suspects, kept files, and tries.
@Suite struct OutboxPolicyTests {
    private let date = Date(timeIntervalSince1970: 1_800_000_000)
    private let failure = DatabaseError(resultCode: .SQLITE_IOERR)

    private func text(_ step: OutboxBatch.Step) -> String {
        switch step {
        case .check(let name): "check \(name.sender)"
        case .decide(let pending): "decide \(pending.command.sender)"
        case .commit: "commit"
        }
    }

    // MARK: A batch

    /// After a command that waits, later ones of its sender wait, and those of others do not.
    @Test func aCommandThatWaitsBlocksItsSender() {
        let failed = OutboxDecision.failed(OutboxCommandInfo(.model(), attempt: 1), ModelError(), next: date)
        for blocking in [.waits(until: date), failed] as [OutboxDecision] {
            var batch = OutboxBatch([.model("a", 1), .model("a", 2), .model("b", 1)])
            batch.begin(at: 0)
            #expect(text(batch.next()) == "check a")
            batch.checked(exists: true)
            #expect(text(batch.next()) == "decide a")
            batch.decided(blocking, at: 0)
            #expect(text(batch.next()) == "check b")
            batch.checked(exists: true)
            #expect(text(batch.next()) == "decide b")
            batch.decided(.applied, at: 0)
            #expect(text(batch.next()) == "commit")
            #expect(batch.decisions.map(\.blocksSender) == [true, true, false])
        }
    }

    @Test func aCommandWhoseFileIsGoneIsNotDecided() {
        var batch = OutboxBatch([.model("a", 1), .model("a", 2)])
        batch.begin(at: 0)
        _ = batch.next()
        batch.checked(exists: false)
        #expect(text(batch.next()) == "check a")
        batch.checked(exists: false)
        #expect(text(batch.next()) == "commit")
        #expect(batch.decisions.map(\.isNew) == [false, false])
        #expect(batch.decisions.map(\.blocksSender) == [false, false])
    }

    @Test func aDeadLetterHasNoFile() {
        var batch = OutboxBatch([PendingCommand(file: nil, command: .model("x"))])
        #expect(text(batch.next()) == "decide x")
    }

    @Test(arguments: [(OutboxBatch.time - 1, "check b"), (OutboxBatch.time, "commit")])
    func aBatchEndsWhenItsTimeIsOver(time: Nanoseconds, expected: String) {
        var batch = OutboxBatch([.model("a"), .model("b")])
        batch.begin(at: 1000)
        _ = batch.next()
        batch.checked(exists: true)
        _ = batch.next()
        batch.decided(.applied, at: 1000 + time)
        #expect(text(batch.next()) == expected)
    }

    /// Where a transaction fails.
    enum Point: CaseIterable { case beginning, checking, deciding, committing }

    /// What is known of the cause, by the point and the error.
    @Test(
        arguments: [
            (.beginning, ModelError(), false, "database"),
            (.beginning, DatabaseError(resultCode: .SQLITE_FULL), false, "database"),
            (.checking, ModelError(), false, "database"),
            (.deciding, DatabaseError(resultCode: .SQLITE_FULL), false, "command"),
            (.deciding, ModelError(), true, "command, interrupted"),
            (.deciding, DatabaseError.suspended("/x"), false, "command, interrupted"),
            (.deciding, TransactionLost(id: UUID(), error: ModelError()), false, "lost"),
            (.committing, ModelError(), false, "commit of 2"),
            (.committing, DatabaseError(resultCode: .SQLITE_CONSTRAINT), false, "commit of 2"),
            (.committing, DatabaseError(resultCode: .SQLITE_FULL), false, "database"),
            (.committing, DatabaseError.suspended("/x"), false, "database"),
        ] as [(Point, any Error, Bool, String)]
    )
    func theCauseOfAFailure(_ point: Point, _ error: any Error, isAborted: Bool, expected: String) {
        var batch = OutboxBatch([.model("a"), .model("b")])
        if point != .beginning { batch.begin(at: 0) }
        steps: while point != .beginning {
            switch batch.next() {
            case .check where point == .checking: break steps
            case .check: batch.checked(exists: true)
            case .decide where point == .deciding: break steps
            case .decide: batch.decided(.applied, at: 0)
            case .commit: break steps
            }
        }
        let text =
            switch batch.failure(error, isAborted: isAborted) {
            case .command(_, _, let isInterrupted): "command\(isInterrupted ? ", interrupted" : "")"
            case .lost: "lost"
            case .commit(let ids, _): "commit of \(ids.count)"
            case .database: "database"
            }
        #expect(text == expected)
    }

    // MARK: Queues

    /// The payloads of dead letters that are tried again count among the bytes that are read ahead.
    @Test func deadLettersCountForWhatIsReadAhead() throws {
        let name = CommandFileName.model("a", 1)
        var queues = OutboxQueues(OutboxListing(first: ["\(name)"]) { ["\(name)"] }, after: nil)
        #expect(queues.nextFile == name)
        let command = CommandFile.model(bytes: OutboxQueues.maximumBytes)
        queues.insert([DeadLetter(command, at: date, reason: .refused, error: "", attempts: 1)])
        #expect(queues.nextFile == nil)
        queues.remove(decided: 1, blocked: [])
        #expect(queues.nextFile == name)
        queues.take(.model(bytes: OutboxQueues.maximumBytes))
        #expect(queues.ready.count == 1)
    }

    // MARK: Suspects

    /// The first failure may be the database's. The next one is the command's if another was committed in between.
    @Test func aSuspectIsToBlameIfOthersSucceed() {
        let pending = PendingCommand.model("a")
        let id = pending.command.id
        for others in [true, false] {
            var suspects = OutboxSuspects()
            let failure = OutboxBatch.Failure.command(pending, reason: failure, isInterrupted: false)
            #expect(suspects.failed(failure) != nil && suspects.lostError(of: id) == nil)
            suspects.committed(hasDecided: others)
            #expect((suspects.failed(failure) == nil) == others)
            #expect((suspects.lostError(of: id) != nil) == others)
            // If the try cannot be recorded either, the database is to blame after all.
            suspects.committed(hasDecided: true)
            #expect((suspects.failed(failure) != nil) == others)
        }
    }

    @Test func aSuspectThatIsAloneHasEightChances() {
        var suspects = OutboxSuspects()
        let pending = PendingCommand.model("a")
        let failed = (1...8).map { _ in
            suspects.failed(.command(pending, reason: failure, isInterrupted: false)) != nil
        }
        #expect(failed == [true, true, true, true, true, true, true, false])
    }

    @Test func anInterruptionCountsAsNoFailure() {
        var suspects = OutboxSuspects()
        let pending = PendingCommand.model("a")
        for _ in 0..<20 {
            suspects.committed(hasDecided: true)
            #expect(suspects.failed(.command(pending, reason: failure, isInterrupted: true)) != nil)
        }
        #expect(suspects.contains(pending.command.id) && suspects.lostError(of: pending.command.id) == nil)
    }

    @Test func aCommitThatFails() {
        var suspects = OutboxSuspects()
        let (one, two) = (PendingCommand.model("a"), PendingCommand.model("b"))
        let ids = [one.command.id, two.command.id]
        // One by one
        #expect(suspects.failed(.commit(ids, reason: failure)) == nil)
        #expect(suspects.batch(of: [one, two, .model("c")]).count == 1)
        // A try of the one
        #expect(suspects.failed(.commit([ids[0]], reason: failure)) == nil)
        #expect(suspects.lostError(of: ids[0]) != nil && suspects.lostError(of: ids[1]) == nil)
        // That cannot be recorded.
        #expect(suspects.failed(.commit([ids[0]], reason: failure)) != nil)
        suspects.endRun()
        #expect(suspects.lostError(of: ids[0]) == nil && suspects.contains(ids[0]))
    }

    /// - parameter suspected: the positions of suspects among four commands.
    @Test(arguments: [([], 4), ([0], 1), ([1], 1), ([3], 3), ([0, 1], 1)] as [([Int], Int)])
    func suspectsShareNoTransaction(suspected: [Int], expected: Int) {
        var suspects = OutboxSuspects()
        let commands = (1...4).map { PendingCommand.model("a", $0) }
        for index in suspected {
            _ = suspects.failed(.command(commands[index], reason: failure, isInterrupted: true))
        }
        #expect(suspects.batch(of: commands).map(\.command.id) == commands.prefix(expected).map(\.command.id))
        for command in commands { suspects.remove(command.command.id) }
        #expect(suspects.batch(of: commands).count == 4)
    }

    @Test func aLostTransactionIsRecordedInTheNext() {
        var suspects = OutboxSuspects()
        let id = UUID()
        #expect(suspects.failed(.lost(id, reason: ModelError())) == nil)
        #expect(suspects.lostError(of: id) is ModelError && !suspects.contains(id))
        suspects.recorded(id)
        #expect(suspects.lostError(of: id) == nil)
    }

    // MARK: Decided files

    @Test func whenDecidedFilesAreRemoved() {
        var files = DecidedFiles()
        #expect(!files.isRemovalDue(at: .max) && !files.isRemovalNeeded(at: .max))
        files.insert(.model("a", 1), bytes: 1, isOwn: false, at: 1000)
        files.insert(.model("a", 2), bytes: 1, isOwn: false, at: 2000)
        #expect(files.removalTime == 1000 + DecidedFiles.time)
        files.insert(.model("own", 1), bytes: 1, isOwn: true, at: 3000)
        #expect(files.isRemovalDue(at: 3000) && !files.isRemovalDue(at: 2999))
        for name in [("a", 1), ("a", 2)] as [(String, UInt64)] { files.remove(.model(name.0, name.1)) }
        #expect(files.names == [.model("own", 1)] && files.removalTime == 3000)
        files.removeAll()
        #expect(files.isEmpty && files.removalTime == nil)
    }

    // MARK: Tries

    private func policy(_ change: (inout OutboxHandlers) -> Void = { _ in }) -> OutboxRetryPolicy {
        var handlers = OutboxHandlers()
        change(&handlers)
        return handlers.retryPolicy
    }

    /// 100 ms, twice as long each time, at most a minute; then it is set aside.
    @Test func thePausesGrow() {
        let policy = policy { $0.retries.maximumAttempts = 12 }
        let pauses = (1...12).map { attempt -> Double in
            switch policy.verdict(on: ModelError(), attempt: attempt, at: date) {
            case .retry(let next): return (next.timeIntervalSince(date) * 1000).rounded()
            case .setAside: return -1
            }
        }
        #expect(pauses == [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, -1])
        let patient = self.policy { $0.retries.maximumAttempts = .max }
        #expect(patient.verdict(on: ModelError(), attempt: .max, at: date) == .setAside(.failed))
        #expect(patient.verdict(on: ModelError(), attempt: .max - 1, at: date) == .retry(at: date + 60))
    }

    @Test func whatErrorsDo() {
        let (first, last) = (1, OutboxHandlers.Retries().maximumAttempts)
        let undecodable = UndecodablePayload(kind: OutboxCommandKind(name: "a", version: 1), reason: "")
        let database = DatabaseError(resultCode: .SQLITE_BUSY)
        let table: [(any Error, Int, OutboxRetryPolicy.Verdict)] = [
            (OutboxRefusal("no"), first, .setAside(.refused)),
            (OutboxRefusal("no"), last, .setAside(.refused)),
            (undecodable, first, .setAside(.undecodable)),
            (undecodable, last, .setAside(.undecodable)),
            (ModelError(), first, .retry(at: date + 0.1)),
            (ModelError(), last, .setAside(.failed)),
            (database, first, .retry(at: date + 60)),
            (database, last, .setAside(.failed)),
            (DatabaseError(resultCode: .SQLITE_CONSTRAINT), first, .retry(at: date + 0.1)),
        ]
        for (error, attempt, verdict) in table {
            #expect(policy().verdict(on: error, attempt: attempt, at: date) == verdict, "\(error), \(attempt)")
        }
    }

    @Test func whenATryIsDue() {
        let policy = policy()
        for (ahead, isDue) in [(-1, true), (0, true), (0.1, false), (60, false), (3600, false), (3601, true)] {
            #expect(policy.isDue(date + ahead, at: date) == isDue, "\(ahead)")
        }
        let slow = self.policy { $0.retries.maximumDelay = .seconds(7200) }
        #expect(!slow.isDue(date + 7200, at: date) && slow.isDue(date + 7201, at: date))
    }

    @Test(arguments: [(nil, 1), (0, 1), (3, 4), (-5, 1), (.max, .max)] as [(Int?, Int)])
    func theNumberOfATry(recorded: Int?, attempt: Int) {
        #expect(OutboxRetryPolicy.attempt(after: recorded) == attempt)
    }

    /// An unknown command waits since it was first seen; one that has failed elsewhere also since its next try was due.
    @Test(arguments: [(nil, 10), (-5, 10), (3, 13), (20, 15)] as [(TimeInterval?, TimeInterval)])
    func howLongAnUnknownCommandWaits(next: TimeInterval?, expected: TimeInterval) {
        // It was first seen 5 s ago.
        let end = policy().endOfGrace(firstMet: date, next: next.map { date + $0 }, at: date + 5)
        #expect(end == date + expected)
        let hurried = policy { $0.gracePeriod = .seconds(-1) }
        #expect(hurried.endOfGrace(firstMet: date, next: nil, at: date) == date)
    }
}
