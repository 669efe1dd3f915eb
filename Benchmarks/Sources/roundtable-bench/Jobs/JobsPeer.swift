import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import Synchronization

/// A worker process of `jobs`. It says `ready`, and begins when its input ends.
struct JobsPeer: Codable {
    let side: JobsSide
    let path: String
    let handlers: Int

    struct Result: Codable {
        /// On the clock that all processes share.
        let ended: Nanoseconds
        let jobs: Int
    }

    static let queue = JobQueue<BenchJob>("bench")

    static func open(_ path: String) throws -> SharedDatabase {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("jobs") { db in
            try db.createJobTables()
            try db.execute(sql: "CREATE TABLE effect (number INTEGER NOT NULL)")
        }
        return try SharedDatabase.open(at: URL(fileURLWithPath: path), schema: SharedSchema(migrator), as: "bench")
    }

    func run() async throws -> Result {
        let jobs: Int
        switch side {
        case .ours:
            let database = try Self.open(path)
            sayReadyAndWait()
            let count = Atomic(0)
            try await Self.queue.run(in: database, workers: handlers, untilEmpty: true) { job in
                try await job.complete { try Self.insertEffect(job.payload.number, $0) }
                count.add(1, ordering: .relaxed)
            }
            jobs = count.load(ordering: .relaxed)
            try database.close()
        case .grdb:
            let pool = try DatabasePool(path: path, configuration: .sharing)
            sayReadyAndWait()
            jobs = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<handlers { group.addTask { try await Self.work(pool) } }
                return try await group.reduce(0, +)
            }
            try pool.close()
        }
        return Result(ended: Clock.now, jobs: jobs)
    }

    private static func work(_ pool: DatabasePool) async throws -> Int {
        let claim = """
            UPDATE job SET state = 'running' WHERE id = (SELECT id FROM job WHERE state = 'waiting' ORDER BY id LIMIT 1)
            RETURNING id, payload
            """
        var count = 0
        while let (id, payload) = try await pool.write({ db in
            try Row.fetchOne(db.cachedStatement(sql: claim)).map { ($0["id"] as Int64, $0["payload"] as Data) }
        }) {
            let job = try JSONDecoder().decode(BenchJob.self, from: payload)
            try await pool.write { db in
                try db.cachedStatement(sql: "UPDATE job SET state = 'done' WHERE id = ?").execute(arguments: [id])
                try insertEffect(job.number, db)
            }
            count += 1
        }
        return count
    }

    private static func insertEffect(_ number: Int, _ db: Database) throws {
        try db.cachedStatement(sql: "INSERT INTO effect VALUES (?)").execute(arguments: [number])
    }

    private func sayReadyAndWait() {
        print("ready")
        fflush(nil)
        while readLine() != nil {}
    }
}
