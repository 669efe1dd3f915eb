import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
    @testable import RoundtableGate
#endif

/// When the files of applied commands are removed, and that no sender that asks waits for it (rules X5, X10).
@Suite struct OutboxRemovalTests {
    private func wait(until time: Nanoseconds) { while MonotonicClock.now < time { sched_yield() } }

    /// The rounds run as on the drain's thread, on a disk that cannot sync.
    @Test func aSenderThatAsksDoesNotWaitForTheDisk() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let rounds = OutboxRounds(of: db, handlers: .entries())
        let submission = try world.outbox().submit(AddEntry(text: "a"))
        try System.withFaults([Fault(.fsync, errno: EIO)]) {
            #expect(try rounds.run(db, keepingFiles: true).applied == 1)
            #expect(world.files().count == 1)
            #expect(try submission.outcome(within: .zero) == .waiting)
            wait(until: try #require(rounds.removalIsDue))
            // It is asked about before, and applied once.
            #expect(throws: SystemError.self) { try rounds.run(db, keepingFiles: true) }
            #expect(try submission.outcome(within: .zero) == .applied)
            #expect(world.files().count == 1)
            // What comes meanwhile is applied.
            try world.outbox("other").submit(AddEntry(text: "b"))
            #expect(throws: SystemError.self) { try rounds.run(db, keepingFiles: true) }
        }
        #expect(try db.texts() == ["a", "b"])
        #expect(try rounds.run(db) == OutboxReport())
        #expect(world.files().isEmpty && rounds.removalIsDue == nil)
    }

    ///     the owner                  a sender that has asked   another that asks the same
    ///     a system call
    ///                                takes the answer
    ///                                                          asks
    ///     the next
    ///
    /// Before each call of the owner in turn: the other one is answered, too, without asking again (rule X10).
    @Test func noQuestionGoesWithAnother() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let submission = try world.outbox().submit(AddEntry(text: "a"))
        try world.rounds(db, .entries())()
        let taken = Shared(0)
        var (call, calls) = (0, Int.max)
        while call < calls {
            #expect(try submission.outcome(within: .zero) == .waiting)
            let counter = Shared(0)
            let hasAsked = Shared(false)
            let drain = world.rounds(db, .entries())
            try System.withInterposed { [call] _ in
                counter.change { $0 += 1 }
                guard counter.value == call + 1 else { return }
                #expect(throws: Never.self) {
                    guard try submission.outcome(within: .zero) == .applied else { return }
                    taken.change { $0 += 1 }
                    #expect(try submission.outcome(within: .zero) == .waiting)
                    hasAsked.change { $0 = true }
                }
            } _: {
                _ = try drain()
            }
            // An owner that runs is woken by a question that is there.
            if hasAsked.value, !world.files("questions").isEmpty { try drain() }
            let isAnswered = !world.files("answers").isEmpty
            if hasAsked.value { #expect(isAnswered, "before call \(call + 1)") }
            if isAnswered { #expect(try submission.outcome(within: .zero) == .applied) }
            try? FileManager.default.removeItem(at: world.folder.file("db.sqlite-outbox/questions"))
            try FileManager.default.createDirectory(
                at: world.folder.file("db.sqlite-outbox/questions"),
                withIntermediateDirectories: true
            )
            calls = counter.value
            call += 1
        }
        #expect(taken.value >= 1)
    }

    /// What was performed here would have the next one submitted as long as its file is there.
    @Test func whatIsOwnIsRemovedAtOnce() throws {
        let world = try OutboxWorld()
        let db = try world.open(as: "app")
        let rounds = OutboxRounds(of: db, handlers: .entries())
        try world.outbox("app").submit(AddEntry(text: "a"))
        #expect(try rounds.run(db, keepingFiles: true).applied == 1)
        #expect(world.files().isEmpty && rounds.removalIsDue == nil)
    }

    ///     an owner                             another
    ///     applies a command, and commits
    ///                                          replaces the database, from a backup
    ///     is to remove the file
    ///
    /// What the owner has done is not in the database that is there now.
    @Test(arguments: [true, false])
    func aDatabaseThatIsReplacedBeforeTheFilesAreRemoved(isRemovalOfARun: Bool) throws {
        let world = try OutboxWorld()
        try world.open().close()
        let backup = world.folder.file("backup")
        try FileManager.default.copyItem(at: world.url, to: backup)
        let old = try world.open(as: "old")
        let rounds = OutboxRounds(of: old, handlers: .entries())
        try world.outbox().submit(AddEntry(text: "a"))
        #expect(try rounds.run(old, keepingFiles: true).applied == 1)
        #expect(world.files().count == 1)
        for ending in ["-wal", "-shm", ControlBlock.ending] {
            try FileManager.default.removeItem(atPath: world.url.path + ending)
        }
        try FileManager.default.moveItem(at: world.url, to: world.folder.file("old"))
        try FileManager.default.moveItem(at: backup, to: world.url)
        #expect {
            if isRemovalOfARun { _ = try rounds.run(old) } else { try rounds.removeDecided() }
        } throws: {
            isLoss($0, of: old)
        }
        #expect(world.files().count == 1)
        // The file is not removed later either: the next owner does not wait for this one.
        try? rounds.removeDecided()
        #expect(world.files().count == 1)
        let new = try world.open(as: "new")
        #expect(try world.rounds(new, .entries())().applied == 1)
        #expect(try new.texts() == ["a"])
        #expect(world.files().isEmpty)
    }

    /// What is kept counts against the limits of senders.
    @Test func notMuchIsKept() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let rounds = OutboxRounds(of: db, handlers: .entries())
        let large = AddEntry(text: String(repeating: "x", count: 900_000))
        for _ in 0..<6 { try world.outbox().submit(large) }
        #expect(try rounds.run(db, keepingFiles: true).applied == 6)
        #expect(world.files().count < 5)
    }

    /// The other files are removed.
    @Test func aFileThatCannotBeRemoved() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let rounds = OutboxRounds(of: db, handlers: .entries())
        for number in 1...10 { try world.outbox().submit(AddEntry(text: "\(number)")) }
        #expect(try rounds.run(db, keepingFiles: true).applied == 10)
        let stuck = world.commands.appendingPathComponent(try #require(world.files().first))
        try FileManager.default.removeItem(at: stuck)
        try FileManager.default.createDirectory(at: stuck, withIntermediateDirectories: false)
        #expect(throws: SystemError.self) { try rounds.removeDecided() }
        #expect(world.files() == [stuck.lastPathComponent])
        try FileManager.default.removeItem(at: stuck)
        try rounds.removeDecided()
        #expect(rounds.removalIsDue == nil)
    }

    @Test func aDrainThatEndsLeavesNoFiles() async throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let drain = try db.outbox.drain(with: .entries())
        for number in 0..<20 {
            let submission = try await world.outbox().submit(AddEntry(text: "\(number)"))
            #expect(try await submission.outcome(within: .seconds(20)) == .applied)
        }
        drain.cancel()
        try await eventually("the files are removed") { world.files().isEmpty }
        try db.close()
    }

    /// Its file is kept for a moment; the suspension is not.
    @Test func aSuspendedDrainLeavesNoFiles() async throws {
        let world = try OutboxWorld()
        let db = try world.open { $0.process = ProcessSuspension() }
        try db.outbox.drain(with: .entries())
        for number in 0..<20 {
            let submission = try await world.outbox().submit(AddEntry(text: "\(number)"))
            #expect(try await submission.outcome(within: .seconds(20)) == .applied)
            _ = await db.suspend(deadline: .now + .seconds(1))
            try await eventually("the file is removed") { world.files().isEmpty }
            db.resume()
        }
        try db.close()
    }
}
