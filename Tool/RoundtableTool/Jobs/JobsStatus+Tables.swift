import GRDB
import RoundtableJobs

// These statements count what the tables hold, for inspections from outside. They read entries of indexes, and of the jobs only
// one for each queue.

extension JobTable {
    static let waitingCountsSQL = """
        SELECT queue, count(*) AS jobs, min(due) AS due FROM main.roundtable_job WHERE state = 'waiting' GROUP BY queue
        """

    static let scheduledCountsSQL = """
        SELECT queue, count(*) AS jobs, sum(due <= ?) AS ready, min(due) AS due FROM main.roundtable_job
        WHERE state = 'scheduled' GROUP BY queue
        """

    static let runningCountsSQL = """
        SELECT queue, worker, count(*) AS jobs FROM main.roundtable_job WHERE state = 'running' GROUP BY queue, worker
        """

    /// The queues that have finished jobs, each found by one search, because there may be millions of jobs that are done. The error is that
    /// of the job that died last.
    static let deadCountsSQL = """
        WITH RECURSIVE name(queue) AS (
            SELECT (SELECT queue FROM main.roundtable_job WHERE finished IS NOT NULL ORDER BY queue LIMIT 1)
            UNION ALL
            SELECT (
                SELECT job.queue FROM main.roundtable_job AS job
                WHERE job.finished IS NOT NULL AND job.queue > name.queue ORDER BY job.queue LIMIT 1
            ) FROM name WHERE name.queue IS NOT NULL
        ),
        newest(queue, id) AS (
            SELECT queue, (
                SELECT id FROM main.roundtable_job AS job
                WHERE job.queue = name.queue AND state = 'dead' AND finished IS NOT NULL ORDER BY finished DESC LIMIT 1
            ) FROM name WHERE queue IS NOT NULL
        )
        SELECT newest.queue AS queue, dead.finished AS finished, substr(dead.error, 1, 500) AS error, (
            SELECT count(*) FROM main.roundtable_job AS job
            WHERE job.queue = newest.queue AND state = 'dead' AND finished IS NOT NULL
        ) AS jobs
        FROM newest LEFT JOIN main.roundtable_job AS dead ON dead.id = newest.id
        """

    static let workersSQL = "SELECT * FROM main.roundtable_job_worker"
}

extension JobTable {
    /// Compares the tables with those that this version makes, because another version may have made them.
    ///
    /// - returns: the columns that this version does not know; nil when there are no tables of jobs.
    /// - throws: ``ForeignJobTables`` when this version cannot read the tables, `DatabaseError`.
    static func unknownColumns(_ db: Database) throws -> [String]? {
        let sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name IN (?, ?)"
        let names = try Set(String.fetchAll(db, sql: sql, arguments: [jobs, workers]))
        if names.isEmpty { return nil }
        return try knownColumns().flatMap { table, known in
            guard names.contains(table) else { throw ForeignJobTables(difference: "there is no table \(table)") }
            return try unknownColumns(of: table, in: db, comparedWith: known)
        }
    }

    /// The tables with their columns, as this version makes them.
    private static func knownColumns() throws -> [(table: String, columns: [ColumnInfo])] {
        try DatabaseQueue().write { db in
            try db.createJobTables()
            return try [jobs, workers].map { try ($0, db.columns(in: $0)) }
        }
    }

    private static func unknownColumns(
        of table: String,
        in db: Database,
        comparedWith known: [ColumnInfo]
    ) throws -> [String] {
        // Only a strict table has no texts where numbers belong.
        let sql = "SELECT strict FROM pragma_table_list WHERE schema = 'main' AND name = ?"
        guard try Bool.fetchOne(db, sql: sql, arguments: [table]) == true else {
            throw ForeignJobTables(difference: "the table \(table) is not strict")
        }
        let columns = try Dictionary(db.columns(in: table, in: "main").map { ($0.name, $0) }) { first, _ in first }
        for one in known {
            guard let column = columns[one.name], column.type == one.type, column.isNotNull == one.isNotNull else {
                let difference = columns[one.name] == nil ? "no column" : "another column"
                throw ForeignJobTables(difference: "the table \(table) has \(difference) '\(one.name)'")
            }
        }
        return columns.keys.filter { name in !known.contains { $0.name == name } }.sorted().map { "\(table).\($0)" }
    }
}
