import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableUnitSupport
import Testing

/// Attacks on observation have found these cases: each of them missed a commit, hung or crashed before.
@Suite struct ObservationMisuseTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ author: String) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author)
    }

    private func tables(_ db: SharedDatabase) throws -> (Shared<[Set<String>?]>, AnyDatabaseCancellable) {
        let tables = Shared<[Set<String>?]>([])
        let cancellable = try db.observeChanges(on: DispatchQueue(label: "log")) { change in
            tables.change { $0.append(change.tableNames) }
        }
        return (tables, cancellable)
    }

    private func addPlayer(_ db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: "A").inserted(db) }
    }

    /// A statement that was compiled before another process made a trigger does not show what the trigger writes.
    @Test func aTriggerThatComesWhileStatementsAreKept() async throws {
        let a = try open("a")
        let b = try open("b")
        try await a.write { try $0.execute(sql: "CREATE TABLE copy (id INTEGER)") }
        let (seen, cancellable) = try tables(b)
        try await a.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT INTO player(name) VALUES ('A')")
            let insert = try db.cachedStatement(sql: "INSERT INTO player(name) VALUES ('B')")
            let stranger = try DatabaseQueue(path: url.path)
            try stranger.write { db in
                try db.execute(
                    sql: "CREATE TRIGGER copies AFTER INSERT ON player BEGIN INSERT INTO copy VALUES (NEW.id); END"
                )
            }
            try insert.execute()
            try insert.execute()
        }
        try await eventually("three commits and the stranger's") { seen.value.count == 4 }
        #expect(seen.value[0] == ["player"])
        #expect(seen.value[1...].allSatisfy { $0 == nil || $0!.isSuperset(of: ["player", "copy"]) }, "\(seen.value)")
        // The tables are known again.
        try await a.write { try $0.execute(sql: "UPDATE player SET score = 1") }
        try await eventually("exactly") { seen.value.last == ["player"] }
        cancellable.cancel()
    }

    /// The tables of a statement that failed are not those of the next access.
    @Test func cInterfaceAfterAStatementThatFailed() async throws {
        let a = try open("a")
        try await a.write { try $0.execute(sql: "CREATE TABLE strict (id INTEGER NOT NULL)") }
        let (seen, cancellable) = try tables(try open("b"))
        try? await a.writeWithoutTransaction { try $0.execute(sql: "INSERT INTO strict VALUES (NULL)") }
        try await a.writeWithoutTransaction { db in
            let code = sqlite3_exec(db.sqliteConnection, "INSERT INTO player(name) VALUES ('C')", nil, nil, nil)
            #expect(code == SQLITE_OK)
        }
        try await eventually("notified") { seen.value.count == 1 }
        #expect(seen.value == [nil])
        cancellable.cancel()
    }

    private final class Veto: TransactionObserver, Sendable {
        let isOver = Shared(false)
        struct No: Error {}
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseWillCommit() throws { if !isOver.value { throw No() } }
        func databaseDidCommit(_ db: Database) {}
        func databaseDidRollback(_ db: Database) {}
    }

    /// An observer that refuses changes does not prevent other observers from receiving them.
    @Test func aVetoDelaysNews() async throws {
        let a = try open("a")
        let b = try open("b")
        let veto = Veto()
        b.add(transactionObserver: veto)
        let notifications = Shared(0)
        let cancellable = DatabaseRegionObservation(tracking: Player.all()).start(in: b) {
            Issue.record($0)
        } onChange: { _ in
            notifications.change { $0 += 1 }
        }
        let (log, logging) = try tables(b)
        try addPlayer(a)
        try await eventually("the news have come") { log.value.count == 1 }
        veto.isOver.change { $0 = true }
        try await eventually("notified") { notifications.value == 1 }
        cancellable.cancel()
        logging.cancel()
    }

    /// The last reference is released on the queue that observations fetch on.
    @Test func aFetchThatOwnsTheDatabase() async throws {
        let a = try open("a")
        for _ in 0..<20 {
            final class Model: Sendable {
                let db: SharedDatabase
                init(_ db: SharedDatabase) { self.db = db }
            }
            var model: Model? = Model(try open("b"))
            let notifications = Shared(0)
            var cancellable: AnyDatabaseCancellable? = ValueObservation.tracking { [model] db in
                _ = model?.db.path
                return try Player.fetchCount(db)
            }.start(in: model!.db, scheduling: .async(onQueue: DispatchQueue(label: "values"))) { _ in
            } onChange: { _ in
                notifications.change { $0 += 1 }
            }
            try await eventually("a value") { notifications.value > 0 }
            try addPlayer(a)
            cancellable?.cancel()
            (cancellable, model) = (nil, nil)
        }
        try addPlayer(a)
    }

    /// A consumer reads on the thread that delivers changes, while another thread closes the database.
    @Test func closingWhileAConsumerReads() async throws {
        let a = try open("a")
        for _ in 0..<40 {
            let b = try open("b")
            let notifications = Shared(0)
            let cancellable = try b.observeChanges(on: nil) { _ in
                notifications.change { $0 += 1 }
                _ = try? b.read { try Player.fetchCount($0) }
                try? b.close()
            }
            try addPlayer(a)
            try b.close()
            cancellable.cancel()
        }
        try addPlayer(a)
    }

    /// Consumers leave time for other work on their queue.
    @Test func consumersDoNotStarveTheirQueue() async throws {
        let a = try open("a")
        let b = try open("b")
        let queue = DispatchQueue(label: "busy")
        let isOver = Shared(false)
        let hasCome = DispatchSemaphore(value: 0)
        let cancellable = try b.observeChanges(on: queue) { _ in
            if isOver.value { return }
            // There is always one more change when this returns.
            _ = try? a.write { db in _ = try Player(name: "A").inserted(db) }
            hasCome.wait()
        }
        let logging = try b.observeChanges(on: DispatchQueue(label: "log")) { _ in hasCome.signal() }
        try addPlayer(a)
        hasCome.wait()
        let other = Shared(false)
        queue.async { other.change { $0 = true } }
        try await eventually("the turn of other work on the queue") { other.value }
        isOver.change { $0 = true }
        hasCome.signal()
        cancellable.cancel()
        logging.cancel()
    }
}
