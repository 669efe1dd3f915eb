import Foundation
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
#endif

/// What people read: errors say what, where and what next; the rest is one line for a log.
@Suite struct OutboxTextTests {
    private func error(_ call: SystemCall, _ errno: Int32, _ path: String = "/x/db-outbox/new/1") -> OutboxError {
        OutboxError(SystemError(call: call, errno: errno, path: path), folder: "/x/db-outbox", hasProtection: false)
    }

    @Test(
        arguments: [
            (SystemCall.write, ENOSPC, "disk is full"), (.mkdir, ENOSPC, "disk is full"),
            (.mkdir, EDQUOT, "Free space"),
            (.open, EROFS, "read-only"), (.mkdir, EROFS, "outboxFolder"),
            (.mkdir, EACCES, "permission to write"), (.link, EPERM, "permission to write"),
            (.opendir, EACCES, "permission to read"), (.read, EACCES, "permission to read"),
            (.open, EACCES, "permission to write"), (.link, EIO, "Try again"), (.link, EMLINK, "look at the disk"),
            (.open, ENOTDIR, "is not a folder"),
        ] as [(SystemCall, Int32, String)]
    )
    func anErrorSaysWhatNext(call: SystemCall, errno: Int32, expected: String) {
        let text = "\(error(call, errno))"
        #expect(text.contains(expected), "\(text)")
        #expect(text.components(separatedBy: "/x/db-outbox").count == 2, "the path, once: \(text)")
        if errno == EROFS {
            #expect(!text.contains("permission") && !text.contains("room"))
        }
        if errno != ENOSPC, errno != EDQUOT { #expect(!text.contains("disk is full")) }
    }

    @Test func whatIsThereCannotBeRead() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("file").path
        try Data().write(to: URL(fileURLWithPath: path))
        #expect("\(error(.open, EACCES, path))".contains("permission to read"))
        #expect(error(.open, ENOENT, "/x/db-outbox/new/1") == .file(path: "/x/db-outbox/new", .folderMissing))
    }

    @Test func aLockedDeviceIsNoMatterOfPermissions() {
        let error = SystemError(call: .open, errno: EPERM, path: "/x/1")
        #expect(OutboxError(error, folder: "/x", hasProtection: true) == .file(path: "/x/1", .protected))
    }

    @Test func whatWasDecidedBeforeSaysWhatNext() {
        let id = UUID()
        func text(_ outcome: OutboxOutcome) -> String {
            "\(OutboxError.decidedBefore(path: "/x", id: id, outcome: outcome))"
        }
        #expect(text(.setAside(.refused, error: "no")).contains("db.outbox.retry(_:)"))
        #expect(!text(.dropped).contains("retry") && text(.dropped).contains("another id"))
    }

    @Test func linesForLogs() throws {
        let id = try #require(UUID(uuidString: "5AC1F0C7-96F4-4F6E-A2D5-6B1D7B0C9A10"))
        let file = CommandFile(
            id: id,
            kind: OutboxCommandKind(name: "add-entry", version: 2),
            sender: "widget",
            time: 1_000_000_000,
            payload: Data()
        )
        let date = Date(timeIntervalSince1970: 1_800_000_000)
        let command = "'add-entry' version 2 from 'widget' (\(id))"
        let info = OutboxCommandInfo(file, attempt: 3)
        var letter = DeadLetter(file, at: date, reason: .refused, error: "no", attempts: 1)
        #expect("\(letter)" == "\(command), refused after 1 try: no")
        letter.isToBeRetried = true
        #expect("\(OutboxEvent.setAside(letter))" == "set aside: \(letter)")
        #expect("\(letter)".hasSuffix("to be tried again"))
        (letter.newAttempts, letter.nextTry, letter.newError) = (2, date, "why")
        #expect(
            "\(letter)".hasSuffix(": no; has failed 2 times more, at last with: why; tried again 2027-01-15T08:00:00Z")
        )
        (letter.newAttempts, letter.nextTry, letter.newError) = (0, nil, nil)
        let failed = OutboxEvent.attemptFailed(info, error: Refused(), next: date)
        #expect("\(failed)" == "try 3 of \(command) has failed, and is made again 2027-01-15T08:00:00Z: Refused()")
        #expect("\(OutboxEvent.damagedFile(path: "/x/1", reason: "cut off"))".contains("/x/1: cut off"))
        let database = OutboxEvent.otherDatabase(folder: "/x/o", database: "/x/2", owner: "app")
        #expect("\(database)".hasPrefix("a record in /x/o says that its commands were applied to /x/2, too, by 'app'"))
        let folder = OutboxEvent.otherFolder(database: "/x/1", folder: "/x/o", owner: "app")
        #expect("\(folder)".hasPrefix("commands in /x/o were applied to /x/1, too, by 'app'"))
        for event in [database, folder] { #expect("\(event)".contains("Options.outboxFolder")) }
        var report = OutboxReport()
        #expect("\(report)" == "nothing to do")
        report.applied = 3
        report.nextTry = date
        #expect("\(report)" == "3 applied, next try 2027-01-15T08:00:00Z")
        let submission = OutboxSubmission(id: id, folder: OutboxFolder(databasePath: "/x/db"))
        #expect("\(SharedDatabase.PerformResult.submitted(submission))" == "not now: \(id), submitted to /x/db-outbox")
        var waiting = WaitingCommand(file, path: "/x/1")
        #expect("\(waiting)" == "\(command) waits for an owner")
        waiting.waitsFor = .nextTry
        (waiting.attempts, waiting.nextTry, waiting.lastError) = (2, date, "no")
        #expect("\(waiting)" == "\(command) has failed 2 times, at last with: no; tried again 2027-01-15T08:00:00Z")
    }
}
