import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// A second database that takes the turns of the first one, which has it attached (rule W14).
@Suite struct LentTurnsTests {
    let folder: TemporaryFolder
    let process = ProcessSuspension.early()
    let block: ControlBlock
    let own: Pair
    /// Stands for another process.
    let other: Pair

    /// Both databases, as one process opens them.
    struct Pair: Sendable {
        let main: SharedDatabase
        let side: SharedDatabase
    }

    static let insert = "INSERT INTO note (text) VALUES ('A')"
    static let attachedInsert = "INSERT INTO side.note (text) VALUES ('A')"

    init() throws {
        folder = try TemporaryFolder()
        own = try Self.open(folder, "own", process)
        other = try Self.open(folder, "other", process)
        block = try ControlBlock.open(forDatabaseAt: own.main.path, writable: false)
    }

    static func open(
        _ folder: TemporaryFolder,
        _ author: String,
        _ process: ProcessSuspension,
        attaches: Bool = true,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> Pair {
        var options = SharedDatabase.Options()
        options.process = process
        options.busyTimeout = .seconds(60)
        change(&options)
        let sideURL = folder.file("side.sqlite")
        var mainOptions = options
        if attaches {
            mainOptions.configuration.prepareDatabase { db in
                try db.execute(sql: "ATTACH ? AS side", arguments: [sideURL.path])
            }
        }
        let main = try SharedDatabase.open(
            at: folder.file("main.sqlite"),
            schema: SharedSchema(migrator()),
            as: author,
            options: mainOptions
        )
        options.turnsOf = main
        var notes = DatabaseMigrator()
        notes.registerMigration("notes") { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text)") }
        let side = try SharedDatabase.open(at: sideURL, schema: SharedSchema(notes), as: author, options: options)
        // What was migrated is announced soon.
        try eventually("it is announced") { main.announcements.withLock { $0.tables == nil } }
        main.writeWithoutTransaction { _ in }
        return Pair(main: main, side: side)
    }

    /// What a process shows at the first database: for that, or for the second.
    func records(_ author: String) -> [ParticipantRecord] {
        block.participants().filter { $0.author == author }
    }

    /// The one that waits for a write of these tests, if one does. Announcements wait, too.
    func waiter(_ author: String) -> ParticipantRecord? {
        records(author).first { $0.waiting != nil && $0.callSite?.contains("LentTurnsTests") == true }
    }

    /// Another database with the turns of one of these.
    func openThird(turnsOf lender: SharedDatabase) async throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = process
        options.turnsOf = lender
        let url = folder.file("third.sqlite")
        return try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "third", options: options)
    }

    func count(_ db: SharedDatabase) throws -> Int {
        try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note")! }
    }

    func run(_ sql: String, in db: SharedDatabase) throws { try db.write { try $0.execute(sql: sql) } }

    // MARK: The turn

    /// Each function that writes the second database has the turn of the first one while it runs, at its line of code, and waits for it.
    @Test func everyFunctionTakesTheTurn() async throws {
        let (side, block) = (own.side, block)
        @Sendable func note(_ db: Database) throws {
            #expect(block.participants().contains { $0.author == "own" && $0.hasTurn })
            try db.execute(sql: Self.insert)
        }
        let writes: [@Sendable () async throws -> Void] = [
            { try await side.write { try note($0) } },
            { try await side.write(sharesCommit: false) { try note($0) } },
            { try await side.writeWithoutTransaction { try note($0) } },
            { try await side.barrierWriteWithoutTransaction { try note($0) } },
            {
                try await onThread { Result { try side.write { try note($0) } } }.get()
            },
            {
                try await onThread { Result { try side.writeWithoutTransaction { try note($0) } } }.get()
            },
            {
                try await withCheckedThrowingContinuation { continuation in
                    side.asyncWrite {
                        try note($0)
                    } completion: { _, result in
                        continuation.resume(with: result)
                    }
                }
            },
        ]
        for (index, write) in writes.enumerated() {
            let task = try await other.main.whileWriting {
                let task = Task { try await write() }
                try await eventually("function \(index) waits") { waiter("own") != nil }
                #expect(waiter("own")?.callSite?.contains("LentTurnsTests") == true)
                #expect(try count(other.side) == index)
                return task
            }
            try await task.value
        }
        #expect(try count(side) == writes.count)
    }

    /// A write of the first database waits while another process writes the second one.
    @Test func theFirstDatabaseWaitsToo() async throws {
        let (own, other) = (own, other)
        let task = try await other.side.whileWriting {
            let task = Task { try await own.main.write { try $0.execute(sql: Self.attachedInsert) } }
            try await eventually("it waits") { waiter("own") != nil }
            return task
        }
        try await task.value
        #expect(try count(other.side) == 1)
    }

    /// Neither database is ever locked for the other, in two processes with four writers each.
    @Test(.timeLimit(.minutes(1))) func nobodyFindsALock() async throws {
        let pairs = [own, other]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for pair in pairs {
                for _ in 0..<2 {
                    group.addTask {
                        for _ in 0..<100 { try await pair.main.write { try $0.execute(sql: Self.attachedInsert) } }
                    }
                    group.addTask {
                        for _ in 0..<100 { try await pair.side.write { try $0.execute(sql: Self.insert) } }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try count(own.side) == 800)
    }

    /// An asynchronous write that waits for the turn of the first database can be cancelled.
    @Test func cancelling() async throws {
        let side = own.side
        for sharesCommit in [true, false] {
            try await other.main.whileWriting {
                let task = Task {
                    try await side.write(sharesCommit: sharesCommit) { try $0.execute(sql: Self.insert) }
                }
                try await eventually("it waits") { waiter("own") != nil }
                task.cancel()
                let began = ContinuousClock.now
                await #expect(throws: CancellationError.self) { try await task.value }
                // And not at the end of the busy timeout, of a minute.
                #expect(ContinuousClock.now - began < .seconds(30))
            }
        }
        try run(Self.insert, in: side)
        #expect(try count(side) == 1)
    }

    /// A write of the second database cannot begin inside of one of the first, which has the turn.
    @Test func insideOfAWriteOfTheFirst() throws {
        let error = try own.main.write { _ in #expect(throws: DatabaseError.self) { try run(Self.insert, in: own.side) }
        }
        #expect(error?.resultCode == .SQLITE_MISUSE)
        #expect(error?.message?.contains("takes the turns of \(own.main.path)") == true)
        // Reads do.
        #expect(try own.main.write { _ in try count(own.side) } == 0)
        #expect(try own.side.write { _ in try own.main.read { try Player.fetchCount($0) } } == 0)
        try run(Self.insert, in: own.side)
        #expect(try count(own.side) == 1)
    }

    /// Without the first database, the second one is written without its turns.
    @Test func afterTheFirstWasClosed() async throws {
        try own.main.close()
        try run(Self.insert, in: own.side)
        try await own.side.write { try $0.execute(sql: Self.insert) }
        #expect(try count(other.side) == 2)
    }

    /// A database does not take its own turns twice.
    @Test func theSameDatabase() throws {
        var options = SharedDatabase.Options()
        options.turnsOf = own.main
        options.patience = .seconds(60)
        let same = try SharedDatabase.open(
            at: folder.file("main.sqlite"),
            schema: SharedSchema(migrator()),
            as: "same",
            options: options
        )
        try same.insert("A")
        #expect(try own.main.names() == ["A"])
    }

    /// The priority of a write is that of the ticket for the other turn.
    @Test(arguments: SharedDatabase.TurnPriority.allCases, [false, true])
    func priority(_ priority: SharedDatabase.TurnPriority, sharesCommit: Bool) async throws {
        let side = own.side
        let task = try await other.main.whileWriting {
            let task = Task {
                try await side.write(priority: priority, sharesCommit: sharesCommit) {
                    try $0.execute(sql: Self.insert)
                }
            }
            try await eventually("it waits") { waiter("own") != nil }
            #expect(waiter("own")?.priority == priority.rawValue)
            return task
        }
        try await task.value
    }

    /// A barrier of the first one, and a read of it inside of a write of the second, do not wait for each other for long.
    @Test(.timeLimit(.minutes(1))) func barriers() async throws {
        let (main, side) = (own.main, own.side)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<5 {
                group.addTask { try await onThread { Result { try side.write { _ in try main.read { _ in } } } }.get() }
                group.addTask {
                    try await onThread { Result { try main.barrierWriteWithoutTransaction { _ in } } }.get()
                }
            }
            try await group.waitForAll()
        }
    }

    /// A write with a deadline does not wait for a write of the first one of the same process.
    @Test func deadline() async throws {
        let side = own.side
        let refusal = try await own.main.whileWriting {
            var write = side.blockingWrite()
            write.deadline = MonotonicClock.now &+ 50_000_000
            return try await onThread { [write] in Result { try side.attemptUntilDeadline(write) { _ in } } }.get()
        }
        // It found SQLite's lock, or had no time for it.
        if let refusal, case .failed(let error) = refusal { Issue.record(error) }
    }

    /// A chain of databases takes all turns.
    @Test func aChain() async throws {
        let third = try await openThird(turnsOf: own.side)
        let refused = try await own.main.write { _ in #expect(throws: DatabaseError.self) { try third.insert("A") } }
        #expect(refused?.resultCode == .SQLITE_MISUSE)
        #expect(refused?.message?.contains("\(third.path) takes the turns of \(own.main.path)") == true, "\(refused!)")
        let task = try await other.main.whileWriting {
            let task = Task { try await third.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") } }
            try await eventually("it waits") { waiter("third") != nil }
            return task
        }
        try await task.value
    }

    // MARK: Observation

    enum Failure: String, CaseIterable { case none, afterCommit }

    /// Observers of the first database see commits to the second one, in this process and in others, with the names of the tables.
    @Test(arguments: Failure.allCases) func theFirstSeesTheSecond(_ failure: Failure) async throws {
        struct Failed: Error {}
        let seen = [own.main, other.main].map { db in (db, Shared<[DatabaseChange.Tables]>([])) }
        var observations: [AnyDatabaseCancellable] = []
        let values = Shared<[Int]>([])
        let writerCalls = Shared(0)
        for (db, changes) in seen {
            observations.append(
                try db.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) } }
            )
        }
        observations.append(
            ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT count(*) FROM side.note")! }.start(
                in: own.main,
                scheduling: .async(onQueue: DispatchQueue(label: "values")),
                onError: { Issue.record($0) },
                onChange: { value in values.change { $0.append(value) } }
            )
        )
        observations.append(
            DatabaseRegionObservation(tracking: Table("note")).start(
                in: own.main,
                onError: { Issue.record($0) },
                onChange: { _ in writerCalls.change { $0 += 1 } }
            )
        )
        try await eventually("the first value") { values.value == [0] }
        switch failure {
        case .none: try run(Self.insert, in: own.side)
        case .afterCommit:
            #expect(throws: Failed.self) {
                try own.side.writeWithoutTransaction { db in
                    try db.execute(sql: Self.insert)
                    throw Failed()
                }
            }
        }
        for (db, changes) in seen {
            try await eventually("\(db.author) sees it") { changes.value == [.some(["note"])] }
        }
        try await eventually("the value") { values.value.last == 1 }
        try await eventually("the observer of the writer") { writerCalls.value == 1 }
        withExtendedLifetime(observations) {}
    }

    /// A change of the second database's schema may be anything.
    @Test func unknownTables() async throws {
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        try run("CREATE TABLE more (a)", in: own.side)
        try await eventually("it is seen") { changes.value == [.fullDatabase] }
        // What is rolled back, or only read, is none.
        try await own.side.writeWithoutTransaction { db in
            try db.inTransaction {
                try db.execute(sql: Self.insert)
                return .rollback
            }
        }
        try await own.side.writeWithoutTransaction { _ = try Int.fetchOne($0, sql: "SELECT count(*) FROM note") }
        try run(Self.insert, in: own.side)
        try await eventually("the row is seen") { changes.value.count == 2 }
        #expect(changes.value.last == .some(["note"]))
        withExtendedLifetime(observation) {}
    }

    /// What the second database is migrated to when it is opened is announced, too.
    @Test func migrations() async throws {
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        let third = try await openThird(turnsOf: own.main)
        try await eventually("it is seen") { changes.value == [.fullDatabase] }
        // Opening it again changes nothing.
        try third.close()
        _ = try await openThird(turnsOf: own.main)
        try run(Self.insert, in: own.side)
        try await eventually("the row is seen") { changes.value.last == .some(["note"]) }
        #expect(changes.value.count == 2)
        withExtendedLifetime(observation) {}
    }

    /// All transactions of a write are announced, and a replacement of the content.
    @Test func severalTransactionsAndAReplacement() async throws {
        try run("CREATE TABLE more (a)", in: own.side)
        let source = folder.file("source.sqlite")
        try own.side.backup(to: DatabaseQueue(path: source.path))
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        try await own.side.writeWithoutTransaction { db in
            try db.execute(sql: Self.insert)
            try db.execute(sql: "INSERT INTO more VALUES (1)")
        }
        try await eventually("both are seen") { changes.value == [.some(["note", "more"])] }
        try await own.side.replaceContent(with: source)
        try await eventually("the replacement is seen") { changes.value.last == .fullDatabase }
        withExtendedLifetime(observation) {}
    }

    /// Observers of the second database see what the first one's connections write to it.
    @Test func theSecondSeesTheFirst() async throws {
        let values = [own.side, other.side].map { db in (db, Shared<[Int]>([])) }
        let observations = values.map { db, values in
            ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT count(*) FROM note")! }.start(
                in: db,
                scheduling: .async(onQueue: DispatchQueue(label: "values")),
                onError: { Issue.record($0) },
                onChange: { value in values.change { $0.append(value) } }
            )
        }
        for (_, values) in values { try await eventually("the first value") { values.value == [0] } }
        try run(Self.attachedInsert, in: own.main)
        for (db, values) in values {
            try await eventually("\(db.author) sees it", within: .seconds(10)) { values.value.last == 1 }
        }
        withExtendedLifetime(observations) {}
    }

    /// Another program's lock on the first database delays an announcement, and does not lose it.
    @Test func announcedLate() async throws {
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let quick = try Self.open(folder, "quick", process) { $0.busyTimeout = .milliseconds(50) }
        let stranger = try DatabaseQueue(path: own.main.path, configuration: configuration)
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        try run(Self.insert, in: quick.side)
        try await eventually("it was tried") { quick.main.announcements.withLock { $0.tables == nil } }
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await eventually("it is announced") { changes.value == [.some(["note"])] }
        withExtendedLifetime(observation) {}
    }

    /// So does a turn of another process that takes longer than an announcement may wait.
    @Test func announcedAfterALongTurn() async throws {
        let changes = Shared<[DatabaseChange.Tables]>([])
        let observation = try other.main.observeChanges(on: nil) { change in changes.change { $0.append(change.tables) }
        }
        let quick = try Self.open(folder, "quick", process) { $0.busyTimeout = .milliseconds(50) }
        try await other.main.whileWriting {
            quick.main.announce(.some(["note"]))
            quick.main.announce(.some(["more"]))
            try await eventually("it waits") { records("quick").contains { $0.waiting != nil } }
            try await eventually("it gives up") { records("quick").allSatisfy { $0.waiting == nil } }
        }
        try await eventually("both are announced together") { changes.value == [.some(["note", "more"])] }
        withExtendedLifetime(observation) {}
    }
}
