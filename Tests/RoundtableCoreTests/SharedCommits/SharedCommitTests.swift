import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Asynchronous writes that wait at the same time are committed together, each with a result of its own (rules M).
@Suite struct SharedCommitTests {
    private struct Failure: Error, Equatable { var name: String }

    private func code(_ result: Result<Int, any Error>) -> ResultCode? {
        if case .failure(let error as DatabaseError) = result { error.extendedResultCode } else { nil }
    }

    @Test func writesThatWaitShareACommit() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        for number in 1...20 { world.insert("\(number)") }
        world.release()
        let results = await world.results()
        #expect(try results.map { try $0.get() } == Array(1...20))
        // They ran in order.
        #expect(try world.names == (1...20).map(String.init))
        // Two transactions are expected: the lone write, and the group. The group's slice may be over before all have run, on a busy machine.
        #expect(world.commits.value < 10)
    }

    @Test func sharingCanBeTurnedOff() async throws {
        for isByOption in [true, false] {
            let world = try SharedCommitWorld { $0.sharesCommits = !isByOption }
            for number in 1...5 {
                world.add(sharing: isByOption ? nil : false) { db in
                    try db.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: ["\(number)"])
                    return 0
                }
            }
            for task in world.tasks { _ = try await task.value }
            #expect(world.commits.value == 5)
        }
    }

    /// Rules M2, M4: what one closure throws, or leaves undone, is its own.
    @Test(arguments: [true, false]) func anErrorIsItsOwn(isFirst: Bool) async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        if !isFirst { world.insert("a") }
        world.add { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('lost')")
            throw Failure(name: "mine")
        }
        world.insert("b")
        world.add { db in
            try db.execute(sql: "INSERT INTO child VALUES (77)")
            return 0
        }
        world.add { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES (NULL)")
            return 0
        }
        world.insert("c")
        // A closure may throw what Swift throws for a cancelled task.
        world.add { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('given up')")
            throw CancellationError()
        }
        world.release()
        var results = await world.results()
        if !isFirst { _ = try results.removeFirst().get() }
        #expect(throws: Failure(name: "mine")) { try results[0].get() }
        _ = try results[1].get()
        #expect(code(results[2]) == .SQLITE_CONSTRAINT_FOREIGNKEY)
        #expect(code(results[3]) == .SQLITE_CONSTRAINT_NOTNULL)
        _ = try results[4].get()
        #expect(throws: CancellationError.self) { try results[5].get() }
        #expect(try world.names == (isFirst ? ["b", "c"] : ["a", "b", "c"]))
        let children = try await world.db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM child") }
        #expect(children == 0)
    }

    /// The error is that of SQLite's own commit, and has no effect on the other writes.
    @Test func theErrorOfAForeignKeyIsThatOfACommit() async throws {
        let world = try SharedCommitWorld()
        let insert: @Sendable (Database) throws -> Int = { db in
            try db.execute(sql: "INSERT INTO child VALUES (77)")
            return 0
        }
        let alone = await #expect(throws: DatabaseError.self) { _ = try await world.db.write(insert) }
        let runs = Shared(0)
        world.keepWriterBusy()
        world.add { db in
            runs.change { $0 += 1 }
            try db.execute(sql: "INSERT INTO player (name) VALUES ('a')")
            return 0
        }
        world.add(insert)
        world.release()
        let results = await world.results()
        _ = try results[0].get()
        #expect(runs.value == 1, "the part is undone before the commit, which would undo the other one as well")
        let shared = #expect(throws: DatabaseError.self) { try results[1].get() }
        #expect(shared?.extendedResultCode == alone?.extendedResultCode)
        #expect(shared?.message == alone?.message)
        #expect(shared?.sql == alone?.sql)
    }

    /// Rules M5, M5a: when a closure ends the transaction, the writes that had run fail with an error that says which write caused it. The other
    /// writes are not affected. No closure runs twice. From then on, the closure has a transaction of its own.
    @Test(arguments: [
        "INSERT OR ROLLBACK INTO player (id, name) VALUES (900, 'x'), (900, 'y')", "ROLLBACK", "COMMIT",
        "INSERT INTO guarded VALUES (1)", "RELEASE roundtable_part",
        "ROLLBACK TO roundtable_part; RELEASE roundtable_part", "ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT roundtable_part",
    ])
    func aClosureThatEndsTheTransaction(sql: String) async throws {
        let runs = Shared<[String: Int]>([:])
        let write: @Sendable (String, Database) throws -> Int = { name, db in
            runs.change { $0[name, default: 0] += 1 }
            if name == "bad" { try db.execute(sql: sql) }
            try db.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: [name])
            return 0
        }
        let world = try SharedCommitWorld()
        try await world.db.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE guarded (id);
                    CREATE TRIGGER guard BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'guarded'); END
                    """
            )
        }
        for isFirstTime in [true, false] {
            runs.change { $0 = [:] }
            let old = world.tasks.count
            world.keepWriterBusy()
            for (line, name) in [(2, "a"), (3, "bad"), (4, "b")] as [(UInt, String)] {
                world.add(line: line) { try write(name, $0) }
            }
            world.release()
            let results = Array(await world.results().dropFirst(old))
            #expect(runs.value == ["a": 1, "bad": 1, "b": 1])
            _ = try results[2].get()
            if isFirstTime {
                let loss = #expect(throws: DatabaseError.self) { try results[0].get() }
                #expect(loss?.extendedResultCode == .SQLITE_ABORT_ROLLBACK)
                #expect(loss?.message?.contains("the write at Test.swift:3, which shared the transaction") == true)
                #expect(throws: DatabaseError.self) { try results[1].get() }
                #expect(try world.names == ["b"])
            } else {
                _ = try results[0].get()
                // A transaction that the closure has begun itself is committed, as when it is alone.
                if sql.contains("BEGIN IM") {
                    _ = try results[1].get()
                } else {
                    #expect(throws: DatabaseError.self) { try results[1].get() }
                }
                #expect(
                    try world.names.sorted() == (sql.contains("BEGIN IM") ? ["a", "b", "b", "bad"] : ["a", "b", "b"])
                )
            }
        }
    }

    /// Rule M5: an error that may be the consequence of rows that are undone does not stand; an earlier one does.
    @Test func errorsBeforeTheEnd() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        let insert: @Sendable (Database) throws -> Int = { db in
            try db.execute(sql: "INSERT INTO player (id, name) VALUES (500, 'x')")
            return 0
        }
        world.add(line: 2) { _ in throw Failure(name: "own") }
        world.add(line: 3, insert)
        world.add(line: 4, insert)
        world.add(line: 5) { db in
            try db.execute(sql: "ROLLBACK")
            throw Failure(name: "end")
        }
        world.release()
        let results = await world.results()
        // Nothing was in the transaction before it: the write that keeps the writer busy has one of its own.
        #expect(throws: Failure(name: "own")) { try results[0].get() }
        #expect(code(results[1]) == .SQLITE_ABORT_ROLLBACK)
        #expect(code(results[2]) == .SQLITE_ABORT_ROLLBACK, "the row that is there already is not there")
        #expect(throws: Failure(name: "end")) { try results[3].get() }
    }

    /// Rule M5a: a lone write that ends its transaction has no effect on other writes, and is noted.
    @Test func aLoneWriteThatEndsItsTransaction() async throws {
        let world = try SharedCommitWorld()
        world.add(line: 3) { db in
            try db.execute(sql: "ROLLBACK")
            return 0
        }
        #expect(code(await world.tasks[0].result) == .SQLITE_ABORT)
        world.keepWriterBusy()
        world.insert("a")
        world.add(line: 3) { db in
            try db.execute(sql: "ROLLBACK")
            return 0
        }
        world.release()
        let results = await world.results()
        _ = try results[1].get()
        #expect(code(results[2]) == .SQLITE_ABORT)
        #expect(try world.names == ["a"])
    }

    /// Rule M5: an interruption that SQLite survives is that of one closure. If it ends the transaction, all its writes fail with its code.
    @Test(arguments: [true, false]) func anInterruption(ofRead isRead: Bool) async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        let isRunning = Shared(false)
        world.insert("a")
        world.add(line: 3) { db in
            db.add(
                function: DatabaseFunction("mark", argumentCount: 1) { _ in
                    isRunning.change { $0 = true }
                    return 1
                }
            )
            let numbers = "WITH RECURSIVE n (i) AS (SELECT mark(1) UNION ALL SELECT i + 1 FROM n LIMIT 1000000000)"
            if isRead { return try Int.fetchOne(db, sql: "\(numbers) SELECT max(i) FROM n")! }
            try db.execute(sql: "\(numbers) INSERT INTO player (name) SELECT 'x' FROM n WHERE i < 0")
            return 0
        }
        world.insert("b")
        world.release()
        isRunning.wait { $0 }
        world.db.interrupt()
        let results = await world.results()
        #expect(code(results[1]) == .SQLITE_INTERRUPT)
        _ = try results[2].get()
        if isRead {
            _ = try results[0].get()
            #expect(try world.names == ["a", "b"])
        } else {
            let loss = #expect(throws: DatabaseError.self) { try results[0].get() }
            #expect(loss?.resultCode == .SQLITE_INTERRUPT)
            #expect(loss?.message?.contains("Test.swift:3") == true)
            #expect(try world.names == ["b"])
        }
        // An interruption is not caused by the closure, so that it may share again.
        #expect(!world.db.sharedCommits.hasEnding(at: CallSite("Test.swift", 3)))
    }

    /// `afterNextTransaction` reports the outcome of the transaction of its closure, once.
    @Test(arguments: ["INSERT OR ROLLBACK INTO player (id, name) VALUES (900, 'x'), (900, 'y')", "ROLLBACK"])
    func completionsAreReported(sql: String) async throws {
        let world = try SharedCommitWorld()
        let completions = Shared<[String]>([])
        world.keepWriterBusy()
        for (line, name) in [(2, "a"), (3, "bad"), (4, "b")] as [(UInt, String)] {
            world.add(line: line) { db in
                db.afterNextTransaction(
                    onCommit: { _ in completions.change { $0.append("\(name) commit") } },
                    onRollback: { _ in completions.change { $0.append("\(name) rollback") } }
                )
                try db.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: [name])
                if name == "bad" {
                    try db.execute(sql: sql)
                    throw Failure(name: name)
                }
                return 0
            }
        }
        world.release()
        _ = await world.results()
        try await world.db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('last')") }
        #expect(try world.names == ["b", "last"])
        #expect(completions.value.sorted() == ["a rollback", "b commit", "bad rollback"])
    }

    /// The rollback of a write that shares nothing is reported in the same way, although GRDB does not report it.
    @Test func theCompletionOfABlockingWrite() throws {
        let world = try SharedCommitWorld()
        let completions = Shared<[String]>([])
        #expect(throws: DatabaseError.self) {
            try world.db.write { db in
                db.afterNextTransaction(
                    onCommit: { _ in completions.change { $0.append("commit") } },
                    onRollback: { _ in completions.change { $0.append("rollback") } }
                )
                try db.execute(sql: "INSERT OR ROLLBACK INTO player (id, name) VALUES (900, 'x'), (900, 'y')")
            }
        }
        try world.db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('a')") }
        #expect(completions.value == ["rollback"])
    }

    /// The first write has no savepoint when no other one waits. If it ends the transaction, writes that come meanwhile do not join it.
    @Test(arguments: ["ROLLBACK", "ROLLBACK; BEGIN IMMEDIATE"])
    func theFirstClosureEndsTheTransaction(sql: String) async throws {
        let world = try SharedCommitWorld()
        let isRunning = Shared(false)
        let mayEnd = Shared(false)
        world.keepWriterBusy()
        world.add { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('lost')")
            isRunning.change { $0 = true }
            mayEnd.wait { $0 }
            try db.execute(sql: sql)
            return 0
        }
        world.release()
        isRunning.wait { $0 }
        world.insert("b")
        mayEnd.change { $0 = true }
        let results = await world.results()
        if sql.contains("BEGIN") {
            _ = try results[0].get()
            // Three transactions are expected: the write that keeps the writer busy, the transaction that the closure has begun, and the one of "b".
            #expect(world.commits.value == 3)
        } else {
            #expect(code(results[0]) == .SQLITE_ABORT)
        }
        _ = try results[1].get()
        #expect(try world.names == ["b"])
    }

    /// Rule M5: the veto of an observer does not show which write caused it.
    @Test func aVetoIsEveryones() async throws {
        let world = try SharedCommitWorld()
        final class Veto: TransactionObserver {
            var isBad = false
            func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
                if case .insert(let table) = eventKind { table == "child" } else { false }
            }
            func databaseDidChange(with event: DatabaseEvent) { isBad = true }
            func databaseWillCommit() throws { if isBad { throw Failure(name: "veto") } }
            func databaseDidCommit(_ db: Database) { isBad = false }
            func databaseDidRollback(_ db: Database) { isBad = false }
        }
        try await world.db.write { $0.add(transactionObserver: Veto(), extent: .databaseLifetime) }
        world.keepWriterBusy()
        world.insert("a")
        world.add { db in
            try db.execute(sql: "INSERT INTO player (id, name) VALUES (500, 'x')")
            try db.execute(sql: "INSERT INTO child VALUES (500)")
            return 0
        }
        world.insert("b")
        world.release()
        for result in await world.results() { #expect(throws: Failure(name: "veto")) { try result.get() } }
        #expect(try world.names == [])
    }

    /// Rule M9: a cancelled write that has not begun is taken out of its group.
    @Test func cancellingTakesOutWhatHasNotBegun() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        for name in ["a", "b", "c"] { world.insert(name) }
        world.tasks[2].cancel()
        // It ends although the writer is busy.
        await #expect(throws: CancellationError.self) { try await world.tasks[2].value }
        world.release()
        let results = await world.results()
        _ = try results[0].get()
        _ = try results[2].get()
        #expect(try world.names == ["a", "c"])
    }

    @Test func aCancelledTaskDoesNotJoin() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        world.insert("a")
        let task = Task { [db = world.db] in
            withUnsafeCurrentTask { $0?.cancel() }
            try await db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('never')") }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        world.release()
        _ = await world.results()
        #expect(try world.names == ["a"])
    }

    @TaskLocal private static var value = 0

    /// The closure runs in the task of its caller.
    @Test func taskLocalValues() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        for number in 1...5 {
            Self.$value.withValue(number) { world.add { _ in Self.value } }
        }
        world.release()
        let results = await world.results()
        #expect(try results.map { try $0.get() } == Array(1...5))
    }

    /// Rule M7: the requests of one thread keep their order.
    @Test func anAsyncWriteIsNotOvertaken() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        world.insert("a")
        world.db.asyncWrite({ try $0.execute(sql: "INSERT INTO player (name) VALUES ('b')") }, completion: { _, _ in })
        world.insert("c")
        world.db.asyncWriteWithoutTransaction { db in
            #expect(throws: Never.self) { try db.execute(sql: "INSERT INTO player (name) VALUES ('d')") }
        }
        world.insert("e")
        world.release()
        for result in await world.results() { _ = try result.get() }
        #expect(try world.names == ["a", "b", "c", "d", "e"])
    }

    /// A lock that a stranger holds for longer than the timeout fails all waiting writes, and the error names the stranger.
    @Test func theTimeoutFailsAll() async throws {
        let world = try SharedCommitWorld { $0.busyMode = .timeout(.milliseconds(50)) }
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: world.db.path, configuration: configuration)
        try stranger.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
        world.keepWriterBusy()
        for name in ["a", "b"] { world.insert(name) }
        world.release()
        for result in await world.results() {
            #expect(code(result)?.primaryResultCode == .SQLITE_BUSY)
        }
        try stranger.inDatabase { try $0.execute(sql: "COMMIT") }
        try await world.db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('c')") }
        #expect(try world.names == ["c"])
    }

    /// A table that an undone closure made is unknown to the next one.
    @Test func anUndoneChangeOfTheSchema() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        world.insert("a")
        world.add { db in
            try db.execute(sql: "CREATE TABLE made (id INTEGER PRIMARY KEY)")
            _ = try db.columns(in: "made")
            throw Failure(name: "after DDL")
        }
        world.add { db in try db.tableExists("made") ? 1 : 0 }
        world.add { db in
            try db.execute(sql: "CREATE TABLE made (id INTEGER PRIMARY KEY, other)")
            return try db.columns(in: "made").count
        }
        world.release()
        let results = await world.results()
        #expect(throws: Failure.self) { try results[1].get() }
        #expect(try results[2].get() == 0)
        #expect(try results[3].get() == 2)
    }

    /// A column that an undone closure added is unknown to the next closure, although GRDB has cached the table's columns.
    @Test func anUndoneColumn() async throws {
        let world = try SharedCommitWorld()
        let before = try await world.db.read { try $0.columns(in: "player").count }
        world.keepWriterBusy()
        world.insert("a")
        world.add { db in
            try db.execute(sql: "ALTER TABLE player ADD COLUMN undone")
            let count = try db.columns(in: "player").count
            throw Failure(name: "\(count) columns")
        }
        world.add { db in try db.columns(in: "player").count }
        world.release()
        let results = await world.results()
        let failure = try #require(throws: Failure.self) { try results[1].get() }
        #expect(failure.name == "\(before + 1) columns")
        #expect(try results[2].get() == before)
    }

    /// When all writes fail, there is nothing to commit.
    @Test func allFail() async throws {
        let world = try SharedCommitWorld()
        world.keepWriterBusy()
        for number in 1...5 {
            world.add { db in
                try db.execute(sql: "INSERT INTO player (name) VALUES ('lost')")
                throw Failure(name: "\(number)")
            }
        }
        world.release()
        for (number, result) in await world.results().enumerated() {
            #expect(throws: Failure(name: "\(number + 1)")) { try result.get() }
        }
        #expect(world.commits.value == 1)
        #expect(try world.names == [])
    }
}

extension Task where Failure == any Error {
    /// The result, for which the calling thread waits.
    func wait() -> Result<Success, any Error> {
        let result = Shared<Result<Success, any Error>?>(nil)
        Task<Void, Never> { [self] in
            let value = await self.result
            result.change { $0 = value }
        }
        result.wait { $0 != nil }
        return result.value!
    }
}
