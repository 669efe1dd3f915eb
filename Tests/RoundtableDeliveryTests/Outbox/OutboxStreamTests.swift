import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles

/// Streams and the names of their files (rules X1, X3, X9, X12).
@Suite struct OutboxStreamTests {
    @Test func outboxesOfOneNameAreOneStream() throws {
        let world = try OutboxWorld()
        let (one, two) = (try world.outbox(), try world.outbox())
        for number in 0..<10 { try [one, two][number % 2].submit(AddEntry(text: "\(number)")) }
        let db = try world.open()
        try world.rounds(db, .entries())()
        #expect(try db.texts() == (0..<10).map(String.init))
    }

    /// As a child of `fork` would, which has the same stream: nothing is replaced.
    @Test func aNameThatIsTakenIsLeftAlone() throws {
        let world = try OutboxWorld()
        let outbox = try world.outbox()
        try outbox.submit(AddEntry(text: "a"))
        let first = try #require(world.files().first)
        let next = first.replacingOccurrences(of: "000000000001.command", with: "000000000002.command")
        let taken = world.commands.appendingPathComponent(next)
        try Data("taken".utf8).write(to: taken)
        try outbox.submit(AddEntry(text: "b"))
        #expect(try Data(contentsOf: taken) == Data("taken".utf8))
        #expect(world.files().count == 3 && world.files("new").isEmpty)
    }

    /// Names that are not those of commands take up no room, keep no ids, and change no order.
    @Test func otherNamesAreIgnored() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try world.outbox().submit(AddEntry(text: "0"))
        let old = try #require(world.files().first)
        let last = try #require(CommandFileName(sender: "widget", epoch: 8_999_999_999, stream: 0, number: 1))
        #expect(CommandFileName(sender: "widget", epoch: 9_999_999_999, stream: 0, number: 1) == nil)
        let name = "\(last)".replacingOccurrences(of: "8999999999", with: "9999999999")
        try FileManager.default.moveItem(
            at: world.commands.appendingPathComponent(old),
            to: world.commands.appendingPathComponent(name)
        )
        for number in 0..<5 { try Data().write(to: world.commands.appendingPathComponent("junk\(number)")) }
        for number in 1...3 {
            try world.outbox { $0.maximumCount = 3 }.submit(AddEntry(text: "\(number)"))
        }
        try world.rounds(db, .entries())()
        #expect(try db.texts() == ["1", "2", "3"])
        try world.rounds(db, OutboxHandlers.entries().played(Shared(Date() + 31 * 24 * 3600)))()
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM roundtable_outbox_applied") } == 0)
    }

    @Test func whatCannotBeSubmittedIsNotPerformed() throws {
        struct Long: OutboxCommand {
            static let name = String(repeating: "n", count: 300)
            static let version = 1
        }
        let world = try OutboxWorld()
        var handlers = OutboxHandlers.entries()
        handlers.handle(Long.self) { _, _ in }
        let db = try world.open { [handlers] in $0.outbox = handlers }
        defer { try? db.close() }
        #expect(throws: OutboxError.self) { try db.perform(Long()) }
        #expect(throws: OutboxError.self) {
            try db.perform(AddEntry(text: String(repeating: "x", count: 2 << 20)))
        }
        #expect(try db.texts().isEmpty)
    }

    /// The folder above belongs to another user, who lets others pass (0711): it cannot be synced, and need not be.
    @Test(arguments: [EACCES, EPERM, EIO])
    func theFolderAboveCannotBeRead(errno: Int32) throws {
        let world = try OutboxWorld()
        // Before it is synced, the folder above is opened to make the outbox; and the outbox, to make what is in it, and to be synced, once by
        // its path and once to be read. The process that makes it opens each folder three times, to look into it and to set its permissions, and
        // reads the folder around it, to clean up.
        let (own, making) = (4, 4 * (1 + OutboxFolder.Part.allCases.count))
        func submit(as sender: String, making: Int = 0) throws {
            let faults = [Fault(.open, errno: errno, skipping: own + making, times: 1)]
            let outbox = try world.outbox(sender) { $0.durability = .machine }
            try System.withFaults(faults) { _ = try outbox.submit(AddEntry(text: sender)) }
        }
        // The process that makes the outbox has to be able to.
        let error = #expect(throws: OutboxError.self) { try submit(as: "first", making: making) }
        #expect(
            "\(try #require(error))".hasPrefix(world.folder.url.path + ": "),
            "the wrong call has failed: \(error!)"
        )
        #expect(world.files().isEmpty)
        if errno == EIO {
            #expect(throws: OutboxError.self) { try submit(as: "second") }
        } else {
            try submit(as: "second")
        }
        #expect(world.files().count == (errno == EIO ? 0 : 1))
    }

    // MARK: What lies there

    private func place(_ bytes: [UInt8], _ world: OutboxWorld) throws -> URL {
        try world.outbox().submit(AddEntry(text: "first"))
        let name = try #require(CommandFileName(sender: "copied", epoch: 1, stream: 1, number: 1))
        let file = world.commands.appendingPathComponent("\(name)")
        try Data(bytes).write(to: file)
        return file
    }

    private func command(time: UInt64 = 1, version: Int = 1) throws -> CommandFile {
        CommandFile(
            id: UUID(),
            kind: OutboxCommandKind(name: "add-entry", version: version),
            sender: "copied",
            time: time,
            payload: try AddEntry(text: "copied").encoded()
        )
    }

    /// `cp` writes a file in its place.
    @Test(arguments: [0, 60, 130])
    func aCommandThatIsBeingCopiedIsWaitedFor(length: Int) throws {
        let world = try OutboxWorld()
        let bytes = try command().bytes
        let file = try place(Array(bytes.prefix(length)), world)
        let db = try world.open()
        let clock = Shared(Date())
        let drain = world.rounds(db, OutboxHandlers.entries().played(clock))
        let report = try drain()
        #expect(report.damaged == 0 && report.nextTry != nil)
        #expect(try db.texts() == ["first"])
        try Data(bytes).write(to: file)
        #expect(try drain().applied == 1)
        // Not for ever.
        try Data(bytes.prefix(length)).write(to: file)
        clock.change { $0 += 20 }
        #expect(try drain().damaged == 1)
    }

    @Test func whatIsWholeAmongTheDamagedIsCalledSo() throws {
        let world = try OutboxWorld()
        let file = try place(try command().bytes, world)
        let moved = world.folder.file("db.sqlite-outbox/damaged/\(file.lastPathComponent)")
        try FileManager.default.moveItem(at: file, to: moved)
        let damaged = try CommandOutbox.contents(forDatabaseAt: world.url).damaged
        #expect(damaged.values.first?.hasPrefix("now whole") == true, "\(damaged)")
    }

    /// A time that no date has.
    @Test func anImpossibleTimeDoesNoHarm() throws {
        let world = try OutboxWorld()
        _ = try place(try command(time: .max, version: 7).bytes, world)
        let db = try world.open()
        let drain = world.rounds(db, .entries())
        #expect(try drain().setAside == 1)
        try db.outbox.retry(try #require(try db.outbox.deadLetters().first).id)
        try drain()
        #expect(try db.outbox.deadLetters().count == 1)
    }

    /// A hole of 200 MB takes no memory: the header is looked at first.
    @Test func aLargeFileIsJudgedByItsHeader() throws {
        let world = try OutboxWorld()
        let file = try place([UInt8](repeating: 7, count: 200), world)
        #expect(truncate(file.path, 200 << 20) == 0)
        let name = try #require(CommandFileName(file.lastPathComponent))
        // A process that reads further fails.
        let content = try System.withFaults([Fault(.read, errno: EIO, skipping: 1)]) {
            try CommandFile.read(name, in: OpenFolder(at: world.commands.path), notOf: world.url.path)
        }
        guard case .damaged? = content else { return #expect(Bool(false), "\(String(describing: content))") }
        // Also where it was moved to, and one that is whole but for its size.
        let moved = world.folder.file("db.sqlite-outbox/damaged")
        try FileManager.default.moveItem(at: file, to: moved.appendingPathComponent(file.lastPathComponent))
        let long = moved.appendingPathComponent("long")
        try Data(try command().bytes).write(to: long)
        #expect(truncate(long.path, 200 << 20) == 0)
        // Two reads of the command that waits, one of each of these.
        let damaged = try System.withFaults([Fault(.read, errno: EIO, skipping: 4)]) {
            try CommandOutbox.contents(forDatabaseAt: world.url).damaged
        }
        #expect(damaged.count == 2 && !damaged.values.contains("it cannot be read"), "\(damaged)")
    }
}
