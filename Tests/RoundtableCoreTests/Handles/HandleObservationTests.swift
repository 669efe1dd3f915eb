import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

/// Observers are notified of a raw handle's commits (rules U1, U4–U6).
@Suite struct HandleObservationTests {
    let folder: TemporaryFolder
    let url: URL
    let db: SharedDatabase
    let raw: RawSQLite
    let handle: SharedDatabase.RawHandle

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
        db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
        raw = try RawSQLite(db.path)
        handle = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: db)
    }

    /// - parameter prepare: each connection.
    private func open(
        _ author: String,
        followingForeignKeys: Bool = true,
        _ prepare: @escaping @Sendable (Database) throws -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.configuration.foreignKeysEnabled = followingForeignKeys
        options.configuration.prepareDatabase(prepare)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    /// The changes that are reported of what `body` commits, without one last commit of another participant.
    private func changes(_ body: () throws -> Void) async throws -> [DatabaseChange] {
        let other = try open("last")
        let seen = Shared<[DatabaseChange]>([])
        let cancellable = try db.observeChanges(on: nil) { change in seen.change { $0.append(change) } }
        try body()
        try other.insert("last")
        try await eventually("the last commit is reported") { seen.value.last?.author == "last" }
        cancellable.cancel()
        return seen.value.dropLast()
    }

    @Test func ownProcessAndOtherParticipantsAreNotified() async throws {
        let values = Shared<[[String]]>([])
        let other = try open("other")
        let observation = ValueObservation.tracking {
            try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id")
        }
        let cancellables = [db, other].map { database in
            observation.start(in: database, scheduling: .async(onQueue: DispatchQueue(label: "values"))) { _ in
            } onChange: { value in
                values.change { $0.append(value) }
            }
        }
        try await eventually("both have begun") { values.value.count(where: \.isEmpty) == 2 }
        try handle.turn(tables: ["player"]) { try raw.insert("A") }
        try await eventually("both are notified") { values.value.count { $0 == ["A"] } == 2 }
        cancellables.forEach { $0.cancel() }
    }

    /// GRDB's transaction observers of the own process are notified, too.
    @Test func transactionObserversAreNotified() async throws {
        final class Counter: TransactionObserver, Sendable {
            let commits = Shared(0)
            func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
            func databaseDidChange() {}
            func databaseDidChange(with event: DatabaseEvent) {}
            func databaseDidCommit(_ db: Database) { commits.change { $0 += 1 } }
            func databaseDidRollback(_ db: Database) {}
        }
        let counter = Counter()
        db.add(transactionObserver: counter)
        try handle.turn(tables: ["player"]) { try raw.insert("A") }
        try await eventually("it is notified") { counter.commits.value >= 1 }
    }

    @Test func oneCommitATurnIsReportedExactly() async throws {
        let reported = try await changes {
            for name in ["A", "B", "C"] { try handle.turn(tables: ["player"]) { try raw.insert(name) } }
        }
        #expect(reported.count == 3)
        for change in reported {
            #expect(change.author == "app" && change.detail == .commit && change.isOwn, "\(change)")
            #expect(change.pid == ProcessInfo.processInfo.processIdentifier)
            #expect(change.tables == .some(["player"]))
        }
    }

    @Test func severalCommitsOfATurnAreReportedOneByOne() async throws {
        let reported = try await changes {
            try handle.turn(tables: ["player"]) { for name in ["A", "B", "C"] { try raw.insert(name) } }
        }
        let expected: [DatabaseChange.Tables] = Array(repeating: .some(["player"]), count: 3)
        #expect(reported.map(\.tables) == expected, "\(reported)")
        #expect(reported.allSatisfy { $0.detail == .commit })
        let first = try #require(reported.first)
        #expect(reported.last?.sequence == first.sequence + 2)
    }

    /// A turn that commits nothing reports nothing.
    @Test func emptyTurnsAreNotReported() async throws {
        let reported = try await changes {
            try handle.turn(tables: ["player"]) {}
            try handle.turn { try raw.execute("BEGIN IMMEDIATE; DELETE FROM player; ROLLBACK") }
        }
        #expect(reported == [])
    }

    @Test func unnamedTablesMayBeAny() async throws {
        let reported = try await changes {
            try handle.turn { try raw.insert("A") }
            // There is no such table: the name is not to be trusted.
            try handle.turn(tables: ["players"]) { try raw.insert("B") }
            try handle.turn(tables: []) { try raw.insert("C") }
        }
        #expect(reported.count == 3)
        for change in reported { #expect(change.tables == .fullDatabase && change.author == "app", "\(change)") }
    }

    /// The owner need not know what the database does by itself (rule U6).
    @Test func tablesOfTriggersAndForeignKeysAreAdded() async throws {
        try db.run(
            """
            CREATE TABLE log (name TEXT);
            CREATE TABLE badge (player INTEGER REFERENCES player ON DELETE CASCADE);
            CREATE TRIGGER t AFTER INSERT ON player BEGIN INSERT INTO log VALUES (new.name); END
            """
        )
        let reported = try await changes {
            for name in ["A", "B"] { try handle.turn(tables: ["PLAYER"]) { try raw.insert(name) } }
            // The schema has changed since it was looked at.
            try db.run("DROP TRIGGER t; DROP TABLE badge")
            try handle.turn(tables: ["PLAYER"]) { try raw.insert("C") }
        }
        let own = reported.filter { $0.tables != .fullDatabase }
        let both: [DatabaseChange.Tables] = Array(repeating: .some(["player", "log", "badge"]), count: 2)
        #expect(own.map(\.tables) == both + [.some(["player"])], "\(reported)")
    }

    /// The tables that the dropped trigger has written before are not in the schema that is looked at (rule U6).
    @Test func tablesAreUnknownWhereTheSchemaChanges() async throws {
        try db.run(
            """
            CREATE TABLE log (name TEXT);
            CREATE TRIGGER t AFTER INSERT ON player BEGIN INSERT INTO log VALUES (new.name); END
            """
        )
        let reported = try await changes {
            try handle.turn(tables: ["player"]) {
                try raw.execute("BEGIN IMMEDIATE; INSERT INTO player (name) VALUES ('A'); DROP TRIGGER t; COMMIT")
            }
            try handle.turn(tables: ["player"]) {
                try raw.insert("B")
                try raw.execute("CREATE TABLE other (a)")
            }
        }
        #expect(reported.count == 3)
        for change in reported { #expect(change.tables == .fullDatabase && change.author == "app", "\(change)") }
    }

    /// The owner's connection follows foreign keys, even if the database's do not (rule U6).
    @Test func foreignKeysAreFollowedWhateverTheConfiguration() async throws {
        let other = try open("other", followingForeignKeys: false)
        try db.run("CREATE TABLE badge (player INTEGER REFERENCES player ON DELETE CASCADE)")
        let second = try SharedDatabase.RawHandle(attachedTo: raw.pointer, of: other)
        let reported = try await changes {
            for name in ["A", "B"] { try second.turn(tables: ["player"]) { try raw.insert(name) } }
        }
        let expected: [DatabaseChange.Tables] = Array(repeating: .some(["player", "badge"]), count: 2)
        #expect(reported.map(\.tables) == expected, "\(reported)")
        // Its own writes follow none, as before.
        try other.run("INSERT INTO badge VALUES (99)")
    }

    /// Nothing is known of what a trigger writes if it cannot be compiled (rule U6).
    @Test func functionsThatAreNotKnownMakeTablesUnknown() async throws {
        sqlite3_create_function(raw.pointer, "note", 1, SQLITE_UTF8, nil, { _, _, _ in }, nil, nil)
        try raw.execute("CREATE TRIGGER t AFTER INSERT ON player BEGIN SELECT note(new.name); END")
        let reported = try await changes {
            for name in ["A", "B"] { try handle.turn(tables: ["player"]) { try raw.insert(name) } }
            try raw.execute("DROP TRIGGER t")
            try handle.turn(tables: ["player"]) { try raw.insert("C") }
        }
        let own = reported.filter { $0.detail == .commit }
        #expect(own.map(\.tables) == [.fullDatabase, .fullDatabase, .some(["player"])], "\(reported)")
    }

    /// The tables were collected before another program creates a trigger (rule U6).
    @Test func triggersThatComeJustBeforeTheTurn() async throws {
        final class Meddler {
            let stranger: RawSQLite
            var isDone = false
            init(_ path: String) throws { stranger = try RawSQLite(path) }
        }
        try db.run("CREATE TABLE log (name TEXT)")
        let meddler = try Meddler(db.path)
        let reported = try await changes {
            try handle.turn(tables: ["player"]) { try raw.insert("A") }
            sqlite3_trace_v2(
                raw.pointer,
                UInt32(SQLITE_TRACE_STMT),
                { _, context, _, sql in
                    let meddler = Unmanaged<Meddler>.fromOpaque(context!).takeUnretainedValue()
                    let text = sql.map { String(cString: $0.assumingMemoryBound(to: CChar.self)) } ?? ""
                    guard !meddler.isDone, text.hasPrefix("PRAGMA main.data_version") else { return 0 }
                    meddler.isDone = true
                    try? meddler.stranger.execute(
                        "CREATE TRIGGER t AFTER INSERT ON player BEGIN INSERT INTO log VALUES (new.name); END"
                    )
                    return 0
                },
                Unmanaged.passUnretained(meddler).toOpaque()
            )
            try handle.turn(tables: ["player"]) { try raw.insert("B") }
            sqlite3_trace_v2(raw.pointer, 0, nil, nil)
        }
        #expect(meddler.isDone)
        #expect(try raw.integer("SELECT count(*) FROM log WHERE name = 'B'") == 1)
        #expect(reported.first?.tables == .some(["player"]))
        let later = reported.dropFirst()
        #expect(!later.isEmpty && later.allSatisfy { $0.tables == .fullDatabase }, "\(reported)")
    }

    /// Commits of a stranger within the turn belong to no participant whose tables are known (rule U5).
    @Test func strangersWithinATurn() async throws {
        let stranger = try RawSQLite(db.path)
        let reported = try await changes {
            try handle.turn(tables: ["player"]) {
                try raw.insert("A")
                try stranger.execute("CREATE TABLE other (a)")
            }
            try handle.turn(tables: ["player"]) { try stranger.execute("INSERT INTO other VALUES (1)") }
            try handle.turn(tables: ["player"]) {
                try stranger.execute("INSERT INTO other VALUES (2)")
                try raw.insert("B")
            }
        }
        #expect(!reported.isEmpty)
        for change in reported { #expect(change.tables == .fullDatabase && change.detail != .commit, "\(change)") }
    }

    /// So many commits are not reported one by one.
    @Test func veryManyCommitsOfATurn() async throws {
        let reported = try await changes {
            try handle.turn(tables: ["player"]) { for number in 0..<100 { try raw.insert("\(number)") } }
        }
        #expect(!reported.isEmpty)
        for change in reported { #expect(change.tables == .fullDatabase) }
    }

    /// A read that the owner has left open shows an old moment: it is not known then whose commits they are.
    @Test func openReadsMakeTablesUnknown() async throws {
        try handle.turn { for name in ["A", "B"] { try raw.insert(name) } }
        let reported = try await changes {
            var reading: OpaquePointer?
            sqlite3_prepare_v2(raw.pointer, "SELECT * FROM player", -1, &reading, nil)
            #expect(sqlite3_step(reading) == SQLITE_ROW)
            try handle.turn(tables: ["player"]) { try raw.insert("C") }
            sqlite3_finalize(reading)
        }
        #expect(!reported.isEmpty)
        for change in reported { #expect(change.tables == .fullDatabase) }
    }
}
