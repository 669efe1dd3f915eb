import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableFiles
@testable import RoundtableGate

/// An outbox that does not lie beside its database.
@Suite struct OutboxFolderTests {
    /// The database where senders may not look, and the folder where they may.
    private func place() throws -> (world: OutboxWorld, folder: URL) {
        let world = try OutboxWorld()
        return (world, world.folder.file("group/outbox"))
    }

    private func makeGroup(_ folder: URL) throws {
        try FileManager.default.createDirectory(
            at: folder.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
    }

    /// Where no process can share a database, no owner would apply what is submitted beside it. The sender gets the error that an owner would get.
    @Test func besideWhatIsNoDatabase() throws {
        let folder = try TemporaryFolder()
        let files = FileManager.default
        func error(_ url: URL) throws -> OutboxError? {
            #expect(throws: (any Error).self) {
                try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app").close()
            }
            return #expect(throws: OutboxError.self) { try CommandOutbox(forDatabaseAt: url, as: "widget") }
        }
        let web = URL(string: "https://example.com/db")!
        #expect(try error(web) == .databaseNotUsable(path: web.absoluteString, reason: "is not a file URL"))
        let reason = "is a folder, not a database file. Give the path of a file"
        #expect(try error(folder.url) == .databaseNotUsable(path: folder.url.path, reason: reason))
        let missing = folder.file("missing/db")
        #expect(try error(missing) == .file(path: System.resolvedPath(folder.url.path) + "/missing", .folderMissing))

        let (circle, first, second) = (folder.file("circle"), folder.file("first"), folder.file("second"))
        try files.createSymbolicLink(at: circle, withDestinationURL: circle)
        try Data().write(to: first)
        try files.linkItem(at: first, to: second)
        for url in [circle, first, second] {
            guard case .databaseNotUsable(url.path, let reason) = try error(url) else {
                Issue.record("an outbox beside \(url.path)")
                continue
            }
            #expect(reason.contains("symbolic link") || reason.contains("hard links"))
        }
        let long = folder.file(String(repeating: "a", count: 250) + "/" + String(repeating: "b", count: 250))
        try files.createDirectory(at: long.deletingLastPathComponent(), withIntermediateDirectories: true)
        guard case .databaseNotUsable(long.path, _) = try error(long) else {
            throw OutboxError.file(path: long.path, .folderMissing)
        }
        // A database that does not exist yet is none of these.
        #expect(try CommandOutbox(forDatabaseAt: folder.file("db"), as: "widget").path.hasSuffix("/db-outbox"))
    }

    @Test func senderAndOwnerMeetInAFolder() async throws {
        let (world, folder) = try place()
        try makeGroup(folder)
        let outbox = try CommandOutbox(at: folder, as: "widget")
        let submission = try await outbox.submit(AddEntry(text: "a"))
        #expect(try CommandOutbox.contents(at: folder).waiting.map(\.id) == [submission.id])
        let db = try world.open {
            $0.outbox = .entries()
            $0.outboxFolder = folder
        }
        #expect(try await submission.outcome(within: .seconds(20)) == .applied)
        let second = try await outbox.submit(AddEntry(text: "b"))
        #expect(try await second.outcome(within: .seconds(20)) == .applied)
        #expect(try await db.read { try String.fetchAll($0, sql: "SELECT text FROM entry") } == ["a", "b"])
        try await eventually("their files are removed") { try CommandOutbox.contents(at: folder).waiting.isEmpty }
        #expect(try System.status(ofFileAt: db.path + "-outbox") == nil)
        try db.close()
    }

    @Test func whatIsPerformedGoesToTheFolder() async throws {
        let (world, folder) = try place()
        try makeGroup(folder)
        let db = try world.open {
            $0.outboxFolder = folder
            $0.process = ProcessSuspension()
        }
        _ = await db.suspend(deadline: .now + .seconds(1))
        let performance = try await db.perform(AddEntry(text: "a"))
        #expect(!performance.isApplied)
        #expect(try CommandOutbox.contents(at: folder).waiting.count == 1)
        db.resume()
        #expect(try await db.outbox.contents().waiting.count == 1)
        let texts = try await onThread {
            Result { () -> [String] in
                try world.rounds(db, .entries())()
                return try db.texts()
            }
        }.get()
        #expect(texts == ["a"])
        #expect(try System.status(ofFileAt: db.path + "-outbox") == nil)
    }

    /// Whatever its name, a folder is one outbox: links lead to it, and so does the link of the database.
    @Test func oneFolderIsOneOutbox() throws {
        let (world, folder) = try place()
        try makeGroup(folder)
        let other = world.folder.file("link")
        #expect(symlink(folder.deletingLastPathComponent().path, other.path) == 0)
        let one = try CommandOutbox(at: folder, as: "a")
        #expect(
            try CommandOutbox(at: other.appendingPathComponent("outbox", isDirectory: true), as: "a").path == one.path
        )
        let db = try world.open()
        let beside = try CommandOutbox(at: URL(fileURLWithPath: db.path + "-outbox"), as: "a")
        #expect(beside.path == (try world.outbox()).path && beside.folder.databasePath == db.path)
        #expect(one.folder.databasePath == nil)
    }

    /// The permissions are those of the folder, if there is one. So is the group, where files get the group of their folder.
    @Test(arguments: [0o700, 0o755, 0o770, 0o2770] as [mode_t])
    func theFolderSaysWhichUsersMayUseIt(mode: mode_t) throws {
        let (world, folder) = try place()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        #expect(chmod(folder.path, mode) == 0)
        // The mode of the database does not matter.
        let db = try world.open { $0.outboxFolder = folder }
        #expect(chmod(db.path, 0o604) == 0)
        try CommandOutbox(at: folder, as: "widget").submit(AddEntry(text: "a"))
        let commands = try #require(try System.status(ofFileAt: folder.path + "/commands"))
        #expect(commands.st_mode & 0o7777 == mode)
        let waiting = try #require(try db.outbox.contents().waiting.first)
        let file = try #require(try System.status(ofFileAt: waiting.path))
        #expect(file.st_mode & 0o777 == mode & 0o666)
    }

    /// Rule X16: without a database, the folder above says which users may use a new outbox.
    @Test(
        arguments: [
            (0o2770, 0o2770), (0o770, 0o2770), (0o777, 0o2777), (0o755, 0o750), (0o700, 0o700), (0o1777, 0o750),
        ] as [(mode_t, mode_t)]
    )
    func anOutboxBeforeItsDatabase(above: mode_t, expected: mode_t) throws {
        let world = try OutboxWorld()
        #expect(chmod(world.folder.url.path, above) == 0)
        let mask = umask(0o027)
        defer { umask(mask) }
        try world.outbox().submit(AddEntry(text: "a"))
        func mode(_ url: URL) throws -> mode_t? { try System.status(ofFileAt: url.path).map { $0.st_mode & 0o7777 } }
        #expect(try mode(world.folder.file("db.sqlite-outbox")) == expected)
        for part in OutboxFolder.Part.allCases {
            #expect(try mode(world.folder.file("db.sqlite-outbox/\(part)")) == expected)
        }
        let name = try #require(world.files().first)
        #expect(try mode(world.commands.appendingPathComponent(name)) == expected & 0o666)
    }

    @Test func whereNoOutboxCanBe() throws {
        let (world, folder) = try place()
        let parent = folder.deletingLastPathComponent().path
        #expect(throws: OutboxError.file(path: parent, .folderMissing)) { try CommandOutbox(at: folder, as: "a") }
        #expect(throws: OutboxError.file(path: parent, .folderMissing)) { try world.open { $0.outboxFolder = folder } }
        let file = world.folder.file("file")
        try Data().write(to: file)
        let noFolder = OutboxError.folderNotUsable(path: file.path, reason: "it is not a folder")
        #expect(throws: noFolder) { try CommandOutbox(at: file, as: "a") }
        #expect(throws: noFolder) { try CommandOutbox.contents(at: file) }
        let circle = world.folder.file("circle")
        #expect(symlink(circle.path, circle.path) == 0)
        #expect(throws: OutboxError.self) { try CommandOutbox(at: circle, as: "a") }
        let web = try #require(URL(string: "https://example.com/outbox"))
        #expect(throws: OutboxError.self) { try CommandOutbox(at: web, as: "a") }
        let name = try CommandOutbox(at: world.folder.file("outbox"), as: "a").path
        #expect(try System.status(ofFileAt: name) == nil)
    }

    /// A program may submit before the one that makes the database has run for the first time; and a path may be wrong.
    @Test func anOutboxWithoutADatabase() async throws {
        let (world, folder) = try place()
        let outbox = try world.outbox()
        let submission = try await outbox.submit(AddEntry(text: "a"))
        let path = world.url.resolvingSymlinksInPath().path
        let missing = world.noDatabase
        #expect(try await submission.outcome(within: .zero) == missing)
        let isMissing = try await onThread { Result { try submission.outcome(within: .milliseconds(20)) == missing } }
            .get()
        #expect(isMissing)
        #expect(try await outbox.outcome(of: UUID(), within: .milliseconds(20)) == missing)
        #expect("\(missing)".contains("there is no database at \(path)") && "\(missing)".contains("handlers"))
        // Nothing was made of it.
        #expect(try System.status(ofFileAt: world.url.path) == nil)
        // The waiter is notified when the database has been created and the command applied.
        let outcome = Task { try await submission.outcome(within: .seconds(60)) }
        try await eventually("asked") { world.files("questions").count == 2 && world.files("answers").isEmpty }
        let db = try world.open { $0.outbox = .entries() }
        #expect(try await outcome.value == .applied)
        try db.close()
        // When no process has the database open, the sender waits for an owner.
        let later = try await outbox.submit(AddEntry(text: "b"))
        #expect(try await later.outcome(within: .zero) == .waiting)

        // Of a folder that the program has named, the database is not known, whatever the name looks like.
        try makeGroup(folder)
        for name in [folder, folder.deletingLastPathComponent().appendingPathComponent("x-outbox")] {
            let submission = try await CommandOutbox(at: name, as: "widget").submit(AddEntry(text: "a"))
            #expect(try await submission.outcome(within: .zero) == .waiting)
        }
    }

    /// Commands do not say which database they are for.
    @Test func twoDatabasesDoNotShareAFolder() throws {
        let (one, folder) = try place()
        let two = try OutboxWorld()
        try makeGroup(folder)
        let open = { (world: OutboxWorld) in
            try world.open {
                $0.outbox = .entries()
                $0.outboxFolder = folder
            }
        }
        let db = try open(one)
        let again = try open(one)
        #expect(throws: OutboxError.folderInUse(path: try CommandOutbox(at: folder, as: "a").path, database: db.path)) {
            try open(two)
        }
        let other = try two.open { $0.outboxFolder = folder }
        #expect(throws: OutboxError.self) { try other.outbox.drain(with: .entries()) }
        try other.close()
        try db.close()
        #expect(throws: OutboxError.self) { try open(two) }
        try again.close()
        try open(two).close()
    }

    @Test func aCancelledDrainGivesTheFolderBack() async throws {
        let (one, folder) = try place()
        let two = try OutboxWorld()
        try makeGroup(folder)
        let db = try one.open { $0.outboxFolder = folder }
        let other = try two.open { $0.outboxFolder = folder }
        let drains = try (0..<2).map { _ in try db.outbox.drain(with: .entries()) }
        drains[0].cancel()
        // There is another one.
        #expect(throws: OutboxError.self) { try other.outbox.drain(with: .entries()) }
        let outbox = try CommandOutbox(at: folder, as: "widget")
        _ = try await outbox.submit(AddEntry(text: "one"))
        try await eventually("applied") { try db.texts() == ["one"] }
        drains[1].cancel()
        // Its last round may run yet.
        try await eventually("the folder is free") { (try? other.outbox.drain(with: .entries())) != nil }
        _ = try await outbox.submit(AddEntry(text: "two"))
        try await eventually("applied") { try other.texts() == ["two"] }
        #expect(try db.texts() == ["one"])
        try db.close()
        try other.close()
    }

    #if os(Linux)
        /// Rule G5: a link to the database in the folder of its outbox, wherever that is.
        @Test(arguments: [true, false])
        func linksToTheDatabaseAreNotOpened(isSymbolic: Bool) throws {
            let (world, folder) = try place()
            try makeGroup(folder)
            let db = try world.open { $0.outboxFolder = folder }
            try CommandOutbox(at: folder, as: "widget").submit(AddEntry(text: "x"))
            let name = try #require(CommandFileName(sender: "evil", epoch: 1, stream: 1, number: 1))
            let path = folder.appendingPathComponent("commands/\(name)").path
            let target = db.path + "-shm"
            #expect((isSymbolic ? symlink(target, path) : link(target, path)) == 0)
            let contents = try db.outbox.contents()
            #expect(contents.damaged.count == 1 && contents.waiting.count == 1)
            try world.rounds(db, .entries())()
            #expect(try db.texts() == ["x"])
        }
    #endif
}
