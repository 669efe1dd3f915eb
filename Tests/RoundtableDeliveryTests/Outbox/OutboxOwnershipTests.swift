import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableDiagnostics
@testable import RoundtableFiles

/// Rule X15: which database owns which folder. Two databases of one folder, and two folders of one database, are reported. What was moved, copied,
/// or restored is neither.
@Suite struct OutboxOwnershipTests {
    private func open(_ url: URL, as author: String = "app", _ folder: URL? = nil) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.outboxFolder = folder
        return try SharedDatabase.open(at: url, schema: .unmanaged, as: author, options: options)
    }

    /// The events of an owner that starts, and has applied one command.
    private func reported(_ db: SharedDatabase) throws -> [String] {
        let events = Shared<[String]>([])
        try CommandOutbox(db.outboxFolder, as: "widget").submit(AddEntry(text: "x"))
        let report = try HandDrain(db, OutboxHandlers.entries().played(events: events))()
        #expect(report.applied == 1)
        return events.value
    }

    private func findings(_ db: SharedDatabase) throws -> [DatabaseDiagnosis.Finding] {
        let folder = URL(fileURLWithPath: db.outboxFolder.path)
        let url = URL(fileURLWithPath: db.path)
        return try DatabaseDiagnosis(ofDatabaseAt: url, outboxFolder: folder, checking: .none) {}.findings.filter {
            $0.topic == .sharedOutbox || $0.topic == .secondOutbox
        }
    }

    private func rows(_ db: SharedDatabase) throws -> [String] {
        try db.read { try String.fetchAll($0, sql: "SELECT path FROM roundtable_outbox_folders ORDER BY path") }
    }

    private func records(_ db: SharedDatabase) throws -> Int {
        try db.outboxFolder.names(in: .owners)?.count ?? 0
    }

    // MARK: Reported

    @Test func twoDatabasesOfOneFolder() throws {
        let (one, two) = (try OutboxWorld(), try OutboxWorld())
        let folder = one.folder.file("group")
        let first = try one.open(as: "first") { $0.outboxFolder = folder }
        let second = try two.open(as: "second") { $0.outboxFolder = folder }
        #expect(try reported(first).isEmpty && findings(first).isEmpty)
        #expect(try reported(first).isEmpty)
        #expect(try reported(second) == ["other database: \(first.path), of first"])
        #expect(try reported(first) == ["other database: \(second.path), of second"])
        let found = try #require(try findings(first).first)
        #expect(found.topic == .sharedOutbox && found.severity == .warning && found.location == first.outboxFolder.path)
        #expect(found.message.contains("applied to \(second.path), too, by 'second'"), "\(found.message)")
        // The record is a claim: it is named with its owner, and no file that it names is to be removed.
        let status = try DatabaseStatus(ofDatabaseAt: one.url, outboxFolder: folder)
        let record = try #require(status.outbox?.otherDatabases.first?.record)
        #expect(record.path.hasPrefix("\(first.outboxFolder.path)/owners/") && record.owner?.user == geteuid())
        #expect(
            found.message.contains("It is \(record.path), a file of ") && found.message.contains("uid \(geteuid())")
        )
        #expect(found.advice.contains("outboxFolder") && found.advice.contains("remove \(record.path.shellQuotedPath)"))
        #expect(!found.advice.contains(second.path), "\(found.advice)")
        #expect(try findings(second).map(\.topic) == [.sharedOutbox])
        #expect(status.outbox?.otherDatabases.map(\.path) == [second.path])
        #expect(status.outbox?.otherDatabases.map(\.owner) == ["second"])
        // A database that is abandoned.
        try second.close()
        try FileManager.default.removeItem(at: two.url)
        #expect(try findings(first).isEmpty)
        #expect(try reported(first).isEmpty && records(first) == 1)
    }

    @Test func twoFoldersOfOneDatabase() throws {
        let world = try OutboxWorld()
        let group = world.folder.file("group")
        let first = try world.open(as: "first")
        let second = try world.open(as: "second") { $0.outboxFolder = group }
        #expect(try reported(first).isEmpty && findings(first).isEmpty)
        // The folder is only looked at: no database owns it yet.
        try FileManager.default.createDirectory(
            at: group.appendingPathComponent("commands"),
            withIntermediateDirectories: true
        )
        #expect(try findings(second).isEmpty)
        #expect(try reported(second) == ["other folder: \(first.outboxFolder.path), of first"])
        #expect(try reported(first) == ["other folder: \(second.outboxFolder.path), of second"])
        var found = try #require(try findings(first).first)
        #expect(found.topic == .secondOutbox && found.severity == .notice && found.location == second.outboxFolder.path)
        #expect(
            found.message.contains("by 'second'") && found.message.contains("There, nothing waits."),
            "\(found.message)"
        )
        try CommandOutbox(at: group, as: "widget").submit(AddEntry(text: "y"))
        found = try #require(try findings(first).first)
        #expect(found.severity == .warning && found.message.contains("There, 1 command waits."), "\(found.message)")
        #expect(found.advice.contains("--folder \(second.outboxFolder.path.shellQuoted)"), "\(found.advice)")
        // A folder that is abandoned.
        try FileManager.default.removeItem(at: group)
        #expect(try findings(first).isEmpty)
        #expect(try reported(first).isEmpty && rows(first) == [first.outboxFolder.path])
    }

    /// **Rule X14**: a participant that has died applies no commands, although its slot still shows the folder.
    @Test func aDeadParticipantIsNoOwner() throws {
        let world = try OutboxWorld()
        let db = try world.open(as: "app") { _ in }
        try CommandOutbox(db.outboxFolder, as: "widget").submit(AddEntry(text: "x"))
        let commands = try #require(try System.identity(ofFileAt: db.outboxFolder.path(of: .commands)))
        var participants = try DatabaseStatus(ofDatabaseAt: world.url).participants
        func owners() throws -> [String?]? { try OutboxStatus(db.outboxFolder, nil, participants)?.owners?.map(\.name) }
        #expect(try owners() == [])
        participants[0].commandsFolder = commands.inode
        #expect(try owners() == ["app"])
        participants[0].liveness = .dead
        #expect(try owners() == [])
    }

    /// Of several commands, the one that has waited for longest counts.
    @Test func theOldestCommand() throws {
        let world = try OutboxWorld()
        let db = try world.open(as: "app") { _ in }
        for text in ["x", "y", "z"] { try CommandOutbox(db.outboxFolder, as: "widget").submit(AddEntry(text: text)) }
        let names = try #require(try db.outboxFolder.names(in: .commands))
        for (age, name) in zip([10.0, 500, 20], names) {
            let path = "\(db.outboxFolder.path(of: .commands))/\(name)"
            let date = Date(timeIntervalSinceNow: -age)
            try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: path)
        }
        let status = try #require(try OutboxStatus(db.outboxFolder, nil, []))
        #expect(status.waiting == 3)
        #expect(try abs(#require(status.longestWait()) / .seconds(1) - 500) < 60)
    }

    /// A record that was rolled back with the first batch is made with the next one.
    @Test func afterABatchThatFailed() throws {
        struct Failure: Error {}
        let world = try OutboxWorld()
        let db = try world.open(as: "app") { _ in }
        try CommandOutbox(db.outboxFolder, as: "widget").submit(AddEntry(text: "x"))
        let recorder = OutboxOwnershipRecorder(db.outboxFolder, author: "app")
        #expect(try recorder.findOthers(db).isEmpty)
        #expect(throws: Failure.self) {
            try db.write { db in
                try recorder.record(db)
                throw Failure()
            }
        }
        try db.write { try recorder.record($0) }
        recorder.hasCommitted()
        #expect(try rows(db) == [db.outboxFolder.path])
    }

    /// When a copy of the database has the same folder, the table does not show that; the folder does.
    @Test func aCopyWithTheSameFolder() throws {
        let world = try OutboxWorld()
        let group = world.folder.file("group")
        let db = try world.open { $0.outboxFolder = group }
        #expect(try reported(db).isEmpty)
        try db.close()
        let url = world.folder.file("copy.sqlite")
        try FileManager.default.copyItem(at: world.url, to: url)
        let copy = try open(url, as: "copy", group)
        #expect(try reported(copy) == ["other database: \(db.path), of app"])
        #expect(try rows(copy) == [copy.outboxFolder.path])
    }

    // MARK: Not reported

    /// A table that is not as we create it shows nothing, and prevents no command from being applied.
    @Test(arguments: [
        "UPDATE roundtable_outbox_folders SET database_inode = 'abc'",
        "UPDATE roundtable_outbox_folders SET inode = 1e300, owner = x'ff'",
        "ALTER TABLE roundtable_outbox_folders DROP COLUMN owner",
        "ALTER TABLE roundtable_outbox_folders ADD COLUMN more; DELETE FROM roundtable_outbox_folders",
        "DROP TABLE roundtable_outbox_folders; CREATE VIEW roundtable_outbox_folders AS SELECT * FROM absent",
        "DROP TABLE roundtable_outbox_folders; CREATE INDEX roundtable_outbox_folders ON entry (text)",
    ])
    func strayTables(sql: String) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        #expect(try reported(db).isEmpty)
        try db.write { try $0.execute(sql: sql) }
        #expect(try reported(db).isEmpty && findings(db).isEmpty)
    }

    /// Both of them, as containers of apps are, or the database alone, or the folder alone.
    /// (A copy of one of them alone leaves two that share the other, which is reported.)
    @Test(
        arguments: [
            ("db.sqlite db.sqlite-outbox", true), ("db.sqlite db.sqlite-outbox", false), ("db.sqlite", true),
            ("group", true),
        ]
    )
    func movedOrCopied(files: String, isMoved: Bool) throws {
        let world = try OutboxWorld()
        let hasOwnFolder = !files.contains("-outbox")
        let group = world.folder.file("group")
        let db = try world.open { $0.outboxFolder = hasOwnFolder ? group : nil }
        #expect(try reported(db).isEmpty)
        try db.close()
        let place = world.folder.file("moved")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        for name in files.split(separator: " ").map(String.init) {
            let (old, new) = (world.folder.file(name), place.appendingPathComponent(name))
            if isMoved {
                try FileManager.default.moveItem(at: old, to: new)
            } else {
                try FileManager.default.copyItem(at: old, to: new)
            }
        }
        let url = files.contains("db.sqlite") ? place.appendingPathComponent("db.sqlite") : world.url
        let folder = files == "group" ? place.appendingPathComponent("group") : hasOwnFolder ? group : nil
        let moved = try open(url, folder)
        #expect(try findings(moved).isEmpty)
        #expect(try reported(moved).isEmpty && findings(moved).isEmpty)
        #expect(try rows(moved) == [moved.outboxFolder.path] && records(moved) == 1)
    }

    /// The database is restored from a backup, or recreated, in its place.
    @Test(arguments: [true, false])
    func restored(isRecreated: Bool) throws {
        let world = try OutboxWorld()
        let db = try world.open()
        #expect(try reported(db).isEmpty)
        try db.close()
        let backup = world.folder.file("backup")
        try FileManager.default.copyItem(at: world.url, to: backup)
        try FileManager.default.removeItem(at: world.url)
        if !isRecreated { try FileManager.default.moveItem(at: backup, to: world.url) }
        let restored = try world.open()
        #expect(try reported(restored).isEmpty && findings(restored).isEmpty)
        #expect(try records(restored) == 1)
    }

    // MARK: Records

    /// What prevents an owner from leaving a record does not prevent it from applying commands.
    @Test func whereNoRecordCanBeLeft() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        #expect(try reported(db).isEmpty)
        let folder = try #require(try db.outboxFolder.names(in: .owners)).first
        let path = "\(db.outboxFolder.path(of: .owners))/\(try #require(folder))"
        try System.removeFile(at: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        #expect(try reported(db).isEmpty && findings(db).isEmpty)
        #expect(world.files("new").isEmpty)
        // It still looks, and reports once.
        let other = try OutboxWorld()
        let second = try other.open(as: "second") { $0.outboxFolder = URL(fileURLWithPath: db.outboxFolder.path) }
        defer { try? second.close() }
        #expect(try reported(second).isEmpty)
        let events = Shared<[String]>([])
        let drain = HandDrain(db, OutboxHandlers.entries().played(events: events))
        for text in ["a", "b"] {
            try world.outbox().submit(AddEntry(text: text))
            #expect(try drain().applied == 1)
        }
        #expect(events.value == ["other database: \(second.path), of second"])
        #expect(other.files().isEmpty)
    }

    @Test func damagedRecords() throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let folder = world.folder.file("x").path
        let identity = try #require(try System.identity(ofFileAt: db.path))
        let place = OutboxOwnership.Place(path: db.path, identity: identity)
        let whole = OutboxOwnership(
            database: place,
            folder: .init(path: folder, identity: FileIdentity(device: .max, inode: .max)),
            owner: "größe"
        )
        let bytes = whole.bytes
        #expect(OutboxOwnership(bytes) == whole)
        for count in 0..<bytes.count { #expect(OutboxOwnership(Array(bytes[..<count])) == nil) }
        for bit in 0..<bytes.count * 8 {
            var damaged = bytes
            damaged[bit / 8] ^= 1 << (bit % 8)
            #expect(OutboxOwnership(damaged) == nil, "bit \(bit)")
        }
    }
}
