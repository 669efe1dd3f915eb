import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles

/// Files that are not what they should be, limits, and a system that refuses (rules X2, X3, X5, X9, X10, X12).
@Suite struct OutboxDamageTests {
    private func place(_ bytes: [UInt8], _ world: OutboxWorld, sender: String = "evil", number: UInt64 = 1) throws {
        let name = try #require(CommandFileName(sender: sender, epoch: 1, stream: 1, number: number))
        let file = world.commands.appendingPathComponent("\(name)")
        try Data(bytes).write(to: file)
        // No process is copying it.
        let past = Date(timeIntervalSinceNow: -60)
        try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: file.path)
    }

    private func command(_ text: String, sender: String = "evil") throws -> CommandFile {
        CommandFile(
            id: UUID(),
            kind: OutboxCommandKind(name: "add-entry", version: 1),
            sender: sender,
            time: 1_000_000_000,
            payload: try AddEntry(text: text).encoded()
        )
    }

    /// Each bit of a small command, and each length of it.
    @Test func noDamagedFileIsACommand() throws {
        let whole = try command("x").bytes
        guard case .command = CommandFile.content(of: whole) else { return #expect(Bool(false), "not whole") }
        for index in whole.indices {
            for bit in 0..<8 {
                var bytes = whole
                bytes[index] ^= 1 << bit
                guard case .damaged = CommandFile.content(of: bytes) else {
                    return #expect(Bool(false), "bit \(bit) of byte \(index): \(CommandFile.content(of: bytes))")
                }
            }
        }
        for length in 0..<whole.count {
            guard case .damaged = CommandFile.content(of: Array(whole[..<length])) else {
                return #expect(Bool(false), "cut to \(length)")
            }
        }
        guard case .damaged = CommandFile.content(of: whole + [0]) else { return #expect(Bool(false), "longer") }
    }

    @Test func damagedFilesDelayNoCommand() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox("evil")
        try outbox.submit(AddEntry(text: "sound"))
        try world.outbox("good").submit(AddEntry(text: "good"))
        let whole = try command("never").bytes
        try place([], world, number: 1)
        try place(Array(whole.dropLast()), world, number: 2)
        try place([UInt8]("SQLite format 3\0".utf8) + [UInt8](repeating: 7, count: 4096), world, number: 3)
        try place(try command("never", sender: "other").bytes, world, number: 4)
        let folder = try #require(CommandFileName(sender: "evil", epoch: 1, stream: 1, number: 5))
        try FileManager.default.createDirectory(
            at: world.commands.appendingPathComponent("\(folder)"),
            withIntermediateDirectories: false
        )
        // Not of the form: left alone.
        for name in [".DS_Store", "evil.1.2.3.command", "note.txt"] {
            try Data("hello".utf8).write(to: world.commands.appendingPathComponent(name))
        }
        let db = try world.open()
        let events = Shared<[String]>([])
        let report = try world.rounds(db, OutboxHandlers.entries().played(events: events))()
        #expect(report.applied == 2 && report.damaged == 5)
        #expect(Set(try db.texts()) == ["sound", "good"])
        #expect(events.value.count == 5 && events.value.allSatisfy { $0.hasPrefix("damaged") }, "\(events.value)")
        #expect(world.files() == [".DS_Store", "evil.1.2.3.command", "note.txt"])
        #expect(world.files("damaged").count == 5)
        #expect(try CommandOutbox.contents(forDatabaseAt: world.url).damaged.count == 5)
    }

    /// Rule X6, and a file that has only taken the name of a command that is still to come:
    ///
    ///     the owner lists              the sender
    ///     sees 1 and 9, which is none
    ///                                  2, 3
    ///     sees 1, 3 and 9, misses 2
    @Test func aDamagedFileDoesNotChangeTheOrder() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox("s")
        try outbox.submit(AddEntry(text: "1"))
        let stranger = try #require(CommandFileName(sender: "s", epoch: 9, stream: 9, number: 9)).description
        try Data("hello".utf8).write(to: world.commands.appendingPathComponent(stranger))
        for number in 2...3 { try outbox.submit(AddEntry(text: "\(number)")) }
        let db = try world.open()
        var handlers = OutboxHandlers.entries()
        let calls = Shared(0)
        handlers.environment.names = { path in
            calls.change { $0 += 1 }
            let ends =
                switch calls.value {
                case 1: ["1.command", "9.command"]
                case 2: ["1.command", "3.command", "9.command"]
                default: [".command"]
                }
            return try System.names(inFolder: path)?.filter { name in ends.contains { name.hasSuffix($0) } }
        }
        let report = try world.rounds(db, handlers)()
        #expect(report.applied == 3 && report.damaged == 1)
        #expect(try db.texts() == ["1", "2", "3"])
        #expect(world.files().isEmpty && world.files("damaged") == [stranger])
    }

    /// After the largest epoch there is none: two streams that both had it would be in no order.
    @Test func aDamagedFileAnnouncesNoEpoch() throws {
        let world = try OutboxWorld()
        _ = try world.outbox("s").submit(AddEntry(text: "0"))
        let stranger = try #require(CommandFileName(sender: "s", epoch: 8_999_999_999, stream: 9, number: 9))
            .description
        try Data("hello".utf8).write(to: world.commands.appendingPathComponent(stranger))
        for number in 1...20 { try world.outbox("s").submit(AddEntry(text: "\(number)")) }
        let db = try world.open()
        try world.rounds(db, .entries())()
        #expect(try db.texts() == (0...20).map(String.init))
    }

    /// Sockets, links to nothing and to themselves are no files that could be read some day: they delay no command.
    @Test func whatIsNoFileDelaysNoCommand() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox("evil")
        try outbox.submit(AddEntry(text: "1"))
        func path(_ number: UInt64) throws -> String {
            let name = try #require(CommandFileName(sender: "evil", epoch: 1, stream: 0, number: number))
            return world.commands.appendingPathComponent("\(name)").path
        }
        #expect(mkfifo(try path(1), 0o600) == 0)
        #expect(mknod(try path(2), S_IFSOCK | 0o600, 0) == 0)
        try FileManager.default.createSymbolicLink(atPath: path(3), withDestinationPath: "nothing")
        try FileManager.default.createSymbolicLink(atPath: path(4), withDestinationPath: path(4))
        let db = try world.open()
        // This name has no form that an owner would move away.
        try FileManager.default.createSymbolicLink(
            atPath: world.commands.appendingPathComponent("circle").path,
            withDestinationPath: "circle"
        )
        try world.outbox("good").submit(AddEntry(text: "2"))
        let report = try world.rounds(db, .entries())()
        #expect(report.applied == 2 && report.damaged == 4)
        #expect(world.files() == ["circle"] && world.files("damaged").count == 4)
    }

    /// What lies in the place of a question or an answer does not prevent other senders from being answered.
    @Test(arguments: ["questions", "answers"])
    func foldersInTheWayOfAnswers(place: String) throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox()
        let submissions = try (1...20).map { try outbox.submit(AddEntry(text: "\($0)")) }
        let taken = submissions[0].id.uuidString
        let folder = world.folder.file("db.sqlite-outbox/\(place)/\(taken)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        if place == "answers" {
            try Data().write(to: world.folder.file("db.sqlite-outbox/questions/\(taken)"))
        }
        for submission in submissions.dropFirst() { #expect(try submission.outcome(within: .zero) == world.noDatabase) }
        let db = try world.open()
        let events = Shared<[String]>([])
        let drain = world.rounds(db, OutboxHandlers.entries().played(events: events))
        try drain()
        for submission in submissions.dropFirst() { #expect(try submission.outcome(within: .zero) == .applied) }
        // It is reported once, and not examined again.
        #expect(try drain().nextTry == nil)
        #expect(events.value.count == 1 && events.value[0].hasPrefix("failed"), "\(events.value)")
        #expect(world.files("new").isEmpty)
    }

    @Test func aNewerFormatWaits() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox("evil")
        try outbox.submit(AddEntry(text: "1"))
        let db = try world.open()
        try world.rounds(db, .entries())()
        var bytes = try command("2").bytes
        bytes[8] = 2
        var seal = Checksum.fnv1a(bytes[..<120])
        withUnsafeBytes(of: &seal) { bytes.replaceSubrange(120..<128, with: $0) }
        try place(bytes, world)
        // A stream that begins later comes after it.
        try world.outbox("evil").submit(AddEntry(text: "3"))
        try world.outbox("good").submit(AddEntry(text: "good"))
        let events = Shared<[String]>([])
        let drain = world.rounds(db, OutboxHandlers.entries().played(events: events))
        #expect(try drain().applied == 1)
        #expect(try drain().applied == 0)
        #expect(events.value == ["newer"])
        #expect(try db.texts() == ["1", "good"])
        #expect(world.files().count == 2)
    }

    @Test func damagedAnswersAreAskedForAgain() throws {
        let bytes = OutboxAnswer.bytes(.setAside(.failed, error: "because"))
        #expect(OutboxAnswer.outcome(in: bytes) == .setAside(.failed, error: "because"))
        for reason in DeadLetter.Reason.allCases {
            let outcome = OutboxOutcome.setAside(reason, error: "é")
            #expect(OutboxAnswer.outcome(in: OutboxAnswer.bytes(outcome)) == outcome)
        }
        for index in bytes.indices {
            for bit in 0..<8 {
                var damaged = bytes
                damaged[index] ^= 1 << bit
                #expect(OutboxAnswer.outcome(in: damaged) == nil)
            }
        }
        let world = try OutboxWorld()
        let submission = try world.outbox().submit(AddEntry(text: "a"))
        let answers = world.folder.file("db.sqlite-outbox/answers/\(submission.id.uuidString)")
        try Data(bytes.dropLast()).write(to: answers)
        #expect(try submission.outcome(within: .zero) == world.noDatabase)
        let db = try world.open()
        try world.rounds(db, .entries())()
        #expect(try submission.outcome(within: .zero) == .applied)
    }

    // MARK: Limits

    @Test func limitsAreErrors() throws {
        let world = try OutboxWorld()
        let small = try world.outbox("a") { $0.maximumCommandSize = 20 }
        #expect(throws: OutboxError.self) { try small.submit(AddEntry(text: String(repeating: "x", count: 20))) }
        #expect(world.files().isEmpty)
        let few = try world.outbox("a") { $0.maximumCount = 3 }
        for number in 1...3 { try few.submit(AddEntry(text: "\(number)")) }
        #expect {
            try few.submit(AddEntry(text: "4"))
        } throws: { error in
            guard case OutboxError.full(_, 3, _, .count(3)) = error else { return false }
            return "\(error)".contains("3 commands with") && "\(error)".contains("roundtable outbox")
        }
        let light = try world.outbox("b") { $0.maximumBytes = 600 }
        #expect(throws: OutboxError.self) { try light.submit(AddEntry(text: String(repeating: "x", count: 300))) }
        #expect(world.files().count == 3)
        // There is room again once they are applied: it is counted again.
        let db = try world.open()
        try world.rounds(db, .entries())()
        try few.submit(AddEntry(text: "4"))
        try light.submit(AddEntry(text: "5"))
        #expect(throws: OutboxError.self) { try world.outbox("") }
        #expect(throws: OutboxError.self) { try world.outbox(String(repeating: "ü", count: 30)) }
        try world.outbox("Grüße / 1.2").submit(AddEntry(text: "6"))
        try world.rounds(db, .entries())()
        #expect(
            try db.read { try String.fetchOne($0, sql: "SELECT sender FROM entry WHERE text = '6'") } == "Grüße / 1.2"
        )
    }

    // MARK: A system that refuses

    /// Each call of a submission fails, the first, the second …: an error, and nothing half-visible; the next submission works.
    @Test(
        arguments: [
            (SystemCall.open, ENOSPC), (.write, ENOSPC), (.write, EIO), (.fsync, EIO), (.link, ENOSPC), (.chmod, EIO),
            (.mkdir, ENOSPC),
            (.stat, EIO), (.opendir, EIO),
        ]
    )
    func submittingThatFails(call: SystemCall, errno: Int32) throws {
        var failures = 0
        // A stream that begins makes its folders, and looks for others; one that has begun does not.
        for hasBegun in [false, true] {
            for skipped in 0..<8 {
                let world = try OutboxWorld()
                if call == .chmod { try Data().write(to: world.url) }
                let outbox = try world.outbox("s") { $0.durability = .machine }
                var acknowledged: [String] = []
                func submit(_ text: String) throws {
                    try outbox.submit(AddEntry(text: text))
                    acknowledged.append(#"{"text":"\#(text)"}"#)
                }
                if hasBegun { try submit("before") }
                do {
                    try System.withFaults([Fault(call, errno: errno, skipping: skipped, times: 1)]) {
                        try submit("\(skipped)")
                    }
                } catch let error as OutboxError {
                    failures += 1
                    if case .perhapsSubmitted = error {
                        // It is there; and would be there once when submitted again.
                        #expect([.fsync, .open].contains(call))
                        acknowledged.append(#"{"text":"\#(skipped)"}"#)
                    }
                }
                #expect(world.files("new").isEmpty)
                try submit("after")
                let contents = try CommandOutbox.contents(forDatabaseAt: world.url)
                #expect(contents.waiting.map { String(decoding: $0.payload, as: UTF8.self) } == acknowledged)
                #expect(contents.damaged.isEmpty && contents.unreadable.isEmpty)
            }
        }
        #expect(failures > 0)
    }

    /// When what follows the rename fails, the error says that it may be applied.
    @Test func aSubmissionThatMayBeApplied() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox { $0.durability = .machine }
        try outbox.submit(AddEntry(text: "1"))
        let id = UUID()
        let faults = [Fault(.fsync, errno: EIO, skipping: 1, times: 1)]
        System.withFaults(faults) {
            _ = #expect {
                try outbox.submit(AddEntry(text: "2"), id: id)
            } throws: { error in
                if case OutboxError.perhapsSubmitted(id, _, _) = error { true } else { false }
            }
        }
        try outbox.submit(AddEntry(text: "2"), id: id)
        let db = try world.open()
        try world.rounds(db, .entries())()
        #expect(try db.texts() == ["1", "2"])
    }

    /// Each call of a drain fails: nothing is lost or done twice.
    @Test(arguments: [SystemCall.open, .read, .opendir, .unlink, .rename, .fsync, .stat, .write])
    func drainingThatFails(call: SystemCall) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let drain = world.rounds(db, .entries())
        try drain()
        var expected: [String] = []
        for skipped in 0..<12 {
            let outbox = try world.outbox("s")
            for part in 0..<3 {
                let text = "\(skipped) \(part)"
                try outbox.submit(AddEntry(text: text))
                expected.append(text)
            }
            let submission = try outbox.submit(AddEntry(text: "\(skipped) last"))
            expected.append("\(skipped) last")
            #expect(try submission.outcome(within: .zero) == .waiting)
            System.withFaults([Fault(call, errno: EIO, skipping: skipped, times: 1)]) { _ = try? drain() }
            try drain()
            #expect(try db.texts() == expected)
            #expect(world.files().isEmpty && world.files("damaged").isEmpty && world.files("new").isEmpty)
            #expect(try submission.outcome(within: .zero) == .applied)
        }
    }

    @Test func noPermissionAndNoFolder() throws {
        let world = try OutboxWorld()
        let url = world.folder.file("none/db.sqlite")
        #expect(throws: OutboxError.file(path: world.folder.file("none").path, .folderMissing)) {
            try CommandOutbox(forDatabaseAt: url, as: "a")
        }
        let outbox = try world.outbox()
        System.withFaults([Fault(.mkdir, errno: EACCES)]) {
            _ = #expect {
                try outbox.submit(AddEntry(text: "a"))
            } throws: { error in
                if case OutboxError.file(_, .noPermission) = error { "\(error)".contains("permission") } else { false }
            }
        }
        _ = try world.open()
        #expect(chmod(world.url.path, 0o660) == 0)
        try outbox.submit(AddEntry(text: "a"))
        let status = try System.status(ofFileAt: world.commands.path)
        #expect(status.map { $0.st_mode & 0o777 } == 0o770)
    }

    @Test func whatTheDeadAndTheForgetfulHaveLeftIsRemoved() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try world.outbox().submit(AddEntry(text: "a"))
        let id = UUID().uuidString
        for (place, age) in [("answers/\(id)", 3700.0), ("questions/\(id)", 25 * 3600), ("answers/keep", 9000)] {
            let file = world.folder.file("db.sqlite-outbox/\(place)")
            try Data().write(to: file)
            let past = Date(timeIntervalSinceNow: -age)
            try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: file.path)
        }
        try world.rounds(db, .entries())()
        #expect(world.files("answers") == ["keep"])
        #expect(world.files("questions").isEmpty)
    }

    /// Any program can write any values to the tables. Readers and owners get errors, and no value ends a process.
    @Test(arguments: ["'x'", "x'ff'", "1e300", "-9223372036854775808", "9223372036854775807", "''"])
    func strangeValuesInTheTables(value: String) throws {
        for table in ["dead", "retries"] {
            // The world's folder is removed with it.
            let (world, db) = try deadLetter("later")
            let columns = try withExtendedLifetime(world) {
                try db.read { db in try db.columns(in: "roundtable_outbox_\(table)").map(\.name) }
            }
            for column in columns where column != "sequence" {
                let (world, db) = try deadLetter("later")
                try world.stranger { try $0.execute(sql: "UPDATE roundtable_outbox_\(table) SET \(column) = \(value)") }
                _ = try? db.outbox.deadLetters()
                _ = try? world.rounds(db, .entries())()
                try db.write { try $0.execute(sql: "INSERT INTO entry (text) VALUES ('b')") }
            }
        }
    }

    /// A database with a dead letter that is to be retried, and has failed again.
    private func deadLetter(_ text: String) throws -> (OutboxWorld, SharedDatabase) {
        let world = try OutboxWorld()
        let db = try world.open()
        var handlers = OutboxHandlers()
        handlers.retries.maximumAttempts = 1
        struct Failure: Error {}
        handlers.handle(AddEntry.self) { _, _ in throw Failure() }
        try world.outbox().submit(AddEntry(text: text))
        try world.rounds(db, handlers)()
        let id = try #require(try db.outbox.deadLetters().first).id
        try world.stranger { db in
            try db.execute(sql: "UPDATE roundtable_outbox_dead SET is_to_be_retried = 1")
            try db.execute(sql: "INSERT INTO roundtable_outbox_retries VALUES (?, 1, 1, 'e')", arguments: [id])
        }
        return (world, db)
    }

    @Test func anErrorSaysWhichValueIsStrange() throws {
        let (world, db) = try deadLetter("a")
        try world.stranger { try $0.execute(sql: "UPDATE roundtable_outbox_dead SET id = x'00'") }
        let error = try #require(throws: DatabaseError.self) { _ = try db.outbox.deadLetters() }
        #expect(error.resultCode == .SQLITE_CORRUPT)
        #expect(error.message?.contains("have a value in 'id' that Roundtable did not write") == true, "\(error)")
    }
}

extension OutboxWorld {
    fileprivate func stranger(_ body: (Database) throws -> Void) throws {
        try DatabaseQueue(path: url.path).inDatabase(body)
    }
}
