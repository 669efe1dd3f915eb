import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Synchronization
import Testing

/// GRDB's observations, and commits of other participants.
@Suite struct GRDBObservationTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ author: String, _ change: (inout SharedDatabase.Options) -> Void = { _ in }) throws
        -> SharedDatabase
    {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func openReadOnly(_ author: String) throws -> SharedDatabase {
        guard case .available(let db) = try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: author) else {
            throw SharedDatabaseError.notAFile(path: url.path, reason: "is not there")
        }
        return db
    }

    /// The values that an observation has received so far.
    private final class ReceivedValues<Value: Sendable>: Sendable {
        let values = Shared<[Value]>([])
        let errors = Shared<[any Error]>([])
        private let cancellable = Shared<AnyDatabaseCancellable?>(nil)

        init<R: ValueReducer>(_ observation: ValueObservation<R>, in db: SharedDatabase) where R.Value == Value {
            let cancellable = observation.start(
                in: db,
                scheduling: .async(onQueue: DispatchQueue(label: "values")),
                onError: { [errors] error in errors.change { $0.append(error) } },
                onChange: { [values] value in values.change { $0.append(value) } }
            )
            self.cancellable.change { $0 = cancellable }
        }

        var all: [Value] { values.value }
        var last: Value? { all.last }
    }

    private static let count = ValueObservation.tracking { try Player.fetchCount($0) }

    @Test func valuesFollowOtherParticipantsInEveryRole() async throws {
        let a = try open("a")
        let b = try open("b")
        let c = try openReadOnly("c")
        let received = [a, b, c].map { ReceivedValues(Self.count, in: $0) }
        for each in received { try await eventually("the first value") { each.last == 0 } }
        for index in 1...5 {
            try await (index % 2 == 0 ? a : b).write { db in _ = try Player(name: "A").inserted(db) }
            for each in received { try await eventually("value \(index)") { each.last == index } }
        }
        for each in received { #expect(each.errors.value.isEmpty) }
    }

    /// A table is changed and dropped in one transaction, by this participant or another: its observations fetch, and fail where they need the table.
    /// Afterwards they continue.
    @Test(arguments: [false, true]) func aTableIsChangedAndDropped(byOther: Bool) async throws {
        let a = try open("a")
        let b = try open("b")
        try await a.write { db in
            try db.execute(sql: "CREATE TABLE more (x); INSERT INTO more VALUES (1)")
        }
        let needing = ReceivedValues(
            ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT count(*) FROM more") },
            in: a
        )
        let region = try await a.read { try SQLRequest<Row>(sql: "SELECT * FROM more").databaseRegion($0) }
        let coping = ReceivedValues(
            ValueObservation.tracking(regions: [region]) { db in
                try db.tableExists("more") ? Int.fetchOne(db, sql: "SELECT count(*) FROM more") : nil
            },
            in: a
        )
        let writing = ReceivedValues(
            {
                var observation = ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT count(*) FROM more") }
                observation.requiresWriteAccess = true
                return observation
            }(),
            in: a
        )
        for received in [needing, coping, writing] { try await eventually("the first value") { received.last == 1 } }
        let writer = byOther ? b : a
        try await writer.write { db in
            try db.execute(sql: "INSERT INTO more VALUES (2); DROP TABLE more")
        }
        for received in [needing, writing] {
            try await eventually("it fails") { received.errors.value.count == 1 }
            #expect("\(received.errors.value)".contains("no such table: more"))
        }
        try await eventually("it is notified") { coping.last == .some(nil) }
        try await writer.write { db in
            try db.execute(sql: "CREATE TABLE more (x); INSERT INTO more VALUES (1), (2), (3)")
        }
        try await eventually("the new table") { coping.last == 3 }
        try await writer.write { db in
            try db.execute(sql: "DELETE FROM more; DROP TABLE more")
        }
        try await eventually("it is notified again") { coping.last == .some(nil) }
        #expect(coping.errors.value.isEmpty)
    }

    /// A burst of commits costs few fetches.
    @Test func aBurstIsCoalesced() async throws {
        let a = try open("a")
        let b = try open("b")
        let mayFetch = DispatchSemaphore(value: 0)
        let fetches = Shared(0)
        let observation = ValueObservation.tracking { db in
            fetches.change { $0 += 1 }
            if fetches.value == 2 { mayFetch.wait() }
            return try Player.fetchCount(db)
        }
        let received = ReceivedValues(observation, in: b)
        try await eventually("the first value") { received.last == 0 }
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("it fetches") { fetches.value == 2 }
        for _ in 0..<200 { try await a.write { db in _ = try Player(name: "A").inserted(db) } }
        let log = Shared(0)
        let cancellable = try b.observeChanges(on: DispatchQueue(label: "log")) { _ in log.change { $0 += 1 } }
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("the news have come") { log.value > 0 }
        mayFetch.signal()
        try await eventually("the last value") { received.last == 202 }
        cancellable.cancel()
        #expect(fetches.value <= 4, "one for the first commit, one or two for the 201 other commits")
    }

    @Test func ownCommitsAreNotEchoed() async throws {
        let a = try open("a")
        let b = try open("b")
        let (own, other) = (ReceivedValues(Self.count, in: a), ReceivedValues(Self.count, in: b))
        try await eventually("the first values") { own.last == 0 && other.last == 0 }
        for index in 1...20 {
            try await a.write { db in _ = try Player(name: "A").inserted(db) }
            try await eventually("the next values") { own.last == index && other.last == index }
        }
        #expect(own.all == Array(0...20), "no value is received twice")
        #expect(other.all == Array(0...20))
    }

    @Test func regionObservationAndTransactionObserver() async throws {
        let a = try open("a")
        for b in try [open("b"), openReadOnly("c")] {
            let regions = Shared(0)
            let cancellable = DatabaseRegionObservation(tracking: Player.all()).start(in: b) { error in
                Issue.record(error)
            } onChange: { db in
                regions.change { $0 += 1 }
            }
            let observer = Observer()
            b.add(transactionObserver: observer)
            try await a.write { db in _ = try Player(name: "A").inserted(db) }
            try await eventually("both are notified") { regions.value == 1 && observer.commits == 1 }
            #expect(observer.changes == 1)
            cancellable.cancel()
            b.remove(transactionObserver: observer)
        }
    }

    private final class Observer: TransactionObserver, Sendable {
        private let counts = Mutex((changes: 0, isChanged: false, commits: 0))
        var changes: Int { counts.withLock { $0.changes } }
        var commits: Int { counts.withLock { $0.commits } }
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange() {
            counts.withLock {
                $0.changes += 1
                $0.isChanged = true
            }
        }
        func databaseDidChange(with event: DatabaseEvent) { counts.withLock { $0.isChanged = true } }
        func databaseDidCommit(_ db: Database) {
            counts.withLock {
                if $0.isChanged { $0.commits += 1 }
                $0.isChanged = false
            }
        }
        func databaseDidRollback(_ db: Database) { counts.withLock { $0.isChanged = false } }
    }

    /// The first value comes while this participant's own writes wait.
    @Test func anObservationDoesNotWaitForOwnWrites() async throws {
        let a = try open("a")
        let b = try open("b") { $0.busyTimeout = .seconds(60) }
        let isInside = Shared(false)
        let mayEnd = DispatchSemaphore(value: 0)
        let holder = Thread {
            try? a.write { db in
                try db.execute(sql: "INSERT INTO player(name) VALUES ('A')")
                isInside.change { $0 = true }
                mayEnd.wait()
            }
        }
        holder.start()
        try await eventually("it writes") { isInside.value }
        // `b`'s writer connection waits for the turn that `a` holds.
        let waiting = Task { try await b.write { db in _ = try Player(name: "B").inserted(db) } }
        let received = ReceivedValues(Self.count, in: b)
        try await eventually("the first value") { received.last == 0 }
        mayEnd.signal()
        try await waiting.value
        try await eventually("all") { received.last == 2 }
    }

    /// Another process changes the schema: fetches see it, and observations of new tables begin.
    @Test func schemaChangesOfOtherParticipants() async throws {
        let a = try open("a")
        let b = try openReadOnly("b")
        let names = ReceivedValues(
            ValueObservation.tracking {
                try Row.fetchOne($0, sql: "SELECT * FROM player")?.columnNames.joined(separator: ",")
            },
            in: b
        )
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("before") { names.last == "id,name,score" }
        try await a.write { try $0.execute(sql: "ALTER TABLE player ADD COLUMN team TEXT") }
        try await eventually("after") { names.last == "id,name,score,team" }
        #expect(names.errors.value.isEmpty)
    }

    @Test func anObservationThatWrites() async throws {
        let a = try open("a")
        let b = try open("b")
        var observation = ValueObservation.tracking { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS seen (count INTEGER)")
            return try Player.fetchCount(db)
        }
        observation.requiresWriteAccess = true
        let received = ReceivedValues(observation, in: b)
        try await eventually("first") { received.last == 0 }
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("second") { received.last == 1 }
    }

    @Test func anObservationKeepsTheDatabaseOpenAndEndsWithIt() async throws {
        let a = try open("a")
        let received = try ReceivedValues(Self.count, in: open("b"))
        try await eventually("first") { received.last == 0 }
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("second") { received.last == 1 }

        let c = try open("c")
        let ended = ReceivedValues(Self.count, in: c)
        try await eventually("first") { ended.last == 1 }
        try c.close()
        try await a.write { db in _ = try Player(name: "A").inserted(db) }
        try await eventually("second") { received.last == 2 }
        #expect(ended.all == [1])
        let late = ReceivedValues(Self.count, in: c)
        try await eventually("an error") { !late.errors.value.isEmpty }
    }
}
