import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

/// Two participants notify each other: here in one process, which shares the control block like any two.
@Suite struct ChangesTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private var block: String { ControlBlock.path(forDatabaseAt: url.path) }

    private func open(_ author: String) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author)
    }

    private func openReadOnly(_ author: String) throws -> SharedDatabase {
        guard case .available(let db) = try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: author) else {
            throw SharedDatabaseError.notAFile(path: url.path, reason: "is not there")
        }
        return db
    }

    /// The changes so far, in their order.
    private final class Log: Sendable {
        private let changes = Shared<[DatabaseChange]>([])
        private let cancellable = Shared<AnyDatabaseCancellable?>(nil)

        init(_ db: SharedDatabase, in regions: any DatabaseRegionConvertible...) throws {
            let queue = DispatchQueue(label: "log")
            let region = regions.isEmpty ? [DatabaseRegion.fullDatabase] : regions
            let any = AnyDatabaseRegionConvertible { db in
                try region.reduce(into: DatabaseRegion()) { try $0.formUnion($1.databaseRegion(db)) }
            }
            let cancellable = try db.observeChanges(in: any, on: queue) { [changes] change in
                changes.change { $0.append(change) }
            }
            self.cancellable.change { $0 = cancellable }
        }

        var all: [DatabaseChange] { changes.value }
        func cancel() { cancellable.value?.cancel() }
    }

    @Test func aCommitIsReportedToAll() async throws {
        let a = try open("a")
        let b = try open("b")
        let c = try openReadOnly("c")
        let logs = try [Log(a), Log(b), Log(c)]
        for index in 0..<3 {
            try await (index == 1 ? b : a).write { db in _ = try Player(name: "\(index)").inserted(db) }
        }
        for (log, own) in zip(logs, ["a", "b", "c"]) {
            try await eventually("three changes") { log.all.count == 3 }
            let changes = log.all
            #expect(changes.map(\.author) == ["a", "b", "a"])
            #expect(changes.map(\.isOwn) == ["a", "b", "a"].map { $0 == own })
            #expect(changes.allSatisfy { $0.tables == .some(["player"]) && $0.detail == .commit && $0.pid == getpid() })
            #expect(changes[1].sequence == changes[0].sequence + 1 && changes[2].sequence == changes[0].sequence + 2)
            #expect(changes.allSatisfy { abs($0.time.timeIntervalSinceNow) < 60 })
        }
    }

    @Test func onlyTheRegionIsReported() async throws {
        let a = try open("a")
        let b = try open("b")
        try await a.write { try $0.execute(sql: "CREATE TABLE team (id INTEGER PRIMARY KEY)") }
        let log = try Log(b, in: Table("team"))
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await a.write { try $0.execute(sql: "INSERT INTO team DEFAULT VALUES") }
        try await eventually("a change") { !log.all.isEmpty }
        #expect(log.all.map(\.tables) == [.some(["team"])])
        log.cancel()
        try await a.write { try $0.execute(sql: "INSERT INTO team DEFAULT VALUES") }
        let after = try Log(b)
        try await a.write { try $0.execute(sql: "INSERT INTO team DEFAULT VALUES") }
        try await eventually("a change") { !after.all.isEmpty }
        #expect(log.all.count == 1)
    }

    @Test func theSequenceEnds() async throws {
        let a = try open("a")
        let b = try open("b")
        let task = Task {
            var count = 0
            for try await _ in b.changes() { count += 1 }
            return count
        }
        try await eventually("a change") {
            try await a.write { db in _ = try Player(name: "A").inserted(db) }
            task.cancel()
            return true
        }
        _ = try await task.value

        let changes = b.changes()
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try b.close()
        var received = 0
        for try await _ in changes { received += 1 }
        #expect(received <= 1)
        await #expect(throws: DatabaseError.self) { for try await _ in b.changes() {} }
    }

    /// Rule N6: a slow consumer gets several missed changes as one.
    @Test func aSlowConsumerLearnsThatItMissedDetail() async throws {
        let a = try open("a")
        let b = try open("b")
        var iterator = b.changes(in: Table("player")).makeAsyncIterator()
        let fast = try Log(b)
        for index in 0..<300 { try await a.write { db in _ = try Player(name: "\(index)").inserted(db) } }
        try await eventually("another consumer receives all") {
            fast.all.first.map { $0.sequence + 299 } == fast.all.last?.sequence
        }
        var changes: [DatabaseChange] = []
        while changes.count < 256, let change = try await iterator.next() { changes.append(change) }
        #expect(changes[0..<255].allSatisfy { $0.detail == .commit })
        #expect(changes[255].detail == .several)
        #expect(changes[255].sequence == changes[0].sequence + 299)
        #expect(changes[255].author == "a" && changes[255].tables == .some(["player"]))
    }

    /// A sequence begins with the call, and not with the first iteration.
    @Test func changesBeginWithTheCall() async throws {
        let (a, b, c) = (try open("a"), try open("b"), try open("c"))
        try await a.write { db in _ = try Player(name: "before the call").inserted(db) }
        let changes = b.changes(in: Table("player"))
        try await c.write { db in _ = try Player(name: "after the call").inserted(db) }
        let authors = Shared<[String?]>([])
        let task = Task {
            for try await change in changes { authors.change { $0.append(change.author) } }
        }
        try await eventually("a change") { !authors.value.isEmpty }
        #expect(authors.value == ["c"])
        task.cancel()
        try await task.value
    }

    /// Consumers that run on the thread that delivers changes may do what other consumers may: also end, and close the database.
    @Test func consumersOnTheThreadOfNews() async throws {
        let a = try open("a")
        let b = try open("b")
        let counts = Shared((task: 0, call: 0))
        let changes = b.changes(in: Table("player"))
        let task = Task(executorPreference: ChangesExecutor.shared) {
            for try await _ in changes {
                counts.change { $0.task += 1 }
                _ = try await b.read { try Player.fetchCount($0) }
                if counts.value.task == 3 { break }
            }
        }
        let cancellable = Shared<AnyDatabaseCancellable?>(nil)
        let observation = try b.observeChanges(on: nil) { _ in
            counts.change { $0.call += 1 }
            if counts.value.call == 2 { cancellable.value?.cancel() }
        }
        cancellable.change { $0 = observation }
        for round in 1...4 {
            try await a.write { db in _ = try Player(name: "A").inserted(db) }
            try await eventually("round \(round)") {
                counts.value.task >= min(round, 3) && counts.value.call >= min(round, 2)
            }
        }
        try await task.value
        #expect(counts.value.call == 2)

        let isClosed = Shared(false)
        let closing = try b.observeChanges(on: nil) { _ in
            try? b.close()
            isClosed.change { $0 = true }
        }
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("closed") { isClosed.value }
        closing.cancel()
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
    }

    // MARK: What is written

    /// Each kind of write, and the tables that must be reported. The value nil stands for any tables.
    static let writes: [(String, Set<String>?)] = [
        ("INSERT INTO keyed VALUES ('a', 1)", ["keyed"]),
        ("DELETE FROM player", ["player"]),
        (
            "UPDATE player SET score = score + 1 WHERE name = 'nobody'; INSERT INTO keyed VALUES ('b', 1)",
            ["keyed"]
        ),
        ("INSERT INTO source VALUES (1)", ["source", "target"]),
        ("DELETE FROM parent", ["parent", "child"]),
        ("INSERT INTO document VALUES ('hello')", ["document", "document_content", "document_data"]),
        ("CREATE TABLE more (id INTEGER)", nil),
        ("ALTER TABLE player ADD COLUMN more", nil),
        ("INSERT INTO keyed VALUES ('c', 1); DROP TABLE more", nil),
        ("DROP VIEW names", nil),
        ("INSERT INTO keyed VALUES ('d', 1); CREATE TRIGGER t2 AFTER INSERT ON keyed BEGIN SELECT 1; END", nil),
        ("PRAGMA user_version = 7", nil),
        (
            "SAVEPOINT a; INSERT INTO player(name) VALUES ('x'); ROLLBACK TO a; RELEASE a; INSERT INTO keyed VALUES ('e', 1)",
            ["keyed"]
        ),
        ("INSERT INTO other.attached VALUES (1)", ["attached"]),
        ("INSERT INTO other.attached VALUES (1); INSERT INTO keyed VALUES ('f', 1)", ["attached", "keyed"]),
        ("INSERT INTO \"odd \"\"name\" VALUES (1)", ["odd \"name"]),
    ]

    @Test(arguments: [false, true]) func everyKindOfWriteIsNoticed(inTransaction: Bool) async throws {
        var options = SharedDatabase.Options()
        let other = folder.file("other.sqlite").path
        try DatabasePool(path: other).close()
        options.configuration.prepareDatabase { db in
            try db.execute(sql: "ATTACH DATABASE ? AS other", arguments: [other])
        }
        let a = try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "a", options: options)
        try await a.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE keyed (name TEXT PRIMARY KEY, score INTEGER) WITHOUT ROWID;
                    CREATE TABLE source (id INTEGER);
                    CREATE TABLE target (id INTEGER);
                    CREATE TRIGGER copies AFTER INSERT ON source BEGIN INSERT INTO target VALUES (NEW.id); END;
                    CREATE TABLE parent (id INTEGER PRIMARY KEY);
                    CREATE TABLE child (parent INTEGER REFERENCES parent ON DELETE CASCADE);
                    CREATE VIRTUAL TABLE document USING fts5(text);
                    CREATE VIEW names AS SELECT name FROM player;
                    CREATE TABLE "odd ""name" (id INTEGER);
                    CREATE TABLE other.attached (id INTEGER);
                    INSERT INTO parent VALUES (1);
                    INSERT INTO player(name) VALUES ('A');
                    """
            )
        }
        let log = try Log(try openReadOnly("b"))
        for (sql, expected) in Self.writes {
            let before = log.all.count
            if inTransaction {
                try await a.write { try $0.execute(sql: sql) }
            } else {
                try await a.writeWithoutTransaction { try $0.execute(sql: sql) }
            }
            // Without a transaction, each statement is a commit.
            try await eventually("\(sql) is noticed") {
                let names = log.all[before...].map(\.tableNames)
                guard let expected else { return names.contains(nil) }
                return names.contains(nil) || expected.isSubset(of: names.reduce(into: []) { $0.formUnion($1 ?? []) })
            }
            if let expected, expected.count == 1 {
                #expect(log.all[before...].allSatisfy { $0.tableNames != nil }, "\(sql): known exactly")
            }
        }
        #expect(log.all.allSatisfy { $0.author == "a" }, "none is a stranger's: \(log.all.filter { $0.author != "a" })")
    }

    /// Changes that observers of the writer connection receive are not announced again, and participants do not notify each other forever.
    @Test func newsAreNotEchoed() async throws {
        var options = SharedDatabase.Options()
        options.observation = .always
        let other = folder.file("other.sqlite").path
        try DatabasePool(path: other).close()
        options.configuration.prepareDatabase { db in
            try db.execute(sql: "ATTACH DATABASE ? AS other", arguments: [other])
        }
        let schema = SharedSchema(migrator())
        let a = try await SharedDatabase.open(at: url, schema: schema, as: "a", options: options)
        let b = try await SharedDatabase.open(at: url, schema: schema, as: "b", options: options)
        let (logA, logB) = try (Log(a), Log(b))
        try await a.write { try $0.execute(sql: "CREATE TABLE other.attached (id INTEGER)") }
        try await a.writeWithoutTransaction { try $0.execute(sql: "INSERT INTO other.attached VALUES (1)") }
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await b.write { db in _ = try Player(name: "B").inserted(db) }
        for log in [logA, logB] {
            try await eventually("all are reported") { log.all.last?.author == "b" }
            #expect(log.all.map(\.author) == ["a", "a", "a", "b"])
        }
    }

    /// A transaction that changes nothing is not reported.
    @Test func whatIsNotCommittedIsNotReported() async throws {
        let a = try open("a")
        let log = try Log(try open("b"))
        struct Stop: Error {}
        try? await a.write { db in
            _ = try Player(name: "A").inserted(db)
            throw Stop()
        }
        try await a.write { _ in }
        try await a.write { try $0.execute(sql: "UPDATE player SET score = 1 WHERE name = 'nobody'") }
        try await a.read { _ = try Player.fetchCount($0) }
        try await a.write { try $0.execute(sql: "DELETE FROM player; INSERT INTO player(name) VALUES ('last')") }
        try await eventually("the last") { !log.all.isEmpty }
        #expect(log.all.count == 1)
    }

    // MARK: Strangers

    /// Rule N3 holds, with the 50 ms of the issue and room for a busy machine.
    @Test func aProgramThatDoesNotKnowUsIsNoticed() async throws {
        let a = try open("a")
        let reader = try openReadOnly("b")
        let logs = try [Log(a), Log(reader)]
        let stranger = try DatabasePool(path: url.path)
        for round in 1...3 {
            try await stranger.write { db in try db.execute(sql: "INSERT INTO player(name) VALUES ('stranger')") }
            for log in logs {
                try await eventually("round \(round) is noticed", within: .seconds(2)) { log.all.count == round }
                #expect(log.all.last?.tables == .fullDatabase && log.all.last?.author == nil)
                #expect(log.all.last?.detail == .unrecorded && log.all.last?.isOwn == false)
            }
        }
        // The change is distinguished from ours.
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        for log in logs {
            try await eventually("ours") { log.all.count == 4 }
            #expect(log.all.last?.author == "a")
        }
    }

    // MARK: The block

    /// Rules N1, N5: without a control block, own commits are known, and commits of other participants are noticed.
    @Test func withoutAControlBlock() async throws {
        try FileManager.default.createDirectory(atPath: block, withIntermediateDirectories: true)
        let a = try open("a")
        let b = try open("b")
        #expect(a.uncoordinatedReason != nil)
        let (logA, logB) = try (Log(a), Log(b))
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("both are notified") { logA.all.count == 1 && logB.all.count == 1 }
        #expect(logA.all[0].isOwn && logA.all[0].tables == .some(["player"]))
        #expect(!logB.all[0].isOwn && logB.all[0].tables == .fullDatabase)
    }

    /// Rule N4: participants use the new block when a block is replaced.
    @Test func aBlockThatIsReplacedIsFollowed() async throws {
        let a = try open("a")
        let b = try openReadOnly("b")
        let log = try Log(b)
        try FileManager.default.removeItem(atPath: block)
        try await eventually("a names itself in the new block") {
            let before = log.all.count
            try await a.write { db in _ = try Player(name: "A").inserted(db) }
            try await eventually("it is notified") { log.all.count > before }
            return log.all.last?.author == "a" && FileManager.default.fileExists(atPath: block)
        }
    }
}
