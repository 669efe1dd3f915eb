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

/// What keeps a snapshot file equal to a query (rules V7–V9).
@Suite(.timeLimit(.minutes(2))) struct SnapshotPublisherTests {
    let folder: TemporaryFolder
    let url: URL
    let process = ProcessSuspension()

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    func open(
        _ author: String = "app",
        _ policy: SuspensionPolicy = .writeLocks,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = process
        options.suspensionPolicy = policy
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    /// Opens a database that is not suspended with the others.
    func openUnsuspended(_ author: String) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author)
    }

    private func openReadOnly(_ author: String) throws -> SharedDatabase? {
        let schema = SharedSchema(migrator())
        guard case .available(let db) = try SharedDatabase.openReadOnly(at: url, schema: schema, as: author) else {
            return nil
        }
        return db
    }

    func file(_ name: String = "names", as writer: String = "app") -> SnapshotFile<[String]> {
        var options = SnapshotFileOptions()
        options.durability = .process
        return SnapshotFile(at: folder.file(name), as: writer, options: options)
    }

    func add(_ name: String, to db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: name).inserted(db) }
    }

    static func names(_ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM player ORDER BY id")
    }

    /// A publisher, and what it has reported.
    final class Log: Sendable {
        let fetches = Shared(0)
        let infos = Shared<[SnapshotInfo]>([])
        let errors = Shared<[any Error]>([])
        let recoveries = Shared(0)
        let failure = Shared<(any Error)?>(nil)
        let publisher = Shared<SnapshotPublisher?>(nil)

        init(_ db: SharedDatabase, _ file: SnapshotFile<[String]>, every interval: Duration = .zero) throws {
            let path = file.url.path
            db.reporter.add(
                EventDelivery("publishing", capacity: 100) { [errors, recoveries] stamped in
                    switch stamped.event as? PublishingEvent {
                    case .failed(path, let error): errors.change { $0.append(error) }
                    case .recovered(path): recoveries.change { $0 += 1 }
                    default: break
                    }
                }
            )
            let started = try db.publish(
                to: file,
                atMostEvery: interval,
                onPublish: { [infos] info in infos.change { $0.append(info) } }
            ) { [fetches, failure] db in
                fetches.change { $0 += 1 }
                if let failure = failure.value { throw failure }
                return try SnapshotPublisherTests.names(db)
            }
            publisher.change { $0 = started }
        }

        /// Whether nothing is being fetched, nor is to be.
        var isAtRest: Bool { publisher.value?.isAtRest == true }
    }

    func eventually(_ names: [String], in file: SnapshotFile<[String]>) async throws {
        do {
            try await waitUntil { try file.read().value == names }
        } catch {
            Issue.record("\(names) in \(file.url.lastPathComponent), not \(try file.read())")
            throw error
        }
    }

    func waitUntil(line: UInt = #line, _ condition: () async throws -> Bool) async throws {
        try await RoundtableTestKit.eventually("it holds", line: line, condition)
    }

    // MARK: Following

    @Test func theFileFollowsTheDatabase() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let file = file()
        let log = try Log(a, file)
        try await eventually([], in: file)
        try add("A", to: a)
        try await eventually(["A"], in: file)
        try add("B", to: b)
        try await eventually(["A", "B"], in: file)
        // A program that does not know Roundtable.
        try await DatabaseQueue(path: url.path).write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('C')") }
        try await eventually(["A", "B", "C"], in: file)
        // What it does not read does not make it fetch.
        try await b.write { try $0.execute(sql: "CREATE TABLE team (name TEXT)") }
        try await waitUntil { log.infos.value.count == 4 }
        #expect(log.infos.value.map(\.sequence) == [1, 2, 3, 4] && log.errors.value.isEmpty)
        log.publisher.value?.cancel()
        try add("D", to: a)
        #expect(try file.read().value == ["A", "B", "C"])
        let ended = SnapshotFileError.publishingEnded(path: file.url.path)
        await #expect(throws: ended) { try await log.publisher.value?.publish() }
    }

    @Test func aReadOnlyParticipantPublishes() async throws {
        let writer = try open("writer")
        let db = try #require(try openReadOnly("widget"))
        let file = file()
        let log = try Log(db, file)
        try add("A", to: writer)
        try await eventually(["A"], in: file)
        #expect(try await log.publisher.value?.publish().sequence == log.infos.value.last?.sequence)
    }

    /// A burst is one write an interval, and its last state arrives.
    @Test func burstsAreCoalesced() async throws {
        let db = try open()
        let file = file()
        let log = try Log(db, file, every: .milliseconds(300))
        try await eventually([], in: file)
        let began = ContinuousClock.now
        for number in 1...500 { try add("\(number)", to: db) }
        try await eventually((1...500).map(String.init), in: file)
        let intervals = Int((ContinuousClock.now - began) / .milliseconds(300))
        try await waitUntil { log.infos.value.last?.sequence == (try? file.read())?.info?.sequence }
        #expect(log.infos.value.count <= intervals + 2)
        let dates = log.infos.value.map(\.date)
        for (earlier, later) in zip(dates, dates.dropFirst()) {
            #expect(later.timeIntervalSince(earlier) > 0.29)
        }
    }

    @Test func equalBytesAreNotWritten() async throws {
        let db = try open()
        try add("A", to: db)
        let file = file()
        var log: Log? = try Log(db, file)
        try await eventually(["A"], in: file)
        let info = try file.read().info
        let fetches = try #require(log?.fetches.value)
        try await db.write { try $0.execute(sql: "UPDATE player SET score = score + 1") }
        try await waitUntil { log?.fetches.value ?? 0 > fetches }
        #expect(try await log?.publisher.value?.publish() == info)
        log = nil
        // An equal value is not written after a restart either.
        let again = try Log(db, file)
        try await waitUntil { again.fetches.value == 1 }
        try await again.publisher.value?.publish()
        #expect(try file.read().info == info && again.infos.value.isEmpty)
        // Under another version, they are.
        let newer = SnapshotFile<[String]>(at: file.url, version: 2, as: "app")
        let upgraded = try Log(db, newer)
        try await waitUntil { try newer.read().value == ["A"] }
        withExtendedLifetime(upgraded) {}
    }

    /// While another program's value lies there, or half of one, the next change repairs it.
    @Test func damageIsRepaired() async throws {
        let db = try open()
        let file = file()
        let log = try Log(db, file)
        try await eventually([], in: file)
        try Data("RTSNAP, half of one".utf8).write(to: file.url)
        try add("A", to: db)
        try await eventually(["A"], in: file)
        try FileManager.default.removeItem(at: file.url)
        try await log.publisher.value?.publish()
        #expect(try file.read().value == ["A"])
    }

    @Test func severalPublishersToOneFile() async throws {
        let databases = try (0..<4).map { try open("\($0)") }
        let logs = try databases.map { try Log($0, file(as: $0.author)) }
        for round in 0..<50 { for db in databases { try add("\(round)", to: db) } }
        let expected = try await databases[0].read(Self.names)
        try await eventually(expected, in: file())
        #expect(logs.flatMap(\.errors.value).isEmpty)
        // It stays so: no publisher publishes anything older.
        for log in logs { try await log.publisher.value?.publish() }
        #expect(try file().read().value == expected)
    }

    /// What was fetched earlier does not replace what was fetched later, however long it takes.
    @Test func aSlowFetchIsNotWritten() async throws {
        let db = try open()
        let file = file()
        let isSlow = Shared(false)
        let isInside = DispatchSemaphore(value: 0)
        let mayGoOn = DispatchSemaphore(value: 0)
        let fetches = Shared(0)
        let slow = try db.publish(to: file, atMostEvery: .zero) { db in
            fetches.change { $0 += 1 }
            let names = try Self.names(db)
            if isSlow.value {
                isSlow.change { $0 = false }
                isInside.signal()
                mayGoOn.wait()
            }
            return names
        }
        try await eventually([], in: file)
        isSlow.change { $0 = true }
        try add("A", to: db)
        await onThread { isInside.wait() }
        // Another writer is faster.
        try add("B", to: db)
        try await self.file(as: "other").write(["A", "B"])
        let info = try file.read().info
        let before = fetches.value
        mayGoOn.signal()
        // What it has is too old, so it fetches again, and finds that there.
        try await waitUntil { fetches.value > before }
        #expect(try file.read().info == info)
        try await slow.publish()
        #expect(try file.read().info == info)
    }

    /// … also when the file is the same again by then: the database has changed, and has changed back.
    @Test func aSlowFetchOfWhatIsOverIsNotWritten() async throws {
        let db = try open()
        let file = file()
        let (isSlow, fetches) = (Shared(false), Shared(0))
        let (isInside, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let publisher = try db.publish(to: file, atMostEvery: .zero) { db in
            fetches.change { $0 += 1 }
            let names = try Self.names(db)
            if isSlow.value, !names.isEmpty {
                isSlow.change { $0 = false }
                isInside.signal()
                mayGoOn.wait()
            }
            return names
        }
        try await eventually([], in: file)
        let info = try await publisher.publish()
        isSlow.change { $0 = true }
        try add("A", to: db)
        await onThread { isInside.wait() }
        try await db.write { _ = try Player.deleteAll($0) }
        #expect(try await publisher.publish() == info)
        let before = fetches.value
        mayGoOn.signal()
        try await waitUntil { fetches.value > before }
        #expect(try await publisher.publish() == info)
        #expect(try file.read().info == info)
    }

    // MARK: Errors

    @Test func whatFailsIsReportedAndTriedAgain() async throws {
        struct Failure: Error {}
        let db = try open()
        let file = file()
        let log = try Log(db, file)
        try await eventually([], in: file)
        log.failure.change { $0 = Failure() }
        try add("A", to: db)
        try await waitUntil { log.errors.value.count >= 2 }
        #expect(log.errors.value.allSatisfy { $0 is Failure })
        #expect(try file.read().value == [])
        log.failure.change { $0 = nil }
        try await eventually(["A"], in: file)
        // The recovery is reported once, and not with each value that follows.
        try add("A2", to: db)
        try await eventually(["A", "A2"], in: file)
        try await waitUntil { log.recoveries.value > 0 }
        let failures = log.errors.value.count
        log.failure.change { $0 = Failure() }
        try await db.write { db in try db.execute(sql: "DELETE FROM player WHERE name = 'A2'") }
        try await waitUntil { log.errors.value.count > failures }
        #expect(log.recoveries.value == 1)
        log.failure.change { $0 = nil }
        try await eventually(["A"], in: file)
        // A folder that is missing is no different.
        try FileManager.default.createDirectory(at: folder.file("sub"), withIntermediateDirectories: false)
        let there = self.file("sub/names")
        let other = try Log(db, there)
        try await eventually(["A"], in: there)
        try FileManager.default.removeItem(at: folder.file("sub"))
        try add("B", to: db)
        try await waitUntil { !other.errors.value.isEmpty }
        #expect(other.errors.value.first as? SnapshotFileError == .file(path: there.url.path, .folderMissing))
        try FileManager.default.createDirectory(at: folder.file("sub"), withIntermediateDirectories: false)
        try await eventually(["A", "B"], in: there)
    }

    /// The path is the database's own, a link to it, an empty file of the database, or a file of another program.
    @Test func nothingElseIsReplaced() async throws {
        let db = try open()
        try add("precious", to: db)
        let other = folder.file("other")
        let link = folder.file("link")
        try Data("precious".utf8).write(to: other)
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: url)
        let companion = URL(fileURLWithPath: url.path + "-wal")
        for target in [url, companion, link, other] {
            let size = try System.status(ofFileAt: target.path)?.st_size
            let file = SnapshotFile<[String]>(at: target, as: "app")
            let expected =
                target == other
                ? SnapshotFileError.foreignFile(path: target.path)
                : .databaseFile(path: target.path, database: db.path)
            let log = try Log(db, file)
            try await waitUntil { !log.errors.value.isEmpty }
            #expect(log.errors.value.first as? SnapshotFileError == expected)
            await #expect(throws: expected) { try await file.write(["x"]) }
            #expect(try System.status(ofFileAt: target.path)?.st_size == size)
        }
        #expect(try await db.read(Self.names) == ["precious"])
        #expect(try Data(contentsOf: other) == Data("precious".utf8))
    }

    // MARK: Ends

    @Test func closingFlushes() async throws {
        let db = try open()
        let file = file()
        let log = try Log(db, file, every: .seconds(3600))
        try await eventually([], in: file)
        try add("A", to: db)
        try await onThread { Result { try db.close() } }.get()
        #expect(try file.read().value == ["A"])
        let ended = SnapshotFileError.publishingEnded(path: file.url.path)
        await #expect(throws: ended) { try await log.publisher.value?.publish() }
        #expect(log.errors.value.isEmpty)
        #expect(throws: (any Error).self) { try db.publish(to: file) { _ in [] } }
        func isClosed(_ error: any Error) -> Bool { "\(error)".contains("closed by close()") }
        await #expect(performing: { try await db.deliver() }, throws: isClosed)
        let blocking = await onThread { Result { try db.deliver() } }
        #expect(performing: { try blocking.get() }, throws: isClosed)
    }

    /// What the file holds is not fetched again.
    @Test func closingFetchesNothingForNothing() async throws {
        let db = try open()
        try add("A", to: db)
        let file = file()
        let log = try Log(db, file, every: .seconds(3600))
        try await log.publisher.value?.publish()
        try await waitUntil { log.isAtRest }
        let fetches = log.fetches.value
        try await onThread { Result { try db.close() } }.get()
        #expect(log.fetches.value == fetches)
    }

    /// The publisher is all that the caller keeps, and nothing is left when it is released.
    @Test func thePublisherKeepsTheDatabaseOpen() async throws {
        weak var database: SharedDatabase?
        let file = file()
        var log: Log?
        do {
            let db = try open()
            database = db
            log = try Log(db, file)
        }
        try await eventually([], in: file)
        #expect(database != nil)
        let other = try open("other")
        try add("A", to: other)
        try await eventually(["A"], in: file)
        log?.publisher.change { $0 = nil }
        log = nil
        try await waitUntil { database == nil }
        try add("B", to: other)
        #expect(try file.read().value == ["A"])
    }

    @Test func severalFiles() async throws {
        let db = try open()
        let files = (0..<5).map { file("names-\($0)") }
        let logs = try files.map { try Log(db, $0) }
        try add("A", to: db)
        for file in files { try await eventually(["A"], in: file) }
        logs[0].publisher.value?.cancel()
        try add("B", to: db)
        for file in files[1...] { try await eventually(["A", "B"], in: file) }
    }
}
