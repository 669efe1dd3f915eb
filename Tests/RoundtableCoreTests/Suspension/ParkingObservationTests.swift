import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Observers of a participant that closes its connections, or is paused, notice nothing except that they are notified late.
@Suite struct ParkingObservationTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(_ author: String) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author)
    }

    private func add(_ name: String, to db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: name).inserted(db) }
    }

    private func park(
        _ db: SharedDatabase,
        milliseconds: UInt64 = 60_000,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let held = await onThread { db.park(until: MonotonicClock.now + milliseconds * 1_000_000) }
        #expect(held == [], sourceLocation: sourceLocation)
    }

    private func count(_ db: SharedDatabase) throws -> Int { try db.read(Player.fetchCount) }

    private func createTeam(_ db: SharedDatabase) throws {
        try db.write { try $0.execute(sql: "CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT)") }
    }

    /// The values that a value observation reports.
    private final class Values: Sendable {
        let values = Shared<[Int]>([])
        let errors = Shared<[any Error]>([])
        private let cancellable = Shared<AnyDatabaseCancellable?>(nil)

        init(_ db: SharedDatabase, writing: Bool = false, delayed: Bool = false) {
            var observation = ValueObservation.tracking { db in
                if delayed { _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM team") }
                return try Player.fetchCount(db)
            }
            observation.requiresWriteAccess = writing
            let started = observation.start(in: db, scheduling: .async(onQueue: DispatchQueue(label: "values"))) {
                [errors] error in
                errors.change { $0.append(error) }
            } onChange: { [values] value in
                values.change { $0.append(value) }
            }
            cancellable.change { $0 = started }
        }

        func cancel() { cancellable.value?.cancel() }
    }

    private func log(_ db: SharedDatabase, on queue: DispatchQueue? = DispatchQueue(label: "log")) throws
        -> (Shared<[DatabaseChange]>, AnyDatabaseCancellable)
    {
        let changes = Shared<[DatabaseChange]>([])
        let cancellable = try db.observeChanges(on: queue) { change in changes.change { $0.append(change) } }
        return (changes, cancellable)
    }

    private final class Observer: TransactionObserver, Sendable {
        let commits = Shared(0)
        let changes = Shared(0)
        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange() { changes.change { $0 += 1 } }
        func databaseDidChange(with event: DatabaseEvent) { changes.change { $0 += 1 } }
        func databaseDidCommit(_ db: Database) { commits.change { $0 += 1 } }
        func databaseDidRollback(_ db: Database) {}
    }

    // MARK: Values

    @Test(arguments: [false, true])
    func aValueObservationContinues(writing: Bool) async throws {
        let a = try open("a")
        let b = try open("b")
        let observed = Values(a, writing: writing)
        try await eventually("the first value") { observed.values.value == [0] }
        await park(a)
        try add("A", to: b)
        try add("B", to: b)
        #expect(observed.values.value == [0])
        a.unpark()
        try await eventually("a fresh value") { observed.values.value == [0, 2] }
        try add("C", to: b)
        try await eventually("a commit of another participant") { observed.values.value == [0, 2, 3] }
        try add("D", to: a)
        try await eventually("an own commit") { observed.values.value == [0, 2, 3, 4] }
        // This cancels the same cancellable.
        observed.cancel()
        await park(a)
        a.unpark()
        try add("E", to: a)
        let after = Values(a, writing: writing)
        try await eventually("a value") { after.values.value == [5] }
        #expect(observed.values.value == [0, 2, 3, 4])
        #expect(observed.errors.value.isEmpty && after.errors.value.isEmpty)
        after.cancel()
    }

    @Test(arguments: [false, true])
    func cancelledOrStartedWhileParked(writing: Bool) async throws {
        let a = try open("a")
        let observed = Values(a, writing: writing)
        try await eventually("the first value") { observed.values.value == [0] }
        await park(a)
        observed.cancel()
        let late = Values(a, writing: writing)
        let cancelled = Values(a, writing: writing)
        cancelled.cancel()
        a.unpark()
        try await eventually("a value") { late.values.value == [0] }
        try add("A", to: a)
        try await eventually("another") { late.values.value == [0, 1] }
        #expect(observed.values.value == [0] && cancelled.values.value.isEmpty)
        #expect(late.errors.value.isEmpty)
        late.cancel()
    }

    /// The fetch of an observation that runs when the connection is to be closed is interrupted, and the observation does not report it.
    @Test func aFetchThatIsInterrupted() async throws {
        let a = try open("a")
        let isFetching = Shared(0)
        let isQuick = Shared(false)
        let values = Shared<[Int]>([])
        let errors = Shared<[any Error]>([])
        let observation = ValueObservation.tracking { db in
            isFetching.change { $0 += 1 }
            if !isQuick.value {
                let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
                _ = try Int.fetchOne(db, sql: endless)
            }
            return try Player.fetchCount(db)
        }
        let queue = DispatchQueue(label: "values")
        let cancellable = observation.start(in: a, scheduling: .async(onQueue: queue)) { error in
            errors.change { $0.append(error) }
        } onChange: { value in
            values.change { $0.append(value) }
        }
        try await eventually("fetching") { isFetching.value == 1 }
        await park(a, milliseconds: 1000)
        isQuick.change { $0 = true }
        #expect(values.value.isEmpty && errors.value.isEmpty)
        a.unpark()
        try await eventually("a value") { values.value == [0] }
        #expect(errors.value.isEmpty)
        cancellable.cancel()
    }

    /// An observation that has failed is over.
    @Test func aFailedObservationIsNotStartedAgain() async throws {
        let a = try open("a")
        let failing = Values(a, delayed: true)
        try await eventually("there is no table team") { failing.errors.value.count == 1 }
        await park(a)
        try createTeam(open("b"))
        a.unpark()
        let other = Values(a)
        try await eventually("a value") { other.values.value == [0] }
        try add("A", to: a)
        try await eventually("another") { other.values.value == [0, 1] }
        #expect(failing.values.value.isEmpty && failing.errors.value.count == 1)
        other.cancel()
    }

    /// Like `.immediate`, of which GRDB ends the process when it is asked on another thread than the main one.
    private struct AtOnce: ValueObservationScheduler {
        let timesAsked = Shared(0)
        func immediateInitialValue() -> Bool {
            timesAsked.change { $0 += 1 }
            return true
        }
        func schedule(_ action: @escaping @Sendable () -> Void) { DispatchQueue.global().async(execute: action) }
    }

    @Test func anObservationThatBeganAtOnce() async throws {
        let a = try open("a")
        let values = Shared<[Int]>([])
        let scheduler = AtOnce()
        func start() -> AnyDatabaseCancellable {
            ValueObservation.tracking(Player.fetchCount)
                .start(in: a, scheduling: scheduler, onError: { _ in }) { value in values.change { $0.append(value) } }
        }
        let cancellable = start()
        #expect(values.value == [0] && scheduler.timesAsked.value == 1)
        await park(a)
        let late = start()
        #expect(values.value == [0])
        a.unpark()
        try await eventually("fresh values") { values.value == [0, 0, 0] }
        #expect(scheduler.timesAsked.value == 1)
        cancellable.cancel()
        late.cancel()
    }

    @Test func aSequenceOfValues() async throws {
        let a = try open("a")
        let b = try open("b")
        let values = Shared<[Int]>([])
        let task = Task {
            for try await value in ValueObservation.tracking(Player.fetchCount).values(in: a) {
                values.change { $0.append(value) }
            }
        }
        try await eventually("the first") { values.value == [0] }
        await park(a)
        try add("A", to: b)
        a.unpark()
        try await eventually("the second") { values.value == [0, 1] }
        task.cancel()
        _ = await task.result
    }

    // MARK: Changes

    @Test func missedChangesAreDeliveredAsOne() async throws {
        let a = try open("a")
        let b = try open("b")
        let c = try open("c")
        try createTeam(b)
        let (changes, cancellable) = try log(a)
        try add("A", to: b)
        try await eventually("the first change") { changes.value.count == 1 }
        await park(a)
        try add("B", to: b)
        try await c.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('T')") }
        try add("C", to: c)
        #expect(changes.value.count == 1)
        a.unpark()
        try await eventually("the missed changes") { changes.value.count == 2 }
        let missed = try #require(changes.value.last)
        #expect(missed.tables == .some(["player", "team"]) && missed.detail == .several && missed.author == nil)
        #expect(!missed.isOwn && missed.sequence == changes.value[0].sequence + 3)
        try add("D", to: c)
        try await eventually("continues") { changes.value.count == 3 }
        #expect(changes.value.last?.author == "c" && changes.value.last?.sequence == missed.sequence + 1)
        // When nothing was missed, nothing is reported.
        await park(a)
        a.unpark()
        try add("E", to: a)
        try await eventually("continues") { changes.value.count == 4 }
        #expect(changes.value.last?.isOwn == true && changes.value.last?.detail == .commit)
        cancellable.cancel()
    }

    @Test func aSequenceOfChanges() async throws {
        let a = try open("a")
        let b = try open("b")
        try createTeam(b)
        let seen = Shared<[DatabaseChange]>([])
        let task = Task { for try await change in a.changes(in: Table("team")) { seen.change { $0.append(change) } } }
        let all = Shared<[DatabaseChange]>([])
        let allTask = Task { for try await change in a.changes() { all.change { $0.append(change) } } }
        try await eventually("listening") {
            try await b.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('T')") }
            return !seen.value.isEmpty && !all.value.isEmpty
        }
        // The last changes that `b` has made may not be reported yet. This one follows them.
        try await a.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('last')") }
        try await eventually("all is reported") { [seen, all].allSatisfy { $0.value.last?.isOwn == true } }
        await park(a)
        try add("A", to: b)
        a.unpark()
        // A commit that comes before this would be reported together with the missed one.
        try await eventually("the missed one is reported") {
            all.value.contains { $0.tableNames?.contains("player") == true }
        }
        let before = seen.value.count
        try await b.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('U')") }
        try await eventually("the next change") { seen.value.last?.sequence != seen.value.first?.sequence }
        // The new changes are not of the player that was missed.
        #expect(seen.value.dropFirst(before).allSatisfy { $0.tables == .some(["team"]) }, "\(seen.value)")
        task.cancel()
        _ = await task.result
        allTask.cancel()
        _ = await allTask.result
    }

    /// No other process has the database open: the wal-index is recreated, and the commit counter begins at 0.
    @Test func nothingMissedAlone() async throws {
        let a = try open("a")
        for index in 0..<5 { try add("\(index)", to: a) }
        let (changes, cancellable) = try log(a)
        for round in 0..<3 {
            await park(a)
            a.unpark()
            try add("\(round)", to: a)
            try await eventually("notified") { changes.value.count == round + 1 }
        }
        #expect(
            changes.value.allSatisfy { $0.isOwn && $0.detail == .commit && $0.tables == .some(["player"]) },
            "\(changes.value)"
        )
        let sequences = changes.value.map(\.sequence)
        #expect(zip(sequences, sequences.dropFirst()).allSatisfy { $0 + 1 == $1 }, "\(sequences)")
        cancellable.cancel()
    }

    /// A program that does not know Roundtable sets the counter to its earlier value.
    @Test(arguments: [0, 1])
    func aStrangerWhileNoParticipantHeldItOpen(more: UInt32) async throws {
        let a = try open("a")
        for index in 0..<3 { try add("\(index)", to: a) }
        let (changes, cancellable) = try log(a)
        let observer = Observer()
        a.add(transactionObserver: observer)
        let counter = try #require(try await a.read { WalIndex($0)?.header?.commitCounter })
        await park(a)
        let stranger = try DatabaseQueue(path: url.path)
        for _ in 0..<counter + more {
            try await stranger.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('S')") }
        }
        a.unpark()
        try await eventually("notified") { changes.value.count == 1 }
        #expect(changes.value[0].tables == .fullDatabase && changes.value[0].detail == .unrecorded)
        try await eventually("the observer too") { observer.changes.value == 1 }
        try stranger.close()
        cancellable.cancel()
    }

    @Test func overrunWhileParked() async throws {
        let a = try open("a")
        let b = try open("b")
        let (changes, cancellable) = try log(a)
        await park(a)
        for _ in 0..<(Layout.recordCount + 1) { try add("A", to: b) }
        a.unpark()
        try await eventually("notified") { changes.value.count == 1 }
        #expect(changes.value[0].tables == .fullDatabase)
        cancellable.cancel()
    }

    @Test func anotherControlBlockWhileParked() async throws {
        let a = try open("a")
        let b = try open("b")
        let (changes, cancellable) = try log(a)
        await park(a)
        try FileManager.default.removeItem(atPath: ControlBlock.path(forDatabaseAt: url.path))
        try add("A", to: b)
        a.unpark()
        try await eventually("notified") { !changes.value.isEmpty }
        #expect(changes.value[0].tables == .fullDatabase)
        cancellable.cancel()
    }

    // MARK: Transaction observers

    @Test func transactionObserversAreAddedAgain() async throws {
        let a = try open("a")
        let b = try open("b")
        try createTeam(b)
        let kept = Observer()
        a.add(transactionObserver: kept)
        var owned: Observer? = Observer()
        weak let weakOwned = owned
        a.add(transactionObserver: owned!, extent: .databaseLifetime)
        var gone: Observer? = Observer()
        weak let weakGone = gone
        a.add(transactionObserver: gone!)
        let removed = Observer()
        a.add(transactionObserver: removed)
        a.remove(transactionObserver: removed)
        let next = Observer()
        a.add(transactionObserver: next, extent: .nextTransaction)
        let used = Observer()
        try await a.writeWithoutTransaction { db in
            // The next transaction of `next` is after parking.
            #expect(!db.isInsideTransaction)
        }
        await park(a)
        gone = nil
        owned = nil
        #expect(weakGone == nil && weakOwned != nil)
        let late = Observer()
        a.add(transactionObserver: late)
        try add("A", to: b)
        try await b.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('T')") }
        a.unpark()
        try await eventually("notified of what was missed") { kept.commits.value == 1 && kept.changes.value >= 1 }
        #expect(weakOwned?.commits.value == 1 && next.commits.value == 1 && removed.commits.value == 0)
        let lateBefore = late.commits.value
        try add("B", to: a)
        #expect(kept.commits.value == 2 && weakOwned?.commits.value == 2 && late.commits.value == lateBefore + 1)
        #expect(next.commits.value == 1 && removed.commits.value == 0)

        // An observer whose transaction is over is not added again, and no observer is added twice.
        a.add(transactionObserver: used, extent: .nextTransaction)
        try add("C", to: a)
        #expect(used.commits.value == 1)
        await park(a)
        a.unpark()
        try add("D", to: a)
        #expect(used.commits.value == 1 && next.commits.value == 1)
        #expect(kept.commits.value == 4 && weakOwned?.commits.value == 4)
        _ = (gone, owned)
    }

    @Test func aRegionObservationContinues() async throws {
        let a = try open("a")
        let b = try open("b")
        try createTeam(b)
        let notifications = Shared(0)
        let observation = DatabaseRegionObservation(tracking: Table("team"))
        let cancellable = observation.start(in: a) {
            Issue.record($0)
        } onChange: { _ in
            notifications.change { $0 += 1 }
        }
        await park(a)
        try await b.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('T')") }
        a.unpark()
        try await eventually("notified of what was missed") { notifications.value == 1 }
        try add("A", to: a)
        try await a.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('U')") }
        #expect(notifications.value == 2)
        cancellable.cancel()
        try await a.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('V')") }
        #expect(notifications.value == 2)
    }

    // MARK: Pausing

    @Test func pausing() async throws {
        let a = try open("a")
        let b = try open("b")
        try createTeam(b)
        let (changes, cancellable) = try log(a)
        let values = Values(a)
        let observer = Observer()
        a.add(transactionObserver: observer)
        try await eventually("the first value") { values.values.value == [0] }
        a.observatory.pause()
        try add("A", to: b)
        try await b.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('T')") }
        // Reads continue.
        try await eventually("can be read") { try await a.read(Player.fetchCount) == 1 }
        #expect(changes.value.isEmpty && values.values.value == [0] && observer.commits.value == 0)
        let (late, other) = try log(a)
        try add("B", to: b)
        #expect(late.value.isEmpty)
        a.observatory.resume()
        try await eventually("notified") { !changes.value.isEmpty && !late.value.isEmpty }
        #expect(changes.value.count == 1 && changes.value[0].tables == .some(["player", "team"]))
        try await eventually("a value") { values.values.value == [0, 2] }
        try await eventually("the observer") { observer.commits.value == 1 }
        try add("C", to: b)
        try await eventually("continues") { changes.value.count == 2 && values.values.value == [0, 2, 3] }
        #expect(values.errors.value.isEmpty)
        cancellable.cancel()
        other.cancel()
        values.cancel()
    }

    /// The gate pauses observation, as its policy says.
    @Test(arguments: SuspensionPolicy.allCases)
    func theGatePausesObservation(policy: SuspensionPolicy) async throws {
        var options = SharedDatabase.Options()
        options.suspensionPolicy = policy
        let a = try await SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "a", options: options)
        let b = try open("b")
        let (changes, cancellable) = try log(a)
        let values = Values(a)
        try await eventually("the first value") { values.values.value == [0] }
        #expect(await a.suspend(deadline: .now + .seconds(5)).isReleased)
        try add("A", to: b)
        try add("B", to: b)
        #expect(changes.value.isEmpty && values.values.value == [0])
        if policy == .writeLocks {
            #expect(try await a.read(Player.fetchCount) == 2)
        } else {
            #expect(throws: DatabaseError.self) { try count(a) }
        }
        a.resume()
        try await eventually("notified") { changes.value.count == 1 && values.values.value == [0, 2] }
        #expect(changes.value[0].detail == .several && changes.value[0].author == "b")
        try add("C", to: a)
        try await eventually("continues") { changes.value.count == 2 && values.values.value == [0, 2, 3] }
        cancellable.cancel()
        values.cancel()
    }
}
