import Foundation
import GRDB
import Roundtable
import RoundtableService
import RoundtableTestKit
import RoundtableTestSupport
import Testing

/// The health of a database that is open in this process.
@Suite struct HealthTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

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
        let url = folder.url.appendingPathComponent("db.sqlite")
        return try SharedDatabase.open(at: url, schema: Schema(migrator), as: author, options: options)
    }

    /// A healthy database, also while another participant holds the turn; the inspection takes none.
    @Test(.timeLimit(.minutes(1))) func healthy() async throws {
        let db = try open()
        let other = try open("other")
        let holding = DispatchSemaphore(value: 0)
        let release = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            try? other.write { _ in
                holding.signal()
                release.wait()
            }
        }
        holding.waitOnThisThread()
        let before = try DatabaseStatus(ofDatabaseAt: URL(fileURLWithPath: db.path)).participants.first {
            $0.author == "app"
        }?.turnsTaken
        let health = await db.health(within: .seconds(20), writeLimit: .seconds(600))
        #expect(health.status == .healthy && health.reasons.isEmpty && health.isLive && health.isReady)
        let after = try DatabaseStatus(ofDatabaseAt: URL(fileURLWithPath: db.path)).participants.first {
            $0.author == "app"
        }?.turnsTaken
        #expect(before == after)
        release.signal()
        let decoded = try JSONDecoder().decode(DatabaseHealth.self, from: Data(health.json.utf8))
        #expect(decoded.status == .healthy && decoded.isReady)
    }

    /// A participant that writes for longer than the limit makes the database unhealthy, and is named with its line of code.
    @Test(.timeLimit(.minutes(1))) func aLongWrite() async throws {
        let db = try open()
        let other = try open("other")
        let holding = DispatchSemaphore(value: 0)
        let release = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            try? other.write { _ in
                holding.signal()
                release.wait()
            }
        }
        holding.waitOnThisThread()
        let health = await db.health(within: .seconds(20), writeLimit: .zero)
        #expect(health.reasons.map(\.code) == [.writesBlocked])
        #expect(health.status == .unhealthy && health.isLive && !health.isReady)
        let message = health.reasons.first?.message ?? ""
        #expect(message.contains("'other'") && message.contains("HealthTests.swift"), "\(message)")
        release.signal()
        // It gets its turn after the other write.
        try await db.write { _ in }
        let later = await db.health(within: .seconds(20), writeLimit: .seconds(600))
        #expect(later.status == .healthy, "\(later)")
    }

    /// A read that gets no connection before the deadline is a reason to restart the process, and the inspection ends with it.
    @Test(.timeLimit(.minutes(1))) func readersInUse() async throws {
        let db = try open { $0.maximumReaderCount = 1 }
        let reading = DispatchSemaphore(value: 0)
        let release = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            try? db.read { _ in
                reading.signal()
                release.wait()
            }
        }
        reading.waitOnThisThread()
        let health = await db.health(within: .milliseconds(50))
        #expect(health.status == .unhealthy && !health.isLive && !health.isReady)
        #expect(health.reasons.map(\.code) == [.unreadable])
        release.signal()
    }

    /// Writes are refused, but the process is alive: it must not be restarted, and gets no requests.
    @Test(.timeLimit(.minutes(1))) func aNewerSchema() async throws {
        let db = try open()
        _ = try open("newer", migrations: ["v1", "v2"])
        await #expect(throws: SharedDatabaseError.self) { try await db.write { _ in } }
        let health = await db.health(within: .seconds(20))
        #expect(health.reasons.map(\.code) == [.schemaTooNew])
        #expect(health.status == .unhealthy && health.isLive && !health.isReady)
        #expect(health.reasons.first?.message.contains("'v2'") == true)
    }

    /// A WAL that a reader keeps from being copied; the reason names the reader.
    @Test(.timeLimit(.minutes(1))) func aLongWAL() async throws {
        let db = try open { $0.checkpointing = .automatic(threshold: 16) }
        let snapshot = try await db.makeSnapshot()
        try await snapshot.read { _ = try Int.fetchOne($0, sql: "SELECT count(*) FROM v1") }
        for _ in 0..<200 {
            try await db.write(sharesCommit: false) { try $0.execute(sql: "INSERT INTO v1 VALUES (1)") }
        }
        let health = await db.health(within: .seconds(20))
        let reason = try #require(health.reasons.first { $0.code == .longWAL }, "\(health)")
        #expect(reason.message.contains("'app'"))
        #expect(health.status == .degraded && health.isLive && health.isReady)
        withExtendedLifetime(snapshot) {}
    }

    /// Disks without space, a database without a control block, and one that is closed.
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
    /// Blocks the thread of a task, which the compiler does not let `wait()` do. The threads that signal are not those of tasks.
    fileprivate func waitOnThisThread() { wait() }
}
