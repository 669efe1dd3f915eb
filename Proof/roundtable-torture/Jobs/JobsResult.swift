import GRDB

/// What a campaign has left in the database, found by SQL alone.
struct JobsResult: CustomStringConvertible {
    private(set) var problems: [String] = []
    private(set) var done = 0
    /// Jobs whose handler always fails.
    private(set) var dead = 0
    private(set) var repeats = 0
    /// The median and the longest time from when a job was due to its first attempt, in ms, if jobs arrived one by one.
    private(set) var waits: (median: Int, longest: Int)?

    init(of plan: JobsPlan, _ db: Database) throws {
        let count = plan.count
        func number(_ sql: String) throws -> Int { try Int.fetchOne(db, sql: sql) ?? 0 }
        func check(_ sql: String, expected: Int = 0, _ problem: String) throws {
            let found = try number(sql)
            if found != expected {
                problems.append("\(problem): \(found)" + (expected == 0 ? "" : ", not \(expected)"))
            }
        }
        let failing = (0..<count).count { JobsWorld.alwaysFails($0, of: count) }
        done = try number("SELECT count(*) FROM roundtable_job WHERE state = 'done'")
        dead = try number("SELECT count(*) FROM roundtable_job WHERE state = 'dead'")
        repeats = try number("SELECT coalesce(sum(attempt), 0) - count(*) FROM roundtable_job")
        try check("SELECT count(*) FROM roundtable_job", expected: count, "jobs in the table")
        try check(
            "SELECT count(DISTINCT json_extract(payload, '$.number')) FROM roundtable_job",
            expected: count,
            "different jobs in the table"
        )
        try check(
            "SELECT count(*) FROM roundtable_job WHERE state NOT IN ('done', 'dead')",
            "unfinished jobs"
        )
        try check(
            "SELECT count(*) FROM roundtable_job WHERE state = 'done' AND id NOT IN (SELECT job FROM effect)",
            "lost: jobs that are done, without an effect"
        )
        try check(
            "SELECT count(*) FROM effect WHERE job NOT IN (SELECT id FROM roundtable_job WHERE state = 'done')",
            "effects of jobs that are not done"
        )
        try check(
            "SELECT count(*) FROM (SELECT number FROM effect GROUP BY number HAVING count(*) > 1)",
            "doubled: jobs with more than one effect"
        )
        // Jobs that died because of kills are reported as well: the campaign has too few attempts then.
        try check("SELECT count(*) FROM roundtable_job WHERE state = 'dead'", expected: failing, "dead jobs")
        try check("SELECT count(*) FROM roundtable_job WHERE state = 'dead' AND error IS NULL", "dead without an error")
        if plan.longest != nil {
            let waits = try Int.fetchAll(db, sql: "SELECT wait FROM effect WHERE attempt = 1 ORDER BY wait")
            if let longest = waits.last { self.waits = (waits[waits.count / 2], longest) }
            try check(
                "SELECT count(*) FROM effect WHERE wait IS NULL OR wait > attempt * \(plan.longestWait)",
                "late: jobs with an attempt that began more than \(plan.longestWait) ms after it was due"
            )
        }
        let integrity = try String.fetchAll(db, sql: "PRAGMA integrity_check")
        if integrity != ["ok"] { problems.append("corrupt: \(integrity)") }
    }

    var description: String {
        var figures = "\(done) done, \(dead) dead letters, \(repeats) attempts beyond the first"
        if let waits { figures += "; waited \(waits.median) ms (median) to \(waits.longest) ms" }
        return problems.isEmpty
            ? "\(figures); no job lost or doubled"
            : ([figures] + problems.map { "PROBLEM: \($0)" }).joined(separator: "\n")
    }
}
