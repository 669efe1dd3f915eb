import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate
@testable import RoundtableKernel

/// **Rules S15**: the content of another file replaces that of a database that is in use.
@Suite(.timeLimit(.minutes(1))) struct ReplacementTests {
    private let folder: TemporaryFolder
    private let url: URL
    private let source: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
        source = folder.file("backup.sqlite")
    }

    private func open(
        _ author: String = "test",
        version: Int = 1,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(
            at: url,
            schema: SharedSchema(migrator(upTo: version)),
            as: author,
            options: options
        )
    }

    /// A database of this program lies in a file by itself.
    private func makeSource(
        _ names: [String],
        version: Int = 1,
        before: String = "",
        after: String = ""
    ) throws {
        let queue = try DatabaseQueue(path: source.path)
        try queue.writeWithoutTransaction { try $0.execute(sql: before) }
        try migrator(upTo: version).migrate(queue)
        try queue.write { db in for name in names { _ = try Player(name: name).inserted(db) } }
        try queue.writeWithoutTransaction { try $0.execute(sql: after) }
        try queue.close()
    }

    private func names(_ db: some DatabaseReader) throws -> [String] {
        try db.read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
    }

    /// Readers and writers of two participants, with their cached statements, see the content afterwards; a snapshot stays at its moment.
    @Test(arguments: [false, true]) func allParticipantsContinue(blocking: Bool) async throws {
        let (first, second) = (try open("first"), try open("second"))
        try await first.write { db in for name in ["A", "B"] { _ = try Player(name: name).inserted(db) } }
        #expect(try names(second) == ["A", "B"])
        let snapshot = try await second.makeSnapshot()
        #expect(try await snapshot.read { try Player.fetchCount($0) } == 2)
        // A table of another shape, and another number of pages.
        try makeSource(["X", "Y", "Z"], after: "CREATE TABLE more (a); INSERT INTO more SELECT hex(zeroblob(100000))")
        let counter = try #require(first.commitCounter)
        if blocking {
            try first.blockingReplaceContent(with: source)
        } else {
            try await first.replaceContent(with: source)
        }
        #expect(first.commitCounter == counter &+ 1)
        var expected = ["X", "Y", "Z"]
        for db in [first, second] {
            #expect(try names(db) == expected)
            expected.append("new")
            try await db.write { db in _ = try Player(name: "new").inserted(db) }
            #expect(try db.text("SELECT length(a) FROM more") == "200000")
        }
        #expect(try await snapshot.read { try Player.fetchCount($0) } == 2)
        #expect(try first.text("PRAGMA integrity_check") == "ok")
        #expect(try first.text("PRAGMA journal_mode") == "wal")
        try second.close()
        try first.close()
        // The source is what it was.
        #expect(try names(DatabaseQueue(path: source.path)) == ["X", "Y", "Z"])
    }

    /// The commits of the source are in its -wal file, with and without its -shm file, and while it is in use.
    @Test(arguments: ["in use", "copied", "copied without -shm"]) func sourceInWALMode(how: String) async throws {
        let db = try open()
        let other = folder.file("other.sqlite")
        let live = try DatabasePool(path: other.path)
        try await live.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        try migrator().migrate(live)
        try await live.write { db in _ = try Player(name: "in the WAL").inserted(db) }
        var given = other
        if how != "in use" {
            given = source
            for suffix in how == "copied" ? ["", "-wal", "-shm"] : ["", "-wal"] {
                // Another process reads the files for the copy, because closing them in this process would drop SQLite's locks.
                let copy = Process()
                copy.executableURL = URL(fileURLWithPath: "/bin/cp")
                copy.arguments = [other.path + suffix, source.path + suffix]
                try copy.run()
                copy.waitUntilExit()
            }
        }
        try await db.replaceContent(with: given)
        #expect(try names(db) == ["in the WAL"])
        try live.close()
    }

    /// A source in WAL mode that no process has open stays one file with the same bytes.
    @Test func nothingIsLeftBesideTheSource() async throws {
        let db = try open()
        try makeSource(["A"], after: "PRAGMA journal_mode = WAL")
        func files() throws -> Set<String> {
            Set(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).filter { $0.hasPrefix("backup") })
        }
        let bytes = try Data(contentsOf: source)
        try #require(try DatabaseHeader(databasePath: source.path)?.isWAL == true && files() == ["backup.sqlite"])
        try await db.replaceContent(with: source)
        #expect(try names(db) == ["A"])
        #expect(try files() == ["backup.sqlite"])
        #expect(try Data(contentsOf: source) == bytes)
        // A reader needs these files, even if they are empty, so existing ones stay.
        try Data().write(to: URL(fileURLWithPath: source.path + "-wal"))
        try await db.replaceContent(with: source)
        #expect(try files() == ["backup.sqlite", "backup.sqlite-wal", "backup.sqlite-shm"])
        try db.close()
    }

    /// Observers of both kinds, in the participant that replaces and in another, are notified, and of anything.
    @Test func observersAreNotified() async throws {
        let (first, second) = (try open("first"), try open("second"))
        try await first.write { db in _ = try Player(name: "A").inserted(db) }
        try makeSource(["X", "Y"])
        var observations: [AnyDatabaseCancellable] = []
        var values: [Shared<Int>] = []
        var changes: [Task<DatabaseChange.Tables?, any Error>] = []
        for db in [first, second] {
            let value = Shared(0)
            observations.append(
                ValueObservation.tracking(Player.fetchCount).start(
                    in: db,
                    scheduling: .async(onQueue: DispatchQueue(label: "values")),
                    onError: { _ in },
                    onChange: { count in value.change { $0 = count } }
                )
            )
            values.append(value)
            let sequence = db.changes()
            changes.append(
                Task {
                    for try await change in sequence { return change.tables }; return nil
                }
            )
        }
        for value in values { try await eventually("the observation has begun") { value.value == 1 } }
        try await first.replaceContent(with: source)
        for value in values { try await eventually("the observation is notified") { value.value == 2 } }
        for change in changes { #expect(try await change.value == .fullDatabase) }
        for observation in observations { observation.cancel() }
    }

    /// **S15**: an old source is migrated before any reader sees it, and a new one is refused, as by opening.
    @Test func schema() async throws {
        try makeSource(["X"])
        let db = try open(version: 2)
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        try await db.replaceContent(with: source)
        #expect(
            try db.read { try Row.fetchOne($0, sql: "SELECT name, team FROM player") } == [
                "name": "X", "team": nil,
            ]
        )
        #expect(try names(DatabaseQueue(path: source.path)) == ["X"])
        try db.close()

        try FileManager.default.removeItem(at: source)
        try makeSource(["Z"], version: 2)
        let older = folder.file("older.sqlite")
        let old = try await SharedDatabase.open(at: older, schema: SharedSchema(migrator()), as: "old")
        await #expect(throws: SharedDatabaseError.schemaTooNew(path: source.path, unknownMigrations: ["v2"])) {
            try await old.replaceContent(with: source)
        }
        try FileManager.default.removeItem(at: source)
        try await DatabaseQueue(path: source.path).write { try $0.execute(sql: "CREATE TABLE other (a)") }
        await #expect(throws: ContentReplacementError.otherProgram(source: source.path)) {
            try await old.replaceContent(with: source)
        }
        #expect(try names(old) == [])
    }

    /// A file that cannot be the content is refused, and nothing is changed or left behind.
    @Test func refusals() async throws {
        let db = try open()
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        func expectRefusal(
            _ expected: (ContentReplacementError) -> Bool,
            _ given: URL? = nil,
            _ location: SourceLocation = #_sourceLocation
        ) async throws {
            let error = await #expect(throws: ContentReplacementError.self, sourceLocation: location) {
                try await db.replaceContent(with: given ?? source)
            }
            #expect(error.map(expected) == true, "\(String(describing: error))", sourceLocation: location)
            #expect("\(error!)".contains("Nothing was changed"), sourceLocation: location)
            try? FileManager.default.removeItem(at: source)
        }
        try await expectRefusal { if case .notADatabase(_, Onlooker.noSuchFile) = $0 { true } else { false } }
        try Data().write(to: source)
        try await expectRefusal { if case .notADatabase(_, "is empty") = $0 { true } else { false } }
        try Data(repeating: 7, count: 8192).write(to: source)
        try await expectRefusal { if case .notADatabase = $0 { true } else { false } }
        try await expectRefusal({ if case .notADatabase = $0 { true } else { false } }, folder.url)
        try await expectRefusal({ if case .sameFile = $0 { true } else { false } }, url)
        try FileManager.default.createSymbolicLink(at: source, withDestinationURL: url)
        try await expectRefusal { if case .sameFile = $0 { true } else { false } }
        try makeSource(["X"], before: "PRAGMA page_size = 8192")
        try await expectRefusal { if case .otherPageSize(_, 4096, _, 8192) = $0 { true } else { false } }
        try makeSource(["X"], before: "PRAGMA encoding = 'UTF-16le'")
        try await expectRefusal { if case .otherEncoding(_, "UTF-8", _, "UTF-16le") = $0 { true } else { false } }
        // A page of the table is overwritten.
        try makeSource((0..<1000).map { "name \($0)" })
        var bytes = try Data(contentsOf: source)
        let damaged = bytes.count - 4096
        bytes.replaceSubrange(damaged..<damaged + 4096, with: Data(repeating: 0x55, count: 4096))
        try bytes.write(to: source)
        try await expectRefusal { if case .damaged = $0 { true } else { false } }

        let readOnly = try await SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .available(let reader) = readOnly else { throw TestKitError("the database is there") }
        try makeSource(["X"])
        let refused = await #expect(throws: DatabaseError.self) { try await reader.replaceContent(with: source) }
        #expect(refused?.resultCode == .SQLITE_READONLY)
        #expect(try names(db) == ["A"])
    }

    /// A suspension, a cancellation or a full disk comes in the middle of the last phase: the content is unchanged, no participant has to wait, and
    /// the next attempt succeeds.
    @Test(arguments: ["suspended", "cancelled", "full"]) func interruptions(how: String) async throws {
        let db = try open { $0.process = .early() }
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        try makeSource(["X"], after: "CREATE TABLE more (a); INSERT INTO more SELECT hex(zeroblob(5000000))")
        if how == "full" {
            try await db.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1000") }
        }
        let counter = db.commitCounter
        let reached = Shared(false)
        let mayContinue = DispatchSemaphore(value: 0)
        let replacing = Task {
            try await db.replaceContent(with: source, whileSuspended: .fail) { progress in
                guard progress.phase == .replacing, progress.completedPages > 1000, !reached.value else { return }
                reached.change { $0 = true }
                mayContinue.wait()
            }
        }
        if how != "full" {
            try await eventually("half is copied") { reached.value }
            #expect(try names(db) == ["A"])
            if how == "cancelled" {
                replacing.cancel()
            } else {
                let suspended = Task { await db.suspend(deadline: .now + .seconds(30)).outcome }
                try await eventually("the write is aborted") { db.gate.isAborted }
                mayContinue.signal()
                _ = await suspended.value
            }
        }
        mayContinue.signal()
        let error = await #expect(throws: (any Error).self) { try await replacing.value }
        switch how {
        case "cancelled": #expect(error is CancellationError, "\(error!)")
        case "full": #expect((error as? DatabaseError)?.resultCode == .SQLITE_FULL, "\(error!)")
        default: #expect((error as? DatabaseError)?.isSuspension == true, "\(error!)")
        }
        if how == "suspended" { db.resume() }
        #expect(try names(db) == ["A"])
        #expect(db.commitCounter == counter)
        try open("other").close()
        if how == "full" {
            try await db.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1000000") }
        }
        try await db.replaceContent(with: source)
        #expect(try names(db) == ["X"])
    }

    /// **H8**: readers of the history know the history of the old content.
    @Test func history() async throws {
        let db = try open()
        try await db.history.enable(for: "player")
        try await db.write { db in _ = try Player(name: "A").inserted(db) }
        #expect(startOverReason { try db.consumeNow() } != nil)
        try await db.history.restartConsumer("indexer")
        // The backup has the same history, with the same identity.
        try db.backup(to: DatabaseQueue(path: source.path))
        let token = try await db.history.currentToken()
        try await db.write { db in _ = try Player(name: "B").inserted(db) }
        try await db.replaceContent(with: source)
        #expect(try names(db) == ["A"])
        #expect(startOverReason { try db.fetchChanges(since: token) } == .otherHistory)
        #expect(startOverReason { try db.consumeNow() } != nil)
        // Recording continues.
        let current = try await db.history.currentToken()
        try await db.write { db in _ = try Player(name: "C").inserted(db) }
        #expect(try await db.history.changes(since: current).changes.count == 1)
        try await db.history.restartConsumer("indexer")
    }

    /// The content is checkpointed like the frames of a write, and phases are reported in their order.
    @Test func progressAndCheckpoint() async throws {
        let db = try open()
        try makeSource(["X"], after: "CREATE TABLE more (a); INSERT INTO more SELECT hex(zeroblob(4000000))")
        let phases = Shared<[SharedDatabase.ReplacementProgress.Phase]>([])
        try await db.replaceContent(with: source) { progress in
            #expect(progress.completedPages <= progress.totalPages)
            phases.change { if $0.last != progress.phase { $0.append(progress.phase) } }
        }
        #expect(phases.value == [.copying, .checking, .replacing])
        try await eventually("a checkpoint has copied the content") {
            (try? DatabaseHeader(databasePath: url.path)) != nil
                && (try? System.status(ofFileAt: url.path)?.st_size ?? 0) ?? 0 > 4_000_000
        }
        try db.close()
    }
}

extension SharedDatabase {
    fileprivate func blockingReplaceContent(with source: URL) throws { try replaceContent(with: source) }

    fileprivate var commitCounter: UInt32? {
        writeWithoutTransaction { WalIndex($0)?.commitCounter }
    }

    fileprivate func text(_ sql: String) throws -> String? { try read { try String.fetchOne($0, sql: sql) } }

    fileprivate func consumeNow() throws { try history.consume(as: "indexer", in: ["player"]) { _ in } }

    fileprivate func fetchChanges(since token: HistoryToken) throws { _ = try history.changes(since: token) }
}
