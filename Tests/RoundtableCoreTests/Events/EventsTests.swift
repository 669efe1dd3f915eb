import Dispatch
import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// The events of open databases: their consumers, their times, and what a consumer may do.
@Suite struct EventsTests {
    let folder: TemporaryFolder
    let url: URL
    /// The suspension is of these tests alone.
    let process = ProcessSuspension()

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private func open(
        _ author: String = "app",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = process
        options.eventLog = .off
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private final class Log: Sendable {
        let events = Shared<[SharedDatabase.Event]>([])
        @Sendable func note(_ event: SharedDatabase.Event) { events.change { $0.append(event) } }
        var lines: [String] { events.value.map { "\($0.severity) \($0.category): \($0)" } }
        var categories: [String] { events.value.map(\.category) }
    }

    private var coordinationPath: String { ControlBlock.path(forDatabaseAt: url.resolvingSymlinksInPath().path) }

    /// Prevents participants from having a control block.
    private func obstructCoordination() throws {
        try FileManager.default.createDirectory(atPath: coordinationPath, withIntermediateDirectories: true)
    }

    private func schemaBecomesNewer(_ version: Int) throws {
        var newer = migrator()
        newer.registerMigration("newer\(version)") { try $0.execute(sql: "CREATE TABLE t\(version) (x)") }
        try newer.migrate(DatabaseQueue(path: url.path))
    }

    // MARK: From opening to closing

    @Test(.timeLimit(.minutes(1))) func theEventsOfOpeningReachTheCallback() async throws {
        try open().close()
        try? FileManager.default.removeItem(atPath: coordinationPath)
        try obstructCoordination()
        let log = Log()
        let db = try open { $0.onEvent = log.note }
        db.reporter.waitForDeliveries()
        let event = try #require(log.events.value.first)
        #expect(log.events.value.count == 1)
        guard case .coordination(.unavailable(let reason)) = event.kind else { return #expect(Bool(false), "\(event)") }
        #expect(reason == db.uncoordinatedReason)
        #expect(event.severity == .warning && event.author == "app" && event.path == db.path)
        #expect(event.description.hasPrefix("\(db.path), 'app': writes without fair turns: "))
        #expect(abs(event.date.timeIntervalSinceNow) < 60)

        // It is over when a write finds the place free.
        try FileManager.default.removeItem(atPath: coordinationPath)
        try await eventually("it is coordinated") {
            try add("A", to: db)
            return db.uncoordinatedReason == nil
        }
        db.reporter.waitForDeliveries()
        #expect(
            log.lines.last?.hasPrefix("notice coordination: ") == true && log.events.value.count == 2,
            "\(log.lines)"
        )
    }

    private func add(_ name: String, to db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: name).inserted(db) }
    }

    /// A read-only participant takes no turns, and misses nothing without a control block.
    @Test func aReaderWithoutAControlBlock() throws {
        try open().close()
        try? FileManager.default.removeItem(atPath: coordinationPath)
        let log = Log()
        var options = SharedDatabase.Options()
        options.onEvent = log.note
        options.eventLog = .off
        guard case .available(let db) = try openReadOnly(options) else { return #expect(Bool(false)) }
        db.reporter.waitForDeliveries()
        #expect(db.uncoordinatedReason != nil && log.lines == [])
    }

    private func openReadOnly(_ options: SharedDatabase.Options) throws -> SharedDatabase.Availability {
        try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader", options: options)
    }

    @Test(.timeLimit(.minutes(1))) func loopsEndWhenTheDatabaseIsClosed() async throws {
        let db = try open()
        let loops = (1...3).map { _ in
            let events = db.events
            return Task {
                var categories: [String] = []
                for await event in events { categories.append(event.category) }
                return categories
            }
        }
        try schemaBecomesNewer(1)
        #expect(throws: SharedDatabaseError.self) { try add("A", to: db) }
        try close(db)
        for loop in loops { #expect(await loop.value == ["schema"]) }
        for await event in db.events { Issue.record("\(event)") }
    }

    private func close(_ db: SharedDatabase) throws { try db.close() }

    /// A loop does not keep the database open, and ends with it.
    @Test(.timeLimit(.minutes(1))) func loopsEndWhenTheDatabaseIsReleased() async throws {
        var db: SharedDatabase? = try open()
        let events = try #require(db).events
        weak let released = db
        db = nil
        try await eventually("it is released") { released == nil }
        for await event in events { Issue.record("\(event)") }
    }

    /// A sequence that no loop reads is forgotten with its last reference, and keeps no snapshot alive meanwhile.
    @Test(.timeLimit(.minutes(1))) func anEventKeepsNoSnapshot() async throws {
        let db = try open { $0.longReadLimit = LongRead.Limit(age: .seconds(1000), frames: 1) }
        let events = db.events
        do {
            let snapshot = try makeSnapshot(of: db)
            for name in ["A", "B", "C"] { try add(name, to: db) }
            withExtendedLifetime(snapshot) {}
        }
        try await eventually("the snapshot is released") { try db.walHealth().pins.isEmpty }
        var iterator = events.makeAsyncIterator()
        guard case .longRead(let read)? = await iterator.next()?.kind else { return #expect(Bool(false)) }
        #expect(read.snapshot == nil && read.callSite.contains("EventsTests.swift") && read.path == db.path)
    }

    private func makeSnapshot(of db: SharedDatabase) throws -> SharedDatabaseSnapshot { try db.makeSnapshot() }

    // MARK: What a consumer may do

    enum Act: CaseIterable { case write, close, suspend, snapshot }

    /// A callback uses the database that calls it, and does not wait for itself.
    @Test(.timeLimit(.minutes(1)), arguments: Act.allCases) func aCallbackUsesTheDatabase(_ act: Act) async throws {
        let box = Shared<SharedDatabase?>(nil)
        let done = Shared<String?>(nil)
        let db = try open { options in
            options.newerSchemaPolicy = .continue
            options.onEvent = { event in
                guard event.category == "schema", done.value == nil, let db = box.value else { return }
                let result = Result {
                    switch act {
                    case .write: try db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('event')") }
                    case .close: try db.close()
                    case .suspend:
                        #expect(db.suspend(deadline: .now + .seconds(5)).isReleased)
                        db.resume()
                    case .snapshot: try db.makeSnapshot().close()
                    }
                }
                done.change { $0 = "\(result)" }
            }
        }
        box.change { $0 = db }
        defer { box.change { $0 = nil } }
        try schemaBecomesNewer(1)
        try add("A", to: db)
        try await eventually("the callback returns") { done.value != nil }
        #expect(done.value?.hasPrefix("success") == true, "\(done.value ?? "")")
        if act == .close {
            #expect(throws: DatabaseError.self) { try add("B", to: db) }
        } else {
            try add("B", to: db)
        }
    }

    /// A callback that does not return delays neither writers nor loops nor closing.
    @Test(.timeLimit(.minutes(1))) func aSlowCallback() async throws {
        let mayReturn = Shared(false)
        let calls = Shared(0)
        let db = try open { options in
            options.newerSchemaPolicy = .continue
            options.onEvent = { _ in
                calls.change { $0 += 1 }
                mayReturn.wait { $0 }
            }
        }
        let events = db.events
        let loop = Task {
            var count = 0
            for await _ in events { count += 1 }
            return count
        }
        for version in 1...5 {
            try schemaBecomesNewer(version)
            try add("A", to: db)
        }
        try close(db)
        #expect(await loop.value == 5)
        #expect(calls.value <= 1)
        mayReturn.change { $0 = true }
        #expect(calls.wait { $0 == 5 }, "what was reported before the end is delivered")
    }

    // MARK: The log

    @Test func theLogIsAClosure() throws {
        try obstructCoordination()
        let (log, callback) = (Log(), Log())
        let db = try open {
            $0.eventLog = .closure(log.note)
            $0.onEvent = callback.note
        }
        db.reporter.waitForDeliveries()
        #expect(log.categories == ["coordination"] && callback.categories == ["coordination"])
    }

    @Test func theLogIsOff() throws {
        try obstructCoordination()
        var options = SharedDatabase.Options()
        guard case .system = options.eventLog else { return #expect(Bool(false), "the default") }
        options.eventLog = .off
        var opening = DatabaseOpening(
            path: "/db",
            author: "app",
            role: .readWrite,
            schema: .unmanaged,
            options: options
        )
        _ = EventsFeature(&opening)
        #expect(!opening.reporter.isHeard)
        options.eventLog = .system
        opening = DatabaseOpening(path: "/db", author: "app", role: .readWrite, schema: .unmanaged, options: options)
        _ = EventsFeature(&opening)
        #expect(opening.reporter.isHeard)
    }

    /// Tests are quiet unless they ask for the log, and options are not concerned.
    @Test func testsHaveNoLogByDefault() {
        var options = SharedDatabase.Options()
        guard case .system = options.eventLog else { return #expect(Bool(false), "the default") }
        guard DefaultLog.isOff, case .off = options.effectiveLog else { return #expect(Bool(false), "quiet") }
        options.eventLog = .system
        guard case .system = options.effectiveLog else { return #expect(Bool(false), "asked for") }
    }

    #if os(Linux)
        /// Without any options, a problem reaches standard error.
        @Test(.timeLimit(.minutes(1))) func theDefaultIsTheSystemsLog() async throws {
            let result = await #expect(
                processExitsWith: .success,
                observing: [\.standardErrorContent]
            ) {
                DefaultLog.isOff = false
                let folder = try TemporaryFolder()
                let url = folder.file("players.sqlite")
                let path = ControlBlock.path(forDatabaseAt: url.resolvingSymlinksInPath().path)
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
                let db = try SharedDatabase.openNow(at: url)
                db.reporter.waitForDeliveries()
            }
            let text = String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
            let lines = text.split(separator: "\n").filter { $0.contains("roundtable warning coordination: ") }
            #expect(lines.count == 1 && text.contains("players.sqlite, 'app': writes without fair turns"), "\(text)")
        }
    #endif

    // MARK: Suspension

    /// A write that is interrupted is reported, with its line, although its caller swallows the error.
    @Test(.timeLimit(.minutes(1))) func aWriteIsRolledBack() async throws {
        let log = Log()
        let db = try open { options in
            options.onEvent = log.note
            options.process = .early()
        }
        let began = Shared(false)
        let write = inThread {
            try? db.write { db in
                while true {
                    try db.execute(sql: "UPDATE player SET name = name")
                    began.change { $0 = true }
                }
            }
        }
        try await eventually("the write runs") { began.value }
        guard case .rolledBack = await db.suspend(deadline: .now + .seconds(30)).outcome else {
            return #expect(Bool(false))
        }
        _ = try await write.value
        db.reporter.waitForDeliveries()
        #expect(log.lines.count == 1, "\(log.lines)")
        guard case .suspension(.rolledBack(let access))? = log.events.value.first?.kind else {
            return #expect(Bool(false))
        }
        #expect(access.kind == .write && access.callSite?.contains("EventsTests.swift") == true)
        db.resume()
    }

    /// A lock that is held at the deadline is reported once, however often the database is suspended; then the rollback of the write is reported.
    @Test(.timeLimit(.minutes(1))) func aLockIsHeld() async throws {
        let log = Log()
        let db = try open { $0.onEvent = log.note }
        let (began, mayContinue) = (Shared(false), Shared(false))
        let write = inThread {
            try? db.write { db in
                try db.execute(sql: "INSERT INTO player (name) VALUES ('A')")
                began.change { $0 = true }
                mayContinue.wait { $0 }
                try db.execute(sql: "INSERT INTO player (name) VALUES ('B')")
            }
        }
        try await eventually("the write runs") { began.value }
        for _ in 1...2 {
            guard case .held = await db.suspend(deadline: .now + .milliseconds(30)).outcome else {
                return #expect(Bool(false))
            }
        }
        mayContinue.change { $0 = true }
        _ = try await write.value
        try await eventually("both are reported") { log.events.value.count == 2 }
        #expect(log.lines[0].hasPrefix("error suspension: ") && log.lines[0].contains("0xDEAD10CC"))
        #expect(log.lines[1].hasPrefix("warning suspension: "))
        db.resume()
        // The next suspension is reported again.
        #expect(await db.suspend(deadline: .now + .seconds(5)).outcome == .released)
        db.resume()
        db.reporter.waitForDeliveries()
        #expect(log.events.value.count == 2)
    }

    // MARK: Observation

    /// A participant that observes cannot open its connection for some seconds after it was parked.
    @Test(.timeLimit(.minutes(1))) func observationIsInterrupted() async throws {
        let log = Log()
        let db = try open { $0.onEvent = log.note }
        let changes = Shared(0)
        let observation = try db.observeChanges(on: nil) { _ in changes.change { $0 += 1 } }
        defer { observation.cancel() }
        let aside = folder.file("aside")
        #expect(await onThread { db.park(until: MonotonicClock.now + 60_000_000_000) } == [])
        try FileManager.default.moveItem(at: url, to: aside)
        db.unpark()
        try await eventually("it is reported") { !log.events.value.isEmpty }
        guard case .observation(.interrupted(let error))? = log.events.value.first?.kind else {
            return #expect(Bool(false), "\(log.lines)")
        }
        #expect((error as? DatabaseError)?.resultCode == .SQLITE_CANTOPEN)
        try FileManager.default.moveItem(at: aside, to: url)
        try await eventually("the end is reported") { log.events.value.count == 2 }
        guard case .observation(.resumed(let time))? = log.events.value.last?.kind else {
            return #expect(Bool(false), "\(log.lines)")
        }
        #expect(time >= .seconds(1) && time < .seconds(60))
        let before = changes.value
        try add("A", to: db)
        try await eventually("changes are reported") { changes.value > before }
        #expect(log.events.value.count == 2)
    }

    @Test func errorsOfObservationThatPass() {
        var state = RetryTroubleState<ObservationStep>()
        let second: Nanoseconds = 1_000_000_000
        func failed(_ step: ObservationStep, _ time: Nanoseconds) -> Bool {
            state.failed(step, at: time * second)
        }
        func succeeded(_ step: ObservationStep, _ time: Nanoseconds) -> Nanoseconds? {
            state.succeeded(step, at: time * second).map { $0 / second }
        }
        // An error whose first retry succeeds is not reported.
        let passing = failed(.opening, 5)
        #expect(!passing && state.isFailing)
        let end = succeeded(.opening, 6)
        #expect(end == nil && !state.isFailing)
        // An error that lasts is reported once, and its end when the last step succeeds.
        let reports = [10, 11, 13].map { failed(.opening, $0) }
        #expect(reports == [false, true, false])
        let others = [14, 16].map { failed(.notifying(onWriter: true), $0) }
        #expect(others == [false, false])
        let first = succeeded(.opening, 17)
        #expect(first == nil && state.isFailing)
        let ends = [20, 21].map { succeeded(.notifying(onWriter: true), $0) }
        #expect(ends == [10, nil] && !state.isFailing)
        let again = failed(.opening, 30)
        #expect(!again)
    }
}

extension SharedDatabase {
    /// In async closures, Swift takes the async form.
    fileprivate static func openNow(at url: URL) throws -> SharedDatabase {
        try open(at: url, schema: SharedSchema(migrator()), as: "app")
    }
}
