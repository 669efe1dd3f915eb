import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Synchronization
import Testing

@Suite struct HistoryConsumerTests {
    private static let insert = "INSERT INTO player (name) VALUES ('A')"
    struct Failure: Error {}

    private func enabled() throws -> HistoryFixture {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        return fixture
    }

    /// Registers a consumer that has read everything.
    private func start(_ fixture: HistoryFixture, _ name: String = "indexer") throws {
        try fixture.db.history.restartConsumer(name)
    }

    private func consume(_ fixture: HistoryFixture, as name: String = "indexer", limit: Int = 1000) throws -> [String] {
        var lines: [String] = []
        try fixture.db.history.consume(as: name, limit: limit) { lines = $0.map(\.line) }
        return lines
    }

    /// The loop of the guide: it begins to observe, consumes, and then consumes after each change. It sees each change, and its task's
    /// cancellation ends it.
    @Test func aLoopMissesNothing() async throws {
        let fixture = try enabled()
        try start(fixture)
        let writer = try await SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "writer")
        let seen = Mutex<[String]>([])
        let db = fixture.db
        @Sendable func consumeAll() async throws {
            while try await db.history.consume(
                as: "indexer",
                { changes in seen.withLock { $0 += changes.map(\.line) } }
            ).hasMore {}
        }
        let writing = Task {
            for _ in 0..<200 { try await writer.write { try $0.execute(sql: Self.insert) } }
        }
        let loop = Task {
            let commits = db.changes(in: Table("player"))
            try await consumeAll()
            for try await _ in commits { try await consumeAll() }
        }
        try await writing.value
        try await eventually("all changes are consumed") { seen.withLock { $0.count } >= 200 }
        #expect(seen.withLock { $0 } == (1...200).map { "insert \($0)" })
        loop.cancel()
        do { try await loop.value } catch is CancellationError {}
    }

    /// A new migration shuts older programs out. A history that is enabled after opening does not, and records their changes.
    @Test(arguments: [true, false])
    func olderPrograms(inMigration: Bool) throws {
        let folder = try TemporaryFolder()
        let url = folder.file("players.sqlite")
        func openOlder() throws -> SharedDatabase {
            try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "older")
        }
        let older = try openOlder()
        var newer = migrator()
        if inMigration {
            newer.registerMigration("history of player") { try DatabaseHistory.enable(for: "player", in: $0) }
        }
        let db = try SharedDatabase.open(at: url, schema: SharedSchema(newer), as: "newer")
        if inMigration {
            let unknown = ["history of player"]
            let error = SharedDatabaseError.schemaTooNew(path: db.path, unknownMigrations: unknown)
            #expect(throws: error) { try older.write { try $0.execute(sql: Self.insert) } }
            #expect(throws: error) { try openOlder() }
        } else {
            try db.history.enable(for: "player")
            try older.write { try $0.execute(sql: Self.insert) }
            try openOlder().write { try $0.execute(sql: Self.insert) }
            let changes = try db.history.changes(since: nil).changes
            #expect(changes.map(\.line) == ["insert 1", "insert 2"])
            #expect(changes.map(\.author) == ["older", "older"])
        }
    }

    /// **Rule H11**: a new consumer starts over, and what comes after its token is kept for it; each change comes until it is
    /// acknowledged.
    @Test func atLeastOnce() async throws {
        let fixture = try enabled()
        try fixture.execute(Self.insert)
        var begin: HistoryToken?
        for _ in 0..<2 {
            do {
                _ = try consume(fixture)
                Issue.record("a new consumer did not get the error")
            } catch HistoryError.startOver(.newConsumer, let token) {
                #expect(begin == nil || begin == token)
                begin = token
            }
            if try fixture.lines() == ["insert 1"] { try fixture.execute(Self.insert) }
        }
        #expect(try await fixture.db.history.consumers().map(\.state) == [.starting])
        try await fixture.db.history.restartConsumer("indexer", at: begin)
        for _ in 0..<2 {
            let seen = Mutex<[String]>([])
            await #expect(throws: Failure.self) {
                try await fixture.db.history.consume(as: "indexer") { changes in
                    seen.withLock { $0 = changes.map(\.line) }
                    throw Failure()
                }
            }
            #expect(seen.withLock { $0 } == ["insert 2"])
        }
        #expect(try await fixture.db.history.consumers().map(\.backlog) == [1])
        #expect(try consume(fixture) == ["insert 2"])
        #expect(try consume(fixture).isEmpty)
        #expect(try await fixture.db.history.consumers().map(\.backlog) == [0])
    }

    /// **Rule H11**: with the acknowledgement in the same transaction, effects happen once.
    @Test func exactlyOnce() async throws {
        let fixture = try enabled()
        let db = fixture.db
        func execute(_ sql: String) async throws { try await db.write { try $0.execute(sql: sql) } }
        try await execute("CREATE TABLE seen (id INTEGER)")
        let note: @Sendable (Database, [HistoryChange]) throws -> Void = { db, changes in
            for change in changes { try db.execute(sql: "INSERT INTO seen VALUES (?)", arguments: [change.id]) }
            if changes.contains(where: { $0.id == 3 }), try Int.fetchOne(db, sql: "SELECT count(*) FROM once") == 0 {
                throw Failure()
            }
        }
        try await execute("CREATE TABLE once (x)")
        try await fixture.db.history.restartConsumer("indexer")
        try await execute("\(Self.insert); \(Self.insert); \(Self.insert)")
        await #expect(throws: Failure.self) { try await fixture.db.history.consumeInTransaction(as: "indexer", note) }
        #expect(try await fixture.db.read { try Int.fetchAll($0, sql: "SELECT id FROM seen") } == [])
        try await execute("INSERT INTO once VALUES (1)")
        try await fixture.db.history.consumeInTransaction(as: "indexer", note)
        #expect(try await fixture.db.history.consumeInTransaction(as: "indexer", note).changes.isEmpty)
        #expect(try await fixture.db.read { try Int.fetchAll($0, sql: "SELECT id FROM seen") } == [1, 2, 3])
    }

    /// **Rule H9**: pages are of the limit, and end with a transaction where they can.
    @Test func pages() throws {
        let fixture = try enabled()
        try start(fixture)
        for count in [2, 3, 5, 1] {
            try fixture.execute(Array(repeating: Self.insert, count: count).joined(separator: ";"))
        }
        try fixture.executeElsewhere("\(Self.insert); \(Self.insert)")
        var sizes: [Int] = []
        var sequences: [Int64] = []
        while try fixture.db.history.consume(
            as: "indexer",
            limit: 4,
            { changes in
                sizes.append(changes.count)
                sequences += changes.map(\.sequence)
            }
        ).hasMore {}
        #expect(sizes == [2, 3, 4, 2, 2] || sizes == [2, 3, 4, 4], "\(sizes)")
        #expect(sequences == sequences.sorted() && sequences.count == 13)
    }

    /// **Rule H10**: pruned up to the slowest consumer, and no further; a bounded part at a time.
    @Test func pruning() throws {
        let fixture = try enabled()
        var settings = DatabaseHistory.Settings()
        settings.minimumCount = 0
        try fixture.db.write { try DatabaseHistory.setSettings(settings, in: $0) }
        #expect(try fixture.db.read { try DatabaseHistory.settings(in: $0) } == settings)
        let start = try fixture.db.history.currentToken()
        for name in ["fast", "slow"] { try fixture.db.history.restartConsumer(name) }
        func kept() throws -> Int {
            try fixture.db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM roundtable_history")! }
        }
        for _ in 0..<1000 { try fixture.execute(Self.insert) }
        while try fixture.db.history.consume(as: "fast", { _ in }).hasMore {}
        #expect(try kept() >= 1000)
        #expect(try fixture.db.history.changes(since: start, limit: 2000).changes.count == 1000)
        let most = Mutex(0)
        while true {
            let before = try kept()
            let page = try fixture.db.history.consume(as: "slow", limit: 100) { _ in }
            let removed = try before - kept()
            most.withLock { $0 = max($0, removed) }
            if !page.hasMore { break }
        }
        for _ in 0..<500 { try fixture.execute(Self.insert) }
        #expect(try kept() < 700)
        #expect(most.withLock { $0 } > 0 && most.withLock { $0 } <= 512)
        #expect(startOverReason { _ = try fixture.db.history.changes(since: start) } == .pruned)
        // The new ones wait for both.
        #expect(try fixture.db.history.consume(as: "slow") { _ in }.changes.count == 500)
        #expect(try fixture.db.history.consume(as: "fast") { _ in }.changes.count == 500)
    }

    /// **Rule H10**: what comes after the token of a consumer that is starting is kept for it, although another one has acknowledged all of it, and
    /// another participant prunes.
    @Test func startingConsumersArePrunedFor() throws {
        let fixture = try enabled()
        try fixture.db.write { db in
            var settings = DatabaseHistory.Settings()
            settings.minimumCount = 0
            try DatabaseHistory.setSettings(settings, in: db)
        }
        try fixture.execute(Self.insert)
        try start(fixture, "fast")
        var begin: HistoryToken?
        do {
            _ = try consume(fixture, as: "new")
        } catch HistoryError.startOver(.newConsumer, let token) {
            begin = token
        }
        let token = try #require(begin)
        let other = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "other")
        func insertElsewhere() throws { for _ in 0..<300 { try other.run(Self.insert) } }
        try insertElsewhere()
        while try other.history.consume(as: "fast", { _ in }).hasMore {}
        try insertElsewhere()
        #expect(try fixture.db.history.consumers().first { $0.name == "new" }?.state == .starting)
        #expect(try fixture.db.history.changes(since: token, limit: 2000).changes.count == 600)
        // It has read the tables, and gets all that was written meanwhile.
        try fixture.db.history.restartConsumer("new", at: token)
        #expect(try consume(fixture, as: "new").count == 600)
    }

    /// **Rule H10**: the caps hold although a consumer is behind; it gets an error.
    @Test(arguments: ["count", "age"]) func caps(which: String) throws {
        let fixture = try enabled()
        try fixture.db.history.restartConsumer("slow")
        for _ in 0..<300 { try fixture.execute(Self.insert) }
        try fixture.db.write { db in
            var settings = DatabaseHistory.Settings()
            if which == "count" { settings.maximumCount = 100 } else { settings.maximumAge = .zero }
            try DatabaseHistory.setSettings(settings, in: db)
        }
        for _ in 0..<300 { try fixture.execute(Self.insert) }
        let count = try fixture.db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM roundtable_history")! }
        #expect(count < 300)
        var expected: HistoryToken?
        do {
            _ = try consume(fixture, as: "slow")
        } catch HistoryError.startOver(.pruned, let token) {
            expected = token
        }
        let token = try #require(expected)
        // It gets the error again until it says that it has started over.
        #expect(startOverReason { _ = try consume(fixture, as: "slow") } == .pruned)
        try fixture.db.history.restartConsumer("slow", at: token)
        try fixture.execute(Self.insert)
        #expect(try consume(fixture, as: "slow") == ["insert 601"])
    }

    /// **Rule H11**: a consumer that was away too long is dropped, and gets an error when it returns.
    @Test func droppedConsumers() throws {
        let fixture = try enabled()
        try fixture.db.history.restartConsumer("away")
        try fixture.db.history.restartConsumer("by hand")
        #expect(try fixture.db.history.dropConsumer("by hand"))
        #expect(try fixture.db.history.dropConsumer("nobody") == false)
        try fixture.db.write { db in
            var settings = DatabaseHistory.Settings()
            settings.consumerTimeout = .zero
            try DatabaseHistory.setSettings(settings, in: db)
        }
        for _ in 0..<200 { try fixture.execute(Self.insert) }
        #expect(try fixture.db.history.consumers().map(\.state) == [.dropped, .dropped])
        for name in ["away", "by hand"] {
            for _ in 0..<2 {
                guard case .consumerDropped = startOverReason({ _ = try consume(fixture, as: name) }) else {
                    Issue.record("\(name) did not get the error")
                    return
                }
            }
            try fixture.db.history.restartConsumer(name)
            #expect(try consume(fixture, as: name).isEmpty)
        }
    }

    /// **Rule H11**: of two processes that consume by one name, the one that is behind does not move the consumer back.
    @Test func aProcessThatIsBehindMovesNothingBack() throws {
        let fixture = try enabled()
        try start(fixture)
        for _ in 0..<3 { try fixture.execute(Self.insert) }
        try fixture.db.history.consume(as: "indexer", limit: 1) { outer in
            #expect(outer.map(\.line) == ["insert 1"])
            let inner = try consume(fixture)
            #expect(inner.count == 3)
        }
        #expect(try fixture.db.history.consumers().map(\.backlog) == [0])
        #expect(try consume(fixture).isEmpty)
    }

    /// **Rule H10**: a consumer that was dropped keeps no changes from being pruned.
    @Test func aDroppedConsumerKeepsNothing() throws {
        let fixture = try enabled()
        try start(fixture, "gone")
        try start(fixture)
        try fixture.db.write { db in
            var settings = DatabaseHistory.Settings()
            settings.minimumCount = 10
            try DatabaseHistory.setSettings(settings, in: db)
        }
        for _ in 0..<50 { try fixture.execute(Self.insert) }
        #expect(try fixture.db.history.dropConsumer("gone"))
        #expect(try consume(fixture).count == 50)
        for _ in 0..<200 { try fixture.execute(Self.insert) }
        let count = try fixture.db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM roundtable_history") }
        #expect(count == 200)
    }

    /// **Rule H10**: a consumer of one table does not keep the changes of another one, although there is nothing for it to acknowledge.
    @Test func aConsumerOfAnotherTableKeepsNothing() throws {
        let fixture = try enabled()
        try fixture.db.write { db in
            try db.execute(sql: "CREATE TABLE team (id INTEGER PRIMARY KEY)")
            try DatabaseHistory.enable(for: "team", in: db)
        }
        try start(fixture)
        func consumeTeams() throws -> Int {
            try fixture.db.history.consume(as: "teams", in: ["team"]) { _ in }.changes.count
        }
        try start(fixture, "teams")
        _ = try consumeTeams()
        try fixture.db.write { db in
            for _ in 0..<1100 { try db.execute(sql: Self.insert) }
        }
        #expect(try fixture.db.history.consumers().first { $0.name == "teams" }?.backlog == 1100)
        #expect(try consumeTeams() == 0)
        #expect(try fixture.db.history.consumers().first { $0.name == "teams" }?.backlog == 0)
    }

    /// A consumer that finds a broken table repairs it, and gets an error.
    @Test func aConsumerRepairsATable() throws {
        let fixture = try enabled()
        try start(fixture)
        try fixture.executeElsewhere("DROP TABLE player; CREATE TABLE player (id INTEGER PRIMARY KEY, name)")
        for _ in 0..<2 {
            #expect(startOverReason { _ = try consume(fixture) } == .changesMissing(table: "player"))
        }
        let inTransaction = startOverReason { try fixture.db.history.consumeInTransaction(as: "indexer") { _, _ in } }
        #expect(inTransaction == .changesMissing(table: "player"))
        try fixture.db.history.restartConsumer("indexer")
        try fixture.executeElsewhere(Self.insert)
        #expect(try consume(fixture) == ["insert 1"])
    }

    /// Consumers of some tables do not see, and do not wait for, others.
    @Test func someTables() throws {
        let fixture = try enabled()
        try fixture.execute("CREATE TABLE other (id INTEGER PRIMARY KEY)")
        try fixture.db.history.enable(for: "other")
        try start(fixture)
        for _ in 0..<1100 { try fixture.execute(Self.insert) }
        try fixture.execute("INSERT INTO other VALUES (5)")
        var lines: [String] = []
        try fixture.db.history.consume(as: "indexer", in: ["OTHER"]) { lines = $0.map(\.line) }
        #expect(lines == ["insert 5"])
        for _ in 0..<1100 { try fixture.execute(Self.insert) }
        try fixture.db.history.consume(as: "indexer", in: ["other"]) { _ in }
        #expect(try fixture.db.history.consumers().map(\.backlog) == [0])
        #expect(throws: HistoryError.notTracked(path: fixture.db.path, table: "nothing")) {
            try fixture.db.history.consume(as: "indexer", in: ["nothing"]) { _ in }
        }
    }

    /// **Rule H11**: what was acknowledged without having been handed out is reported: to a consumer that asks for more tables than before,
    /// and to one that shares a name with another that asks for different tables.
    @Test func otherTablesThanBefore() throws {
        let fixture = try enabled()
        try fixture.execute(
            "CREATE TABLE team (id INTEGER PRIMARY KEY, name); CREATE TABLE third (id INTEGER PRIMARY KEY)"
        )
        for table in ["team", "third"] { try fixture.db.history.enable(for: table) }
        try start(fixture)
        func consume(_ tables: [String]?) throws -> [String] {
            var lines: [String] = []
            try fixture.db.history.consume(as: "indexer", in: tables) { lines = $0.map(\.line) }
            return lines
        }
        let both = "\(Self.insert); INSERT INTO team (name) VALUES ('A')"
        try fixture.execute(both)
        // Asking alone acknowledges nothing.
        #expect(throws: Failure.self) {
            try fixture.db.history.consume(as: "indexer", in: ["team"]) { _ in throw Failure() }
        }
        #expect(try consume(["player", "TEAM"]) == ["insert 1", "insert 1"])
        try fixture.execute(both)
        #expect(try consume(["team"]) == ["insert 2"])
        for tables in [["player"], ["player", "team"], nil] {
            #expect(startOverReason { _ = try consume(tables) } == .tablesAdded)
        }
        #expect(
            startOverReason { try fixture.db.history.consumeInTransaction(as: "indexer") { _, _ in } } == .tablesAdded
        )
        // A new name is none the less its.
        try fixture.execute("ALTER TABLE team RENAME TO club; \(both.replacingOccurrences(of: "team", with: "club"))")
        #expect(try consume(["club"]) == ["insert 3"])

        // Started over, it may ask for what it likes.
        try start(fixture)
        try fixture.execute(Self.insert)
        #expect(try consume(nil) == ["insert 4"])
        try fixture.execute("CREATE TABLE later (id INTEGER PRIMARY KEY)")
        try fixture.db.history.enable(for: "later")
        try start(fixture)
        #expect(try consume(nil) == [])

        // Two consume at once: the tables that both have seen remain. The later one changes nothing.
        for isInnerAhead in [false, true] {
            try start(fixture)
            try fixture.execute(
                "\(Self.insert); INSERT INTO club (name) VALUES ('A'); INSERT INTO third DEFAULT VALUES"
            )
            try fixture.db.history.consume(as: "indexer", in: ["player", "club"]) { outer in
                #expect(outer.count == 2)
                try fixture.db.history.consume(as: "indexer", in: ["club", "third"], limit: isInnerAhead ? 2 : 1) {
                    inner in
                    #expect(inner.count == (isInnerAhead ? 2 : 1))
                }
            }
            #expect(startOverReason { _ = try consume(["player"]) } == .tablesAdded)
            let third = startOverReason { _ = try consume(["third"]) }
            #expect(third == (isInnerAhead ? nil : .tablesAdded))
            #expect(startOverReason { _ = try consume(["club"]) } == nil)
        }
    }

    /// Read-only processes read with a token of their own.
    @Test func readOnly() async throws {
        let fixture = try enabled()
        guard
            case .available(let reader) = try await SharedDatabase.openReadOnly(
                at: fixture.url,
                schema: .unmanaged,
                as: "widget"
            )
        else { throw Failure() }
        let token = try await reader.history.currentToken()
        try fixture.execute(Self.insert)
        let kept = try JSONDecoder().decode(HistoryToken.self, from: JSONEncoder().encode(token))
        let page = try await reader.history.changes(since: kept)
        #expect(page.changes.map(\.line) == ["insert 1"] && !page.hasMore)
        #expect(try await reader.history.changes(since: HistoryToken(page.token.description)).changes.isEmpty)
        #expect("\(HistoryError.readOnly(path: "/a.db"))".contains("db.history.changes(since:in:)"))
        await #expect(throws: HistoryError.readOnly(path: fixture.db.path)) {
            try await reader.history.consume(as: "widget") { _ in }
        }
        #expect(HistoryToken("nonsense") == nil && HistoryToken("-5") == nil && HistoryToken("a-x") == nil)
        // One position has one text (a fuzzer found others).
        for text in ["a-05", "a-+5", "a--0", "a-00"] { #expect(HistoryToken(text) == nil, "\(text)") }
        #expect(HistoryToken("a-0") != nil)
    }

    /// **Rule H3**: no program can make the history use a number twice.
    @Test func lastRowStays() throws {
        let fixture = try enabled()
        try fixture.execute(Self.insert)
        #expect(throws: DatabaseError.self) { try fixture.executeElsewhere("DELETE FROM roundtable_history") }
        #expect(try fixture.lines() == ["insert 1"])
    }
}
