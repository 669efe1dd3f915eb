import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableDiagnostics
@testable import RoundtableFiles

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Symbolic links in the places of an outbox's folders lead nowhere (rule G5): what lies where they lead is not read, written or removed.
@Suite struct OutboxLinkTests {
    /// A folder outside, with all that an outbox would remove, apply or replace if it were its own.
    private struct Outside {
        let url: URL
        let before: [String: String]

        init(_ world: OutboxWorld) throws {
            url = world.folder.file("outside")
            let source = try OutboxWorld()
            let owner = try source.open()
            // An answer and a question that are old, and what a dead process has left.
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
            let process = try Process.run(URL(fileURLWithPath: "/bin/sh"), arguments: ["-c", "exit"])
            process.waitUntilExit()
            let dead = process.processIdentifier
            let abandoned = "outbox.\(dead)-1-\(ProcessIdentity.current.namespace)-1-1.new"
            for name in [UUID().uuidString, UUID().uuidString, abandoned, "other"] {
                try Data(name.utf8).write(to: url.appendingPathComponent(name))
            }
            // A command; and one that is damaged, under a name that it has in the outbox, too.
            try source.outbox("outside").submit(AddEntry(text: "outside"))
            let name = try #require(source.files().first)
            let bytes = try Data(contentsOf: source.commands.appendingPathComponent(name))
            try bytes.write(to: url.appendingPathComponent(name))
            try bytes.dropLast().write(to: url.appendingPathComponent(OutboxLinkTests.damaged))
            try owner.close()
            for name in try FileManager.default.contentsOfDirectory(atPath: url.path) {
                let past = Date(timeIntervalSinceNow: -2 * 24 * 3600)
                try FileManager.default.setAttributes(
                    [.modificationDate: past],
                    ofItemAtPath: url.appendingPathComponent(name).path
                )
            }
            before = try Self.state(of: url)
        }

        /// Names, contents and permissions, of the folder itself, too.
        static func state(of url: URL) throws -> [String: String] {
            var state: [String: String] = [:]
            for name in try FileManager.default.subpathsOfDirectory(atPath: url.path) + ["."] {
                let path = url.appendingPathComponent(name).path
                let status = try #require(try System.statusOfLink(at: path))
                let bytes = status.isFolder ? nil : FileManager.default.contents(atPath: path)
                state[name] =
                    "\(status.st_mode) \(status.st_uid) \(status.st_ino) \(bytes?.base64EncodedString() ?? "")"
            }
            return state
        }

        func expectNoChange(_ comment: Comment) throws { #expect(try Self.state(of: url) == before, comment) }
    }

    private static let damaged = "evil.0000000001.00000001.000000000001.command"

    /// Uses the outbox as a sender, then as an owner, then as a tool that maintains it. Errors are ignored or returned.
    ///
    /// - returns: the error of the submission, and that of the owner.
    private func useAll(_ world: OutboxWorld, _ db: SharedDatabase, _ events: Shared<[String]>) -> [any Error] {
        var errors: [any Error] = []
        do { try submit(world) } catch { errors.append(error) }
        let rounds = world.rounds(db, OutboxHandlers.entries().played(events: events))
        do { try rounds() } catch { errors.append(error) }
        _ = try? db.outbox.contents()
        if let files = try? OutboxFiles(forDatabaseAt: world.url) {
            _ = try? files.foreignNames()
            let path = world.commands.deletingLastPathComponent().path
            for part in ["commands", "damaged"] {
                let file = files.file(at: "\(path)/\(part)/\(Self.damaged)", reason: "")
                _ = try? files.takeBack(file)
                _ = try? files.remove(file)
            }
        }
        return errors
    }

    private func submit(_ world: OutboxWorld) throws {
        let submission = try world.outbox { $0.durability = .machine }.submit(AddEntry(text: "a"))
        _ = try? submission.outcome(within: .zero)
    }

    private func putLink(_ world: OutboxWorld, _ part: String, to target: URL) throws {
        let path = world.folder.file("db.sqlite-outbox/\(part)").path
        try FileManager.default.moveItem(atPath: path, toPath: world.folder.file("aside-\(UUID().uuidString)").path)
        #expect(symlink(target.path, path) == 0)
    }

    @Test(arguments: ["commands", "new", "questions", "answers", "damaged", "owners"])
    func noFolderIsALink(part: String) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        try submit(world)
        let outside = try Outside(world)
        try Data("torn".utf8).write(to: world.commands.appendingPathComponent(Self.damaged))
        try putLink(world, part, to: outside.url)
        let events = Shared<[String]>([])
        let errors = useAll(world, db, events)
        try outside.expectNoChange("\(part)")
        // The process that cannot continue says where.
        let path = world.folder.file("db.sqlite-outbox/\(part)").path
        let expected = OutboxError.folderNotUsable(path: path, reason: "it is a symbolic link, which is not followed")
        if ["commands", "new"].contains(part) {
            #expect(errors.contains { $0 as? OutboxError == expected }, "\(errors)")
        }
        let seen = errors.map { "\($0)" } + events.value
        if part != "owners" { #expect(seen.contains { $0.contains(path) && $0.contains("symbolic link") }, "\(seen)") }
        #expect(try db.texts().allSatisfy { $0 == "a" })
    }

    /// The name of the folder beside a database is not the program's: nothing that has it is followed.
    @Test func theOutboxBesideADatabaseIsNoLink() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let outside = try Outside(world)
        let path = world.folder.file("db.sqlite-outbox").path
        #expect(symlink(outside.url.path, path) == 0)
        let expected = OutboxError.folderNotUsable(path: path, reason: "it is a symbolic link, which is not followed")
        #expect(throws: expected) { try world.outbox().submit(AddEntry(text: "a")) }
        #expect(throws: expected) { try db.outbox.contents() }
        #expect(throws: expected) { try world.rounds(db, .entries())() }
        #expect(throws: expected) { try world.outbox().outcome(of: UUID(), within: .zero) }
        try outside.expectNoChange("beside")
    }

    /// The program has chosen the path. It is resolved once: what is put there later is not followed.
    @Test func aLinkThatTheProgramNamesIsResolvedOnce() throws {
        let world = try OutboxWorld()
        let (folder, link) = (world.folder.file("box"), world.folder.file("link"))
        #expect(symlink(folder.path, link.path) == 0)
        let outbox = try CommandOutbox(at: link, as: "widget")
        try outbox.submit(AddEntry(text: "a"))
        #expect(try CommandOutbox.contents(at: folder).waiting.count == 1)
        let outside = try Outside(world)
        try FileManager.default.moveItem(at: folder, to: world.folder.file("aside"))
        #expect(symlink(outside.url.path, folder.path) == 0)
        let expected = OutboxError.folderNotUsable(
            path: outbox.path,
            reason: "it is a symbolic link, which is not followed"
        )
        #expect(throws: expected) { try outbox.submit(AddEntry(text: "b")) }
        try outside.expectNoChange("later")
    }

    ///     the sender, the owner           another
    ///     a system call
    ///                                     puts a link in the place of a folder
    ///     the next
    ///
    /// Before each call in turn, each folder in turn, and the outbox itself.
    @Test(.long(), arguments: ["commands", "new", "questions", "answers", "damaged", "owners", ""])
    func noFolderBecomesALink(part: String) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let outside = try Outside(world)
        if part.isEmpty { try makeParts(outside) }
        let before = try Outside.state(of: outside.url)
        var calls = Int.max
        var call = 0
        while call < calls {
            try? FileManager.default.removeItem(at: world.folder.file("db.sqlite-outbox"))
            // Each step is begun with an outbox that is there.
            try submit(world)
            try Data("torn".utf8).write(to: world.commands.appendingPathComponent(Self.damaged))
            let counter = Shared(0)
            System.withInterposed { [call] _ in
                counter.change { $0 += 1 }
                guard counter.value == call + 1 else { return }
                #expect(throws: Never.self) { try self.putLink(world, part, to: outside.url) }
            } _: {
                _ = useAll(world, db, Shared([]))
            }
            #expect(try Outside.state(of: outside.url) == before, "before call \(call + 1)")
            calls = counter.value
            // The first calls, in which all folders are made and opened; then some of them.
            call += call < 24 ? 1 : 7
        }
        #expect(calls > 60, "\(calls) calls")
        #expect(try db.texts().allSatisfy { $0 == "a" })
    }

    /// What would be taken for an outbox.
    private func makeParts(_ outside: Outside) throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: outside.url.path)
        for part in OutboxFolder.Part.allCases {
            let folder = outside.url.appendingPathComponent(part.rawValue)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            for name in names {
                try FileManager.default.copyItem(
                    at: outside.url.appendingPathComponent(name),
                    to: folder.appendingPathComponent(name)
                )
            }
        }
    }

    /// A folder that is made while this process looks for it is no link.
    @Test func aFolderThatIsMadeMeanwhile() throws {
        var calls = Int.max
        var call = 0
        while call < calls {
            let world = try OutboxWorld()
            let folder = world.folder.file("outbox")
            let counter = Shared(0)
            let path = try System.withInterposed { [call] _ in
                counter.change { $0 += 1 }
                guard counter.value == call + 1 else { return }
                #expect(mkdir(folder.path, 0o755) == 0)
            } _: {
                try CommandOutbox(at: folder, as: "a").path
            }
            #expect(path.hasSuffix("/outbox"), "before call \(call + 1)")
            calls = counter.value
            call += 1
        }
        #expect(calls >= 2)
    }
}
