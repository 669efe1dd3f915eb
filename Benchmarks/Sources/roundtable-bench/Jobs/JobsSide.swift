import Foundation
import GRDB
import Roundtable
import RoundtableJobs

/// Who keeps the table of jobs.
enum JobsSide: String, Codable, CaseIterable {
    case ours
    /// GRDB set up as its sharing guide says, and the statements that are usual for a table of jobs: without leases, retries, priorities,
    /// due times, and without a wait for more.
    case grdb

    /// Creates a database with so many jobs.
    ///
    /// - returns: the number of jobs added each second, with a transaction each.
    func create(_ path: String, jobs: Int) throws -> Double {
        let began = Clock.now
        switch self {
        case .ours:
            let database = try JobsPeer.open(path)
            for number in 0..<jobs {
                try database.write { _ = try JobsPeer.queue.add(BenchJob(number: number), in: $0) }
            }
            let rate = Double(jobs) / (Clock.now - began).seconds
            try database.close()
            return rate
        case .grdb:
            let pool = try DatabasePool(path: path, configuration: .sharing)
            try pool.write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE job (id INTEGER PRIMARY KEY AUTOINCREMENT, payload TEXT NOT NULL, state TEXT NOT NULL);
                        CREATE INDEX job_waiting ON job (id) WHERE state = 'waiting';
                        CREATE TABLE effect (number INTEGER NOT NULL);
                        """
                )
            }
            let encoder = JSONEncoder()
            for number in 0..<jobs {
                let payload = String(decoding: try encoder.encode(BenchJob(number: number)), as: UTF8.self)
                try pool.write { db in
                    try db.cachedStatement(sql: "INSERT INTO job (payload, state) VALUES (?, 'waiting')")
                        .execute(arguments: [payload])
                }
            }
            let rate = Double(jobs) / (Clock.now - began).seconds
            try pool.close()
            return rate
        }
    }

    /// - returns: the number of effects, of which there must be one for each job.
    func effects(_ path: String) throws -> (all: Int, distinct: Int) {
        let queue = try DatabaseQueue(path: path)
        return try queue.read { db in
            let row = try Row.fetchOne(db, sql: "SELECT count(*), count(DISTINCT number) FROM effect")!
            return (row[0], row[1])
        }
    }
}

struct BenchJob: Codable {
    let number: Int
}
