import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableService
import RoundtableTestKit
import RoundtableTestSupport
import Testing

/// The health of a database that is open in this process.
@Suite struct HealthTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var url: URL { folder.url.appendingPathComponent("db.sqlite") }
    /// The name of the control block.
    private var block: String { ControlBlock.path(forDatabaseAt: url.resolvingSymlinksInPath().path) }

    private func open(
        _ author: String = "app",
        migrations: [String] = ["v1"],
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.eventLog = .off
        change(&options)
        var migrator = DatabaseMigrator()
        for name in migrations {
            migrator.registerMigration(name) { try $0.execute(sql: "CREATE TABLE \(name) (a)") }
        }
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: author, options: options)
    }

    /// The health of a database, inspected with limits that a slow machine does not reach.
    private func inspect(_ db: SharedDatabase, writeLimit: Duration = .seconds(600)) async -> DatabaseHealth {
        await db.health(within: .seconds(20), writeLimit: writeLimit)
    }

    private func expectHealthy(_ db: SharedDatabase, sourceLocation: SourceLocation = #_sourceLocation) async {
        let health = await inspect(db)
        #expect(health.reasons == [], sourceLocation: sourceLocation)
        #expect(
            health.status == .healthy && health.isLive && health.isReady,
            "\(health)",
            sourceLocation: sourceLocation
        )
    }

    /// Runs `body` while an access of another thread lasts. `access` calls its argument, which returns after `body`, or after half a minute.
    private func during<T>(
        _ access: @escaping @Sendable (_ stay: () -> Void) throws -> Void,
        body: () async throws -> T
    ) async throws -> T {
        let (begun, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            try? access {
                begun.signal()
                _ = end.isSignalled
            }
        }
        defer { end.signal() }
        try #require(begun.isSignalled, "the access does not begin")
        return try await body()
    }

    private func turns(of author: String) throws -> Int {
        let participants = try DatabaseStatus(ofDatabaseAt: url).participants
        return try #require(participants.first { $0.author == author }?.turnsTaken, "\(participants)")
    }

    /// A healthy database, also while another participant holds the turn; the inspection takes none.
    @Test(.timeLimit(.minutes(1))) func healthy() async throws {
        let db = try open()
        let other = try open("other")
        let before = try turns(of: "app")
        await expectHealthy(db)
        let health = try await during { stay in
            try other.write { _ in stay() }
        } body: {
            await inspect(db)
        }
        #expect(health.status == .healthy && health.reasons.isEmpty && health.isLive && health.isReady, "\(health)")
        #expect(try turns(of: "app") == before)
        let decoded = try JSONDecoder().decode(DatabaseHealth.self, from: Data(health.json.utf8))
        #expect(decoded == health)
        // The count would show a turn.
        try await db.write { _ in }
        #expect(try turns(of: "app") > before)
    }

    /// A participant that writes for longer than the limit makes the database unhealthy, and is named with its line of code.
    @Test(.timeLimit(.minutes(1))) func aLongWrite() async throws {
        let db = try open()
        let other = try open("other")
        let health = try await during { stay in
            try other.write { _ in stay() }
        } body: {
            await inspect(db, writeLimit: .zero)
        }
        #expect(health.reasons.map(\.code) == [.writesBlocked])
        #expect(health.status == .unhealthy && health.isLive && !health.isReady)
        let message = health.reasons.first?.message ?? ""
        #expect(message.contains("'other'") && message.contains("HealthTests.swift"), "\(message)")
        // It gets its turn after the other write.
        try await db.write { _ in }
        await expectHealthy(db)
    }

    #if os(Linux)
        private static let python = URL(fileURLWithPath: "/usr/bin/python3")
        private static let hasPython = FileManager.default.isExecutableFile(atPath: python.path)

        /// A program without Roundtable that keeps the write lock is found while a write waits for it, also if the limit is longer than the
        /// busy timeout, after which the write fails.
        @Test(.timeLimit(.minutes(1)), .enabled(if: hasPython, "/usr/bin/python3 is not installed"))
        func aStrangerKeepsTheWriteLock() async throws {
            let db = try open { $0.busyTimeout = .seconds(1) }
            let script =
                "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('BEGIN IMMEDIATE'); sys.stdin.read()"
            let stranger = try ChildProcess(
                executable: Self.python,
                arguments: ["-c", script, url.path],
                errorOutput: folder.file("stranger.err")
            )
            try await eventually("it has the lock") { SystemLocks.writer(databasePath: url.path) == stranger.pid }
            let writes = Task {
                while !Task.isCancelled { try? await db.write { try $0.execute(sql: "DELETE FROM v1") } }
            }
            try await eventually("the health says so") {
                let reason = await inspect(db).reasons.first { $0.code == .writesBlocked }
                return reason?.message.contains("pid \(stranger.pid)") == true
            }
            writes.cancel()
            stranger.end()
            await writes.value
            await expectHealthy(db)
        }
    #endif

    /// A read that gets no connection before the deadline is a reason to restart the process, and the inspection ends with it.
    @Test(.timeLimit(.minutes(1))) func readersInUse() async throws {
        let db = try open { $0.maximumReaderCount = 1 }
        let began = ContinuousClock.now
        let (health, duration) = try await during { stay in
            try db.read { _ in stay() }
        } body: {
            (await db.health(within: .milliseconds(50)), ContinuousClock.now - began)
        }
        #expect(health.status == .unhealthy && !health.isLive && !health.isReady)
        #expect(health.reasons.map(\.code) == [.unreadable])
        #expect(health.duration >= .milliseconds(50) && health.duration <= duration)
        // The read lasts for longer, if the inspection waits for it.
        #expect(duration < .seconds(20))
    }

    /// Writes are refused, but the process is alive: it must not be restarted, and gets no requests.
    @Test(.timeLimit(.minutes(1))) func aNewerSchema() async throws {
        let db = try open()
        _ = try open("newer", migrations: ["v1", "v2"])
        await #expect(throws: SharedDatabaseError.self) { try await db.write { _ in } }
        let health = await inspect(db)
        #expect(health.reasons.map(\.code) == [.schemaTooNew])
        #expect(health.status == .unhealthy && health.isLive && !health.isReady)
        #expect(health.reasons.first?.message.contains("'v2'") == true)
    }

    /// A program that is to continue with a newer schema writes, so it gets requests.
    @Test(.timeLimit(.minutes(1))) func aNewerSchemaThatIsAccepted() async throws {
        let db = try open { $0.newerSchemaPolicy = .continue }
        _ = try open("newer", migrations: ["v1", "v2"])
        try await db.write { try $0.execute(sql: "INSERT INTO v1 VALUES (1)") }
        #expect(db.unknownMigrations == ["v2"], "otherwise, its health has nothing to say of the schema")
        await expectHealthy(db)
    }

    /// A fenced database is read, and not written (**D6**): a restart would not help.
    @Test(.timeLimit(.minutes(1))) func anotherMachineWrites() async throws {
        let db = try open()
        let mark = URL(fileURLWithPath: db.path + Fence.suffix)
        try Data().write(to: mark)
        db.announceFence()
        await #expect(throws: DatabaseError.self) { try await db.write { _ in } }
        let health = await inspect(db)
        #expect(health.reasons.map(\.code) == [.fenced])
        #expect(health.status == .unhealthy && health.isLive && !health.isReady)
        try FileManager.default.removeItem(at: mark)
        await expectHealthy(db)
    }

    /// A folder has the name of the control block (**L5**): all work continues, without fair turns.
    @Test(.timeLimit(.minutes(1))) func withoutAControlBlock() async throws {
        try open().close()
        try? FileManager.default.removeItem(atPath: block)
        try FileManager.default.createDirectory(atPath: block, withIntermediateDirectories: false)
        let db = try open()
        try await db.write { try $0.execute(sql: "INSERT INTO v1 VALUES (1)") }
        let cause = try #require(db.uncoordinatedReason)
        let health = await inspect(db)
        #expect(health.reasons.map(\.code) == [.uncoordinated])
        #expect(health.status == .degraded && health.isLive && health.isReady)
        #expect(health.reasons.first?.message.contains(cause) == true, "\(health)")
        // A write joins the control block when its name is free.
        try FileManager.default.removeItem(atPath: block)
        try await eventually("the database is coordinated") {
            try await db.write { _ in }
            return db.uncoordinatedReason == nil
        }
        await expectHealthy(db)
    }

    /// A checkpoint of any participant has failed (**K12**), until one copies frames.
    @Test(.timeLimit(.minutes(1))) func aFailedCheckpoint() async throws {
        let db = try open()
        try await db.write { try $0.execute(sql: "INSERT INTO v1 VALUES (1)") }
        let shared = try ControlBlock.open(forDatabaseAt: db.path, writable: true)
        shared.setCheckpointFailure(.init(time: MonotonicClock.now, code: ResultCode.SQLITE_FULL.rawValue, owner: nil))
        let health = await inspect(db)
        #expect(health.reasons.map(\.code) == [.checkpointFailed])
        #expect(health.status == .degraded && health.isLive && health.isReady)
        #expect(health.reasons.first?.message.contains("full") == true, "\(health)")
        _ = try await db.checkpoint(.passive)
        await expectHealthy(db)
    }

    /// A WAL that a reader keeps from being copied; the reason names the reader.
    @Test(.timeLimit(.minutes(1))) func aLongWAL() async throws {
        let db = try open { $0.checkpointing = .automatic(threshold: 16) }
        let snapshot = try await db.makeSnapshot()
        try await snapshot.read { _ = try Int.fetchOne($0, sql: "SELECT count(*) FROM v1") }
        for _ in 0..<200 {
            try await db.write(sharesCommit: false) { try $0.execute(sql: "INSERT INTO v1 VALUES (1)") }
        }
        let health = await inspect(db)
        let reason = try #require(health.reasons.first { $0.code == .longWAL }, "\(health)")
        #expect(reason.message.contains("'app'"))
        #expect(health.status == .degraded && health.isLive && health.isReady)
        withExtendedLifetime(snapshot) {}
    }

    /// A disk without space, and a database that is closed.
    @Test(.timeLimit(.minutes(1))) func otherReasons() async throws {
        let db = try open()
        let full = await db.health(within: .seconds(20), diskLimit: .max)
        #expect(full.reasons.map(\.code) == [.diskNearlyFull] && full.status == .degraded && full.isReady)
        try db.close()
        let closed = await db.health()
        #expect(closed.reasons.map(\.code) == [.shuttingDown] && closed.isLive && !closed.isReady)
    }
}

extension DispatchSemaphore {
    /// Waits for a signal, but not for longer than half a minute, so that a test fails and does not hang. It blocks the thread of a task,
    /// which the compiler does not let `wait()` do; the threads that signal are not those of tasks.
    fileprivate var isSignalled: Bool { wait(timeout: .now() + 30) == .success }
}
