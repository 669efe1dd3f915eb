import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// `quarantine` and `erase` (rules S16, S17). Programs without Roundtable and processes that are killed are in
/// `ProcessTests.MovingAsideBetweenProcesses`.
@Suite struct MovingAsideTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db.sqlite")
    }

    private func open(_ options: SharedDatabase.Options = .init(), as author: String = "app") throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func openReader() throws -> SharedDatabase {
        let reader = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .available(let db) = reader else { throw DatabaseError(message: "not available") }
        return db
    }

    /// Whether the participant that moves the database waits for its turn.
    private func cleanerWaits(for time: Duration = .zero) -> Bool {
        let block = try? ControlBlock.open(forDatabaseAt: System.resolvedPath(url.path), writable: false)
        return block?.participants().contains { $0.author == "cleaner" && $0.waiting ?? 0 > time.nanoseconds } == true
    }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.url.path).sorted()
    }

    /// The players in a database that nobody shares.
    private func players(_ url: URL) throws -> [String] {
        try DatabaseQueue(path: url.path).read { db in
            #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
            return try String.fetchAll(db, sql: "SELECT name FROM player ORDER BY id")
        }
    }

    private func expectLost(_ db: SharedDatabase, _ comment: Comment) {
        let error = #expect(throws: SharedDatabaseError.self, comment) { try db.insert("after") }
        guard case .fileLost? = error else { return }
        #expect(throws: SharedDatabaseError.self, comment) { _ = try db.names() }
    }

    /// Everybody is notified, nothing is lost, and what closes the old files does not touch the new ones.
    @Test(.timeLimit(.minutes(1)), arguments: [false, true]) func everybodyGoesOn(isErased: Bool) async throws {
        let (db, other) = (try open(), try open(as: "other"))
        try db.insert("A")
        try other.insert("B")
        let reader = try openReader()
        #expect(try reader.names() == ["A", "B"])
        let observer = Task {
            for try await _ in ValueObservation.tracking(Player.fetchCount).values(in: other) {}
        }
        let before = try #require(try System.identity(ofFileAt: url.path))

        if isErased {
            try await SharedDatabase.erase(at: url, as: "cleaner")
        } else {
            let aside = try await SharedDatabase.quarantine(at: url, as: "cleaner")
            #expect(aside.deletingLastPathComponent().lastPathComponent.hasPrefix("db.sqlite-quarantined-"))
            #expect(try System.identity(ofFileAt: aside.path) == before)
            // With the participants that have it open.
            #expect(try players(aside) == ["A", "B"])
        }
        expectLost(db, "app")
        expectLost(other, "other")
        #expect(throws: SharedDatabaseError.self) { _ = try reader.names() }
        let error = await #expect(throws: SharedDatabaseError.self) { try await observer.value }
        if case .fileLost? = error {
        } else {
            Issue.record("the observer ended with \(error.map { "\($0)" } ?? "nothing")")
        }

        let new = try open()
        try new.insert("C")
        try db.close()
        try other.close()
        try reader.close()
        #expect(try new.names() == ["C"])
        try new.insert("D")
        #expect(try open(as: "next").names() == ["C", "D"])
        let left = Set(try names().filter { !$0.contains("quarantined") })
        #expect(left == ["db.sqlite", "db.sqlite-wal", "db.sqlite-shm", "db.sqlite" + ControlBlock.ending])
    }

    /// Two at the same time get different folders, or one finds nothing.
    @Test func withoutADatabase() async throws {
        try await SharedDatabase.erase(at: url, as: "cleaner")
        #expect(throws: DatabaseLocationError.noSuchFile(path: System.resolvedPath(url.path))) {
            try SharedDatabase.quarantine(at: url, as: "cleaner")
        }
        #expect(try names() == [])
        try open().close()
        let first = try await SharedDatabase.quarantine(at: url, as: "cleaner")
        try open().close()
        let second = try await SharedDatabase.quarantine(at: url, as: "cleaner")
        #expect(first != second)
        #expect(try players(first) == [] && players(second) == [])
    }

    /// What is no database any more can be moved aside, too.
    @Test func aDamagedFile() throws {
        try Data("this is no database".utf8).write(to: url)
        #expect(throws: DatabaseError.self) { try open() }
        let aside = try SharedDatabase.quarantine(at: url, as: "cleaner")
        #expect(try Data(contentsOf: aside) == Data("this is no database".utf8))
        try open().insert("A")
    }

    /// A rollback journal goes with its database, and is not applied to the next one.
    @Test func aRollbackJournal() throws {
        try DatabaseQueue(path: url.path).close()
        try Data("journal".utf8).write(to: folder.file("db.sqlite-journal"))
        let aside = try SharedDatabase.quarantine(at: url, as: "cleaner")
        #expect(try !names().contains("db.sqlite-journal"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: aside.path + "-journal")) == Data("journal".utf8))
    }

    /// An opening whose database is erased while its connection is being opened begins again.
    @Test(.timeLimit(.minutes(1)), arguments: [false, true]) func openingBeginsAgain(isBlocking: Bool) async throws {
        try open().insert("A")
        let count = Shared(0)
        var options = SharedDatabase.Options()
        options.configuration.prepareDatabase { [url] _ in
            count.change { $0 += 1 }
            if count.value == 1 { try SharedDatabase.erase(at: url, as: "cleaner") }
        }
        let schema = SharedSchema(migrator())
        let db =
            isBlocking
            ? try open(options)
            : try await SharedDatabase.open(at: url, schema: schema, as: "app", options: options)
        #expect(count.value > 1)
        #expect(try db.names() == [])
    }

    /// The access rights of the folder are those of the database.
    @Test func accessRights() throws {
        try open().close()
        chmod(url.path, 0o640)
        let aside = try SharedDatabase.quarantine(at: url, as: "cleaner")
        let status = try #require(try System.status(ofFileAt: aside.deletingLastPathComponent().path))
        #expect(status.st_mode & 0o777 == 0o750)
    }

    /// A write that runs ends first, and is in the file that is put aside.
    @Test(.timeLimit(.minutes(1))) func waitsForWrites() async throws {
        let db = try open()
        var options = SharedDatabase.Options()
        options.patience = .milliseconds(20)
        let task = try await db.whileWriting {
            let task = Task { [options] in
                try await SharedDatabase.quarantine(at: url, as: "cleaner", options: options)
            }
            try await eventually("it waits for longer than its patience") { cleanerWaits(for: .milliseconds(200)) }
            #expect(try System.status(ofFileAt: url.path) != nil)
            return task
        }
        _ = try await task.value
    }

    /// One that is cancelled while it waits changes nothing.
    @Test(.timeLimit(.minutes(1))) func isCancelled() async throws {
        let db = try open()
        try await db.whileWriting {
            let task = Task { try await SharedDatabase.quarantine(at: url, as: "cleaner") }
            try await eventually("it waits") { cleanerWaits() }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
        try db.insert("A")
        #expect(try db.names() == ["A"])
    }

    /// While the process is suspended, nothing is moved.
    @Test func whileSuspended() throws {
        var options = SharedDatabase.Options()
        options.process = .early()
        options.whileSuspended = .fail
        let db = try open(options)
        options.process.close()
        #expect(throws: DatabaseError.self) { try SharedDatabase.quarantine(at: url, as: "cleaner", options: options) }
        options.process.resume()
        try db.insert("A")
    }

    /// A database that was moved away while its connections were closed is not created when they are opened again, and is lost as soon as there is
    /// another one.
    @Test func whileTheConnectionsAreClosed() async throws {
        let db = try open()
        try db.insert("A")
        #expect(await onThread { db.park(until: MonotonicClock.now + 60_000_000_000) } == [])
        _ = try await SharedDatabase.quarantine(at: url, as: "cleaner")
        db.unpark()
        #expect(throws: DatabaseError.self) { try db.insert("B") }
        #expect(try !names().contains("db.sqlite"))
        try open().insert("C")
        expectLost(db, "resumed")
    }

    // MARK: Rule S17

    /// What a mover leaves that is killed.
    enum Leftover: CaseIterable {
        /// The companions have second names.
        case names
        /// The database has moved.
        case database
        /// The first name of `-wal` is removed.
        case databaseAndWAL
        case all
    }

    /// The name of the folder of a mover that has ended.
    private func unfinished(_ purpose: String) -> String {
        let parts = UnfinishedFile.name(".db.sqlite-\(purpose)").split(separator: "-", maxSplits: 2)
        return ".db.sqlite-\(purpose).4194303-\(parts[2])"
    }

    private func leave(_ leftover: Leftover, _ purpose: String) throws -> URL {
        let files = FileManager.default
        let aside = folder.file(unfinished(purpose))
        _ = try StagingFolder(aside.lastPathComponent, in: OpenFolder(at: folder.url.path))
        for suffix in ["-wal", "-shm"] {
            try files.linkItem(
                at: folder.file("db.sqlite" + suffix),
                to: aside.appendingPathComponent("db.sqlite" + suffix)
            )
        }
        if leftover == .names { return aside }
        try files.moveItem(at: url, to: aside.appendingPathComponent("db.sqlite"))
        if leftover == .database { return aside }
        try files.removeItem(at: folder.file("db.sqlite-wal"))
        if leftover == .databaseAndWAL { return aside }
        try files.removeItem(at: folder.file("db.sqlite-shm"))
        return aside
    }

    private func quarantined() throws -> [URL] {
        try names().filter { $0.hasPrefix("db.sqlite-quarantined-") }.map {
            folder.file($0).appendingPathComponent("db.sqlite")
        }
    }

    /// What it had moved is whole, and the next database has nothing of it.
    @Test(arguments: Leftover.allCases, [false, true]) func isCompleted(_ leftover: Leftover, isErased: Bool) throws {
        let before = try open()
        try before.insert("A")
        let old = try #require(try System.identity(ofFileAt: folder.file("db.sqlite-shm").path))
        let aside = try leave(leftover, isErased ? "erased" : "quarantined")
        _ = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        let db = try open()
        #expect(try db.names() == (leftover == .names ? ["A"] : []))
        try db.insert("B")
        if leftover != .names { #expect(try System.identity(ofFileAt: folder.file("db.sqlite-shm").path) != old) }
        try before.close()
        let found = try quarantined()
        #expect(found.count == (leftover == .names || isErased ? 0 : 1))
        for url in found { #expect(try players(url) == ["A"]) }
        // The next mover removes what is left of one that has moved nothing.
        let next = try SharedDatabase.quarantine(at: url, as: "cleaner")
        #expect(try players(next) == (leftover == .names ? ["A", "B"] : ["B"]))
        #expect(try !names().contains(aside.lastPathComponent))
        #expect(try players(next) == (leftover == .names ? ["A", "B"] : ["B"]))
    }

    /// Where there are no links, `-wal` follows the database.
    @Test func isCompletedWithoutLinks() throws {
        try open().insert("A")
        let aside = try leave(.database, "quarantined")
        for suffix in ["-wal", "-shm"] {
            try FileManager.default.removeItem(at: aside.appendingPathComponent("db.sqlite" + suffix))
        }
        #expect(try open().names() == [])
        #expect(try quarantined().map(players) == [["A"]])
    }

    /// A quarantine that finds no database, but a move that was not completed, says where it is.
    @Test func theNextQuarantineSaysWhereItIs() throws {
        try open().insert("A")
        _ = try leave(.database, "quarantined")
        #expect(try players(SharedDatabase.quarantine(at: url, as: "cleaner")) == ["A"])
    }

    /// A folder that others may write proves nothing.
    @Test func aFolderOfOthersIsLeftAlone() throws {
        try open().insert("A")
        let aside = try leave(.database, "quarantined")
        chmod(aside.path, 0o777)
        let error = #expect(throws: SharedDatabaseError.self) { try open() }
        guard case .foreignFiles? = error else { throw DatabaseError(message: "\(error.map { "\($0)" } ?? "opened")") }
        #expect(try names().contains("db.sqlite-wal"))
    }

    /// Folders of the user's own, with names like those of this library, stay.
    @Test func foldersOfTheUserStay() throws {
        let kept = ["db.sqlite-erased-by-mistake", "db.sqlite-quarantined-20260101T000000Z", ".db.sqlite-erased.keep"]
        for name in kept {
            try FileManager.default.createDirectory(at: folder.file(name), withIntermediateDirectories: false)
            try Data("keep".utf8).write(to: folder.file(name).appendingPathComponent("file"))
        }
        try open().close()
        try SharedDatabase.erase(at: url, as: "cleaner")
        try open().close()
        #expect(try Set(kept).isSubset(of: names()))
        for name in kept {
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.file(name).path) == ["file"])
        }
    }

    /// The empty companions of a database that is gone would be used by the next one, and by those who still have them open.
    @Test func companionsOfAnotherDatabaseAreRemoved() throws {
        let db = try open()
        try db.insert("A")
        try db.checkpoint()
        _ = truncate(url.path + "-wal", 0)
        let old = try System.identity(ofFileAt: url.path + "-shm")
        try FileManager.default.removeItem(at: url)
        let next = try open(as: "next")
        #expect(try System.identity(ofFileAt: url.path + "-shm") != old)
        #expect(try next.names() == [])
    }

    /// What an interrupted erasure on a full disk leaves.
    @Test func aWALAloneIsErased() throws {
        let db = try open()
        try db.insert("A")
        try FileManager.default.removeItem(at: url)
        #expect(throws: SharedDatabaseError.self) { try open() }
        try SharedDatabase.erase(at: url, as: "cleaner")
        #expect(try open().names() == [])
    }

    /// An opening that meets a mover at any step waits for it, or begins again.
    @Test(.timeLimit(.minutes(1))) func openingsBesideMoves() async throws {
        let isOver = Shared(false)
        let opened = Shared(0)
        async let openers: Void = withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<3 {
                group.addTask {
                    try await onThread {
                        Result {
                            while !isOver.value {
                                let db = try open(as: "\(number)")
                                opened.change { $0 += 1 }
                                do { try db.insert("A") } catch SharedDatabaseError.fileLost {}
                                try db.close()
                            }
                        }
                    }.get()
                }
            }
            try await group.waitForAll()
        }
        for round in 0..<60 {
            opened.wait { $0 > round }
            try await SharedDatabase.erase(at: url, as: "cleaner")
        }
        isOver.change { $0 = true }
        try await openers
        #expect(opened.value >= 60)
    }

    /// Where a step fails, everything is back in its place.
    @Test func aFailureLeavesEverything() throws {
        let db = try open()
        try db.insert("A")
        // A directory in the place of the salt cannot be copied.
        try FileManager.default.createDirectory(at: folder.file("db.sqlite-salt"), withIntermediateDirectories: false)
        #expect(throws: DatabaseError.self) { try SharedDatabase.quarantine(at: url, as: "cleaner") }
        try FileManager.default.removeItem(at: folder.file("db.sqlite-salt"))
        try db.insert("B")
        #expect(try db.names() == ["A", "B"])
        #expect(try !names().contains { $0.contains("quarantined") })
    }

    /// An opening waits for a mover in the middle of its work, and creates the next database.
    @Test(.timeLimit(.minutes(1))) func openingWaitsForTheMover() async throws {
        let db = try open()
        try db.insert("A")
        let file = try DatabaseFile(url)
        let gate = SuspensionGate(path: file.path, policy: .writeLocks, process: .early())
        let seat = Seat(settingUp: file, as: "mover", options: .init(), gate: gate)
        let opened = Shared<SharedDatabase?>(nil)
        let path = try await onThread { [self] in
            Result {
                try seat.withSetupTurn(file, gate, until: .max, isWriteLockFree: { true }) {
                    try MovedDatabase(file.path).move(.quarantine, seat) {
                        let opener = Thread {
                            let db = try? self.open(as: "opener")
                            opened.change { $0 = db }
                        }
                        opener.start()
                        // It waits in the queue, whose head this mover is.
                        let block = seat.participant?.block
                        let deadline = ContinuousClock.now + .seconds(20)
                        while block?.participants().contains(where: { $0.author == "opener" && $0.waiting != nil })
                            != true,
                            ContinuousClock.now < deadline
                        {
                            MonotonicClock.sleep(1_000_000)
                        }
                    }
                }
            }
        }.get()
        opened.wait { $0 != nil }
        seat.leave()
        #expect(try opened.value?.names() == [])
        #expect(try players(URL(fileURLWithPath: #require(path))) == ["A"])
    }

    /// An opening that has found the database creates none when it is gone meanwhile.
    @Test func openingDoesNotCreate() throws {
        try open().close()
        let file = try DatabaseFile(url)
        try FileManager.default.removeItem(at: url)
        #expect(throws: DatabaseError.self) {
            _ = try WriterConnection(
                path: file.path,
                mayCreate: false,
                options: .init(),
                gate: SuspensionGate(path: file.path, policy: .writeLocks, process: .early()),
                companions: []
            )
        }
        #expect(try !names().contains("db.sqlite"))
    }
}
