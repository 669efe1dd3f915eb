import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import Testing

@testable import RoundtableJobs

/// What `roundtable status` and `roundtable doctor` show of jobs.
@Suite struct JobsToolTests {
    private let folder: Folder
    private var url: URL { folder.url.appendingPathComponent("a.db") }

    init() throws { folder = try Folder() }

    /// Makes a database with the tables of jobs, and closes it: what a look changes can then be seen in its files.
    private func make(_ body: @Sendable (Database) throws -> Void = { _ in }) throws {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("jobs") { try $0.createJobTables() }
        let db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "app")
        try db.write(body)
        try db.close()
    }

    /// A time so many seconds ago.
    private static func ago(_ seconds: Int64) -> JobTime {
        let now = JobTime.now
        return JobTime(boot: now.boot - seconds * 1000, bootID: now.bootID, wall: now.wall - seconds * 1000)
    }

    private static func add(_ count: Int = 1, to queue: String = "mail", due seconds: Int64, _ db: Database) throws {
        for _ in 0..<count {
            let data = Data("{}".utf8)
            _ = try JobTable.add(data, to: queue, notBefore: nil, priority: 0, key: nil, at: ago(seconds), db)
        }
    }

    /// Claims a job as a worker of this process, or of one that has died.
    @discardableResult
    private static func claim(
        ofDead isDead: Bool = false,
        lease: Int64 = 600_000,
        at time: JobTime = .now,
        _ db: Database
    ) throws -> JobToken {
        let own = ProcessIdentity.current
        let worker = JobWorkerRow(
            queue: "mail",
            author: isDead ? "late" : "worker",
            process: ProcessIdentity(
                pid: own.pid,
                startTime: own.startTime + (isDead ? 1 : 0),
                namespace: own.namespace
            ),
            lease: lease,
            at: time
        )
        let jobs = try JobTable.claim(1, of: "mail", at: time, db) { db in
            try JobTable.register(worker, at: time, db)
            return worker.id
        }
        return try #require(jobs.first).token
    }

    private static func bury(_ token: JobToken, _ error: String, at time: JobTime = .now, _ db: Database) throws {
        try JobTable.fail(token, error, isFinal: true, by: JobQueue("mail", of: String.self).policy, at: time, db)
    }

    private func status() throws -> (text: String, json: [String: Any]) {
        let before = try folder.contents
        let text = try Tool.run("status", "a.db", in: folder)
        let json = try Tool.run("status", "--json", "a.db", in: folder)
        #expect(text.code == 0 && json.code == 0, "\(text.errors)")
        #expect(try folder.contents == before)
        return (text.output, try #require(json.json))
    }

    private func diagnose() throws -> (diagnosis: DatabaseDiagnosis, text: String) {
        let before = try folder.contents
        let text = try Tool.run("doctor", "a.db", in: folder)
        let json = try Tool.run("doctor", "--json", "a.db", in: folder)
        #expect(try folder.contents == before)
        let diagnosis = try JSONDecoder().decode(DatabaseDiagnosis.self, from: Data(json.output.utf8))
        #expect(json.code == (diagnosis.severity.map { $0 >= .warning } == true ? 1 : 0), "\(json.output)")
        return (diagnosis, text.output)
    }

    private func findings(of topics: DatabaseDiagnosis.Topic...) throws -> [DatabaseDiagnosis.Finding] {
        let (diagnosis, text) = try diagnose()
        for finding in diagnosis.findings {
            #expect(text.contains(finding.message.prefix(30)), "\(text)")
        }
        return diagnosis.findings.filter { topics.contains($0.topic) }
    }

    // MARK: Status

    @Test func `The status shows each queue`() throws {
        try make { db in
            try Self.add(2, due: 600, db)
            try Self.claim(db)
            try Self.bury(Self.claim(db), "the cellar is on fire", db)
            try Self.add(3, due: 240, db)
            // No worker has seen that its time has come.
            let sql = "INSERT INTO roundtable_job (queue, payload, state, due) VALUES ('mail', '', 'scheduled', ?)"
            try db.execute(sql: sql, arguments: [Self.ago(300).wall])
            try db.execute(sql: sql, arguments: [Self.ago(-300).wall])
            try db.execute(
                sql: "INSERT INTO roundtable_job (queue, payload, state, finished) VALUES ('thumbs', '', 'done', 1)"
            )
        }
        let (text, json) = try status()
        let queues = try #require((json["jobs"] as? [String: Any])?["queues"] as? [[String: Any]])
        #expect(queues.map { $0["name"] as? String } == ["mail", "thumbs"])
        let mail = queues[0]
        #expect(mail["scheduled"] as? Int == 1 && mail["ready"] as? Int == 4, "\(mail)")
        #expect(mail["running"] as? Int == 1 && mail["lost"] as? Int == 0 && mail["dead"] as? Int == 1, "\(mail)")
        // Two claims, by workers of which one has a job and the other a lease.
        #expect(mail["workers"] as? Int == 2, "\(mail)")
        let wait = try #require(mail["oldest_ready_s"] as? Double)
        #expect(wait >= 300 && wait < 600)
        let since = try #require((mail["ready_since"] as? String).flatMap { try? Date($0, strategy: .iso8601) })
        #expect(abs(Date().timeIntervalSince(since) - wait) < 60)
        #expect(queues[1]["ready_since"] == nil && queues[1]["oldest_ready_s"] == nil)
        #expect(
            Set(queues[1].keys) == ["name", "scheduled", "ready", "running", "lost", "dead", "workers"],
            "\(queues[1])"
        )
        let row = text.split(separator: "\n").first { $0.hasPrefix("  mail ") }?.split(separator: " ").map(String.init)
        #expect(row == ["mail", "4", "\(Int(wait / 60))", "min", "1", "1", "0", "1", "2"], "\(text)")
        #expect(text.contains("\n  thumbs      0        –          0        0     0     0        0\n"), "\(text)")
        #expect(json["unknowns"] as? [String] == [])
        // It stays what the library calls a status.
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        let data = Data(try Tool.run("status", "--json", "a.db", in: folder).output.utf8)
        #expect(try decoder.decode(DatabaseStatus.self, from: data).schema?.roundtableTableCount == 2)
    }

    @Test func `Tables without jobs, and a database without tables`() throws {
        try Tool.run("sql", "b.db", "CREATE TABLE t(x)", in: folder)
        let none = try Tool.run("status", "--json", "b.db", in: folder)
        #expect(none.json != nil && none.json?["jobs"] == nil)
        #expect(try !Tool.run("status", "b.db", in: folder).output.contains("queue"))
        try make()
        let (text, json) = try status()
        #expect((json["jobs"] as? [String: [Any]])?["queues"]?.isEmpty == true)
        #expect(text.contains("\n  No queue has a job.\n"), "\(text)")
        #expect(try findings(of: .deadJobs, .jobsWait, .lostJobs).isEmpty)
    }

    // MARK: Doctor

    @Test func `Dead jobs are a warning, with the newest error`() throws {
        try make { db in
            try Self.add(2, due: 0, db)
            try Self.bury(Self.claim(db), "the first", at: Self.ago(600), db)
            try Self.bury(Self.claim(db), "no\nroom", at: Self.ago(240), db)
        }
        let dead = try findings(of: .deadJobs, .jobsWait, .lostJobs)
        #expect(dead.map(\.topic) == [.deadJobs] && dead.map(\.severity) == [.warning])
        let what = try #require(dead.first?.message)
        #expect(
            what.hasPrefix(
                "2 jobs of the queue 'mail' are dead, and no worker attempts them again. The newest error, 4 min ago: no·room"
            ),
            "\(what)"
        )
        // The advice names a command that works.
        let next = try #require(dead.first?.advice)
        let sql = try #require(next.split(separator: "\"").last.map(String.init))
        #expect(next.hasSuffix(": roundtable sql \(url.resolvingSymlinksInPath().path) \"\(sql)\""), "\(next)")
        let list = try Tool.run("sql", "--json", "a.db", sql, in: folder)
        #expect(list.code == 0 && list.output.contains(#""error":"no\nroom""#), "\(list)")
    }

    @Test func `Jobs that no worker claims for a minute are a warning`() throws {
        try make { try Self.add(due: 30, $0) }
        #expect(try findings(of: .jobsWait).isEmpty)
        try make { try Self.add(2, due: 240, $0) }
        let waiting = try findings(of: .jobsWait, .deadJobs, .lostJobs)
        #expect(waiting.map(\.severity) == [.warning] && waiting.first?.processes == [])
        #expect(
            waiting.first?.message
                == "3 jobs of the queue 'mail' are due, the oldest for 4 min, and no worker of this queue lives.",
            "\(waiting)"
        )
        // A worker that has a job may take as long as it likes.
        try make { try Self.claim($0) }
        #expect(try findings(of: .jobsWait, .deadJobs, .lostJobs).isEmpty)
    }

    @Test func `A worker that has no job and claims none is named`() throws {
        try make { db in
            try Self.add(2, due: 240, db)
            let token = try Self.claim(lease: 1_000, at: Self.ago(200), db)
            try JobTable.complete(token, at: Self.ago(199), db)
        }
        let waiting = try findings(of: .jobsWait, .deadJobs, .lostJobs)
        #expect(waiting.map(\.severity) == [.warning] && waiting.first?.processes.map(\.name) == ["worker"])
        #expect(
            waiting.first?.message
                == "1 job of the queue 'mail' has been due for 4 min, although a worker of this queue has no job.",
            "\(waiting)"
        )
    }

    @Test(arguments: [false, true])
    func `Jobs of a dead worker are a warning, and a notice beside another one`(isServed: Bool) throws {
        try make { db in
            try Self.add(isServed ? 3 : 2, due: 0, db)
            for _ in 0..<2 { try Self.claim(ofDead: true, db) }
            if isServed { try Self.claim(db) }
        }
        let lost = try findings(of: .lostJobs, .jobsWait, .deadJobs)
        #expect(lost.map(\.severity) == [isServed ? .notice : .warning], "\(lost)")
        let pid = ProcessIdentity.current.pid
        #expect(
            lost.first?.message
                == "2 jobs of the queue 'mail' are running without a worker: worker 'late' (pid \(pid)) is dead."
        )
        #expect(lost.first?.processes.map(\.liveness) == [.dead, .dead])
        #expect(lost.first?.advice.hasPrefix(isServed ? "Nothing: " : "Start the program ") == true)
        let mail = try #require(((try status().json["jobs"] as? [String: Any])?["queues"] as? [[String: Any]])?.first)
        #expect(mail["lost"] as? Int == 2 && mail["workers"] as? Int == (isServed ? 1 : 0))
    }

    // MARK: What cannot be read

    @Test(arguments: [
        (
            "ALTER TABLE roundtable_job RENAME COLUMN due TO at",
            "The jobs: the table roundtable_job has no column 'due', so "
        ),
        ("ALTER TABLE roundtable_job ADD COLUMN tenant TEXT", "Whether the numbers of jobs say all: "),
    ])
    func `Tables of another version are called that`(sql: String, unknown: String) throws {
        try make { db in
            try Self.add(due: 240, db)
            try db.execute(sql: sql)
        }
        let isNewer = sql.contains("ADD")
        let (text, json) = try status()
        #expect((json["jobs"] != nil) == isNewer)
        let unknowns = try #require(json["unknowns"] as? [String])
        #expect(unknowns.count == 1 && unknowns.first?.hasPrefix(unknown) == true, "\(unknowns)")
        #expect(text.contains("  - \(unknown)") && json["schema"] != nil, "\(text)")
        let (diagnosis, _) = try diagnose()
        #expect(diagnosis.unknowns == unknowns)
        #expect(diagnosis.findings.contains { $0.topic == .jobsWait } == isNewer)
    }

    @Test(.enabled(if: Shell.isInstalled, "needs the sqlite3 shell"))
    func `A locked database is called that once`() throws {
        try Shell.make("a.db", in: folder, wal: false)
        let shell = try Shell(folder, "a.db")
        try shell.execute("\(JobTable.schema) INSERT INTO roundtable_job (queue, payload) VALUES ('mail', '');")
        #expect(((try status().json["jobs"] as? [String: Any])?["queues"] as? [Any])?.count == 1)
        try shell.execute("BEGIN EXCLUSIVE;")
        let (_, json) = try status()
        #expect(json["jobs"] == nil)
        #expect(json["unknowns"] as? [String] == ["The schema: the database is locked."])
        #expect(try diagnose().diagnosis.unknowns == ["The schema: the database is locked."])
        shell.kill()
    }
}
