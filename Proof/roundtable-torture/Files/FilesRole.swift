import ArgumentParser
import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import RoundtableKernel
import RoundtableTestKit

/// What a process of the campaign `files` has seen, when it found that its file is lost.
struct LossReport: Codable {
    var role: String
    var pid = getpid()
    /// The begin of the last write that was acknowledged, or the last row; in ns of the monotonic clock.
    var lastBegan: UInt64 = 0
    /// How many writes were acknowledged.
    var acknowledged = 0
    /// When the process was notified.
    var notified: UInt64 = 0
    /// The error with which it ended.
    var error: String
    var isLoss: Bool
}

/// When a process of the campaign `files` has used the next database, in ns of the monotonic clock.
struct NextUse: Codable {
    var time: UInt64
    /// Why it could not be used; empty when it was.
    var error: String
}

/// The processes of the campaign `files`: each works until its database reports an error, writes that down, and waits for the end.
struct FilesRole: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "files-role", shouldDisplay: false)

    static let roles = [("writer", 4), ("observer", 2), ("owner", 1), ("worker", 1)]

    func run() async throws {
        await Fleet.runRole([
            "writer": { worker in try await Self.perform("writer", worker, Self.write) },
            "observer": { worker in try await Self.perform("observer", worker, Self.observe) },
            "owner": { worker in try await Self.perform("owner", worker, Self.own) },
            "worker": { worker in try await Self.perform("worker", worker, Self.work) },
        ])
    }

    static func url(_ folder: URL) -> URL { folder.appendingPathComponent("db/files.sqlite") }

    static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("files") { db in
            try db.createJobTables()
            try db.execute(sql: "CREATE TABLE entry (pid INTEGER, number INTEGER)")
        }
        return SharedSchema(migrator)
    }

    private static func perform(
        _ role: String,
        _ worker: Worker,
        _ body: (SharedDatabase, inout LossReport) async throws -> Void
    ) async throws {
        var options = SharedDatabase.Options()
        if role == "owner" { options.outbox = OutboxHandlers() }
        let database = try await SharedDatabase.open(
            at: url(worker.folder),
            schema: schema,
            as: role,
            options: options
        )
        mark(worker, "ready")
        var report = LossReport(role: role, error: "", isLoss: false)
        do { try await body(database, &report) } catch {
            report.notified = MonotonicClock.now
            report.error = "\(error)"
            if case .fileLost? = error as? SharedDatabaseError { report.isLoss = true }
        }
        let place = file(worker.folder, "report-\(worker.number)")
        try JSONEncoder().encode(report).write(to: place, options: .atomic)
        let next =
            FileManager.default.fileExists(atPath: file(worker.folder, "follow").path)
            ? try await follow(role, worker) : nil
        // The campaign looks at the status meanwhile.
        while !FileManager.default.fileExists(atPath: file(worker.folder, "end").path) {
            try await Task.sleep(for: .milliseconds(5))
        }
        try database.close()
        try next?.close()
    }

    /// Opens the next database while the former one is still open, and uses it.
    private static func follow(_ role: String, _ worker: Worker) async throws -> SharedDatabase? {
        var use = NextUse(time: 0, error: "")
        var database: SharedDatabase?
        do {
            let next = try await SharedDatabase.open(at: url(worker.folder), schema: schema, as: role)
            database = next
            try await next.write { try $0.execute(sql: "INSERT INTO entry VALUES (?, -1)", arguments: [getpid()]) }
        } catch { use.error = "\(error)" }
        use.time = MonotonicClock.now
        try JSONEncoder().encode(use).write(to: file(worker.folder, "next-\(worker.number)"), options: .atomic)
        return database
    }

    static func file(_ folder: URL, _ name: String) -> URL { folder.appendingPathComponent(name) }

    private static func mark(_ worker: Worker, _ name: String) {
        touch(file(worker.folder, "\(name)-\(worker.number)"))
    }

    static func touch(_ file: URL) { _ = FileManager.default.createFile(atPath: file.path, contents: nil) }

    private static func write(_ database: SharedDatabase, _ report: inout LossReport) async throws {
        var number = 0
        while true {
            let began = MonotonicClock.now
            try await database.write { [number] db in
                try db.execute(sql: "INSERT INTO entry VALUES (?, ?)", arguments: [getpid(), number])
            }
            report.lastBegan = began
            number += 1
            report.acknowledged = number
            // Pauses of several lengths, so that some writes come after one.
            if number % 50 == 0 { try await Task.sleep(for: .milliseconds(number % 4 * 10)) }
        }
    }

    private static func observe(_ database: SharedDatabase, _ report: inout LossReport) async throws {
        for try await _ in ValueObservation.tracking({ try Int.fetchOne($0, sql: "SELECT count(*) FROM entry") })
            .values(in: database)
        {}
    }

    private static func own(_ database: SharedDatabase, _ report: inout LossReport) async throws {
        for try await _ in database.changes() {}
    }

    private static func work(_ database: SharedDatabase, _ report: inout LossReport) async throws {
        try await JobQueue("files", of: Int.self).run(in: database) { _ in }
    }
}
