import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// Long waits for the turn of the other database, and turns without it.
extension LentTurnsTests {
    /// Runs `write` while `holder` has written for ten patiences of the one that waits, and expects that it waited all the time.
    private func expectPatience(
        _ author: String,
        while holder: SharedDatabase,
        writes sql: String,
        _ write: @escaping @Sendable () async throws -> Void
    ) async throws {
        let before = block.value(of: .turnsSteppedOver)
        let (isWriting, mayEnd) = (Shared(false), DispatchSemaphore(value: 0))
        holder.asyncWrite { db in
            try db.execute(sql: sql)
            isWriting.change { $0 = true }
            mayEnd.wait()
        } completion: { _, result in
            #expect(throws: Never.self) { try result.get() }
        }
        try await eventually("the holder writes") { isWriting.value }
        let task = Task { try await write() }
        try await eventually("it has waited for ten patiences") {
            records(author).contains { $0.waiting ?? 0 > 200_000_000 }
        }
        #expect(block.value(of: .turnsSteppedOver) == before)
        mayEnd.signal()
        try await task.value
    }

    /// A waiter of the second database sees that the holder of the turn writes the first one.
    @Test func aLongWriteOfTheFirst() async throws {
        let pair = try Self.open(folder, "patient", process) { $0.patience = .milliseconds(20) }
        try await expectPatience("patient", while: other.main, writes: Self.insert.replacing("note", with: "side.note"))
        {
            try await pair.side.write { try $0.execute(sql: Self.insert) }
        }
    }

    #if os(Linux)
        /// It sees that also if the first one does not have it attached: the system lists locks.
        @Test func aLongWriteOfTheFirstAlone() async throws {
            let alone = try Self.open(folder, "alone", process, attaches: false)
            let pair = try Self.open(folder, "patient", process, attaches: false) { $0.patience = .milliseconds(20) }
            try await expectPatience("patient", while: alone.main, writes: "INSERT INTO player (name) VALUES ('A')") {
                try await pair.side.write { try $0.execute(sql: Self.insert) }
            }
            try await expectPatience("third", while: alone.main, writes: "INSERT INTO player (name) VALUES ('A')") {
                var options = SharedDatabase.Options()
                options.turnsOf = pair.main
                options.patience = .milliseconds(20)
                _ = try await SharedDatabase.open(
                    at: pair.url("third"),
                    schema: SharedSchema(migrator()),
                    as: "third",
                    options: options
                )
            }
        }
    #endif

    /// A waiter of the first database sees that the holder of the turn writes the second one.
    @Test func aLongWriteOfTheSecond() async throws {
        let pair = try Self.open(folder, "patient", process) { $0.patience = .milliseconds(20) }
        try await expectPatience("patient", while: other.side, writes: Self.insert) {
            try await pair.main.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
        }
    }

    /// The error names the write of the first database that is in the way.
    @Test func theErrorNamesTheWriteOfTheFirst() async throws {
        let quick = try Self.open(folder, "quick", process) { $0.busyTimeout = .milliseconds(50) }
        let error = try await own.main.whileWriting {
            await onThread { #expect(throws: DatabaseError.self) { try run(Self.insert, in: quick.side) } }
        }
        #expect(error?.resultCode == .SQLITE_BUSY)
        let message = try #require(error?.message)
        #expect(message.contains("'own'") && message.contains("has been writing"), "\(message)")
        // So does that of an opening.
        var options = SharedDatabase.Options()
        options.turnsOf = quick.main
        options.setupTimeout = .milliseconds(50)
        let refused = try await own.main.whileWriting { [options] in
            await #expect(throws: DatabaseError.self) {
                try await SharedDatabase.open(
                    at: own.url("third"),
                    schema: SharedSchema(migrator()),
                    as: "third",
                    options: options
                )
            }
        }
        #expect(refused?.message?.contains("'own' (pid") == true, "\(String(describing: refused))")
    }

    /// What is shown of a write does not include its wait for the other turn.
    @Test func aWriteIsShownFromItsBegin() async throws {
        let sideBlock = try ControlBlock.open(forDatabaseAt: own.side.path, writable: false)
        let shown = Shared<Nanoseconds?>(nil)
        let side = own.side
        let (task, began) = try await other.main.whileWriting {
            let began = MonotonicClock.now
            let task = Task {
                try await side.write { _ in
                    shown.change { $0 = sideBlock.participants().first { $0.author == "own" }?.writing }
                }
            }
            try await eventually("it has waited") { waiter("own")?.waiting ?? 0 > 200_000_000 }
            return (task, began)
        }
        let ended = MonotonicClock.now
        try await task.value
        let writing = try #require(shown.value)
        #expect(
            writing < MonotonicClock.now - ended + 100_000_000 && writing < MonotonicClock.now - began - 200_000_000
        )
    }

    /// A write of the second database may be inside of a read of the first one, which has no turn.
    @Test func insideOfAReadOfTheFirst() throws {
        try own.main.read { _ in try run(Self.insert, in: own.side) }
        #expect(try count(own.side) == 1)
    }

    /// The turn of the first is released also by a participant without a turn of the second one.
    @Test func withoutTurnsOfItsOwn() async throws {
        try other.main.close()
        try other.side.close()
        let path = own.side.path + ControlBlock.ending
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try await eventually("the second one has no turns") {
            try run(Self.insert, in: own.side)
            return own.side.seat.unusable != nil
        }
        // An announcement may have it for a moment.
        try await eventually("the turn is released") { records("own").allSatisfy { !$0.hasTurn } }
        try own.main.insert("A")
    }

    /// A control block of the first that is made by a participant of the second has the access rights of the first one's file.
    @Test func accessRightsOfTheControlBlock() async throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o660], ofItemAtPath: own.main.path)
        for db in [other.side, other.main, own.main] { try db.close() }
        let path = own.main.path + ControlBlock.ending
        try? FileManager.default.removeItem(atPath: path)
        try await eventually("it is made anew") {
            try run(Self.insert, in: own.side)
            return FileManager.default.fileExists(atPath: path)
        }
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o660)
    }

    /// A database that is only read cannot announce what was committed to the second one.
    @Test func turnsOfADatabaseThatIsOnlyRead() async throws {
        guard
            case .available(let reader) = try await SharedDatabase.openReadOnly(
                at: folder.file("main.sqlite"),
                schema: SharedSchema(migrator()),
                as: "reader"
            )
        else { return #expect(Bool(false)) }
        let error = await #expect(throws: DatabaseError.self) { try await openThird(turnsOf: reader) }
        #expect(error?.message?.contains("opened for reading only") == true)
        #expect(!FileManager.default.fileExists(atPath: own.url("third").path))
    }

    /// A raw handle of the second database takes the turns of the first one, whose observers are notified: also when it is not known what it
    /// has committed, as while the connection reads.
    @Test(arguments: [false, true]) func rawHandles(isReading: Bool) async throws {
        let raw = try RawSQLite(own.side.path)
        let handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: own.side)
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        var reading: OpaquePointer?
        defer { sqlite3_finalize(reading) }
        if isReading {
            let sql = "SELECT 1 FROM note UNION ALL SELECT 2 UNION ALL SELECT 3"
            sqlite3_prepare_v2(raw.pointer, sql, -1, &reading, nil)
            #expect(sqlite3_step(reading) == SQLITE_ROW)
        }
        try handle.turn(tables: ["note"]) {
            let hasTurn = records("own").contains(where: \.hasTurn)
            #expect(hasTurn)
            try raw.execute(Self.insert)
        }
        try await eventually("it is announced") {
            changes.value.contains(isReading ? .fullDatabase : .some(["note"]))
        }
        observation.cancel()
        try handle.detach()
    }

    /// While another program holds the lock of the second database, an announcement does not keep others from writing the first one.
    @Test func announcementsDoNotLockTheFirst() async throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: own.side.path, configuration: configuration)
        configuration.busyMode = .timeout(10)
        let user = try DatabaseQueue(path: own.main.path, configuration: configuration)
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        own.main.announce(.some(["note"]))
        let began = ContinuousClock.now
        // It is tried again and again meanwhile, and holds the lock for 2 ms each time.
        while ContinuousClock.now - began < .milliseconds(300) {
            try await user.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
        }
        #expect(ContinuousClock.now - began < .seconds(5))
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await eventually("it is announced") { changes.value.contains(.some(["note"])) }
        withExtendedLifetime(observation) {}
    }

    /// Opening takes the turn, too.
    @Test func openingInsideOfAWriteOfTheFirst() throws {
        func openThird(turnsOf lender: SharedDatabase) throws {
            var options = SharedDatabase.Options()
            options.turnsOf = lender
            let schema = SharedSchema(migrator())
            _ = try SharedDatabase.open(at: own.url("third"), schema: schema, as: "third", options: options)
        }
        let error = try own.main.write { _ in
            #expect(throws: DatabaseError.self) { try openThird(turnsOf: own.side) }
        }
        #expect(error?.resultCode == .SQLITE_MISUSE)
        // Nor does a closed database lend its turns.
        try own.side.close()
        let closed = #expect(throws: DatabaseError.self) { try openThird(turnsOf: own.side) }
        #expect(closed?.message?.contains("closed") == true, "\(String(describing: closed))")
    }

    /// Without a place in the first one's control block, the participant says so.
    @Test func withoutTurnsOfTheFirst() async throws {
        for db in [other.side, other.main, own.main] { try db.close() }
        let path = own.main.path + ControlBlock.ending
        try? FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try await eventually("it says so") {
            try run(Self.insert, in: own.side)
            return own.side.uncoordinatedReason != nil
        }
        try FileManager.default.removeItem(atPath: path)
        try await eventually("it takes turns again") {
            try run(Self.insert, in: own.side)
            return own.side.uncoordinatedReason == nil
        }
    }

    /// What is still owed when the first database is closed is given up, and not tried again and again.
    @Test func nothingIsOwedAfterClosing() async throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: own.main.path, configuration: configuration)
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        try run(Self.insert, in: own.side)
        try await eventually("it is owed") { own.main.writer.recorder?.owesAnnouncement == true }
        try own.side.close()
        try own.main.close()
        try await eventually("it is given up") { own.main.announcements.withLock { !$0.isScheduled } }
        // Each attempt ends with this.
        own.main.announceOwed()
        #expect(own.main.announcements.withLock { !$0.isScheduled })
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
    }

    /// After the first database was closed, there is nobody to announce to.
    @Test func nothingIsAnnouncedAfterClosing() async throws {
        try own.main.close()
        try run(Self.insert, in: own.side)
        try await eventually("it is given up") { own.main.announcements.withLock { $0.tables == nil } }
        #expect(own.main.writer.recorder?.owesAnnouncement != true)
    }
}

extension LentTurnsTests.Pair {
    func url(_ name: String) -> URL {
        URL(fileURLWithPath: main.path).deletingLastPathComponent().appendingPathComponent("\(name).sqlite")
    }
}
