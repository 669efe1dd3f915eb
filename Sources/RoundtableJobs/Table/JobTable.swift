import GRDB

/// The SQL of the rules A. All functions run inside a transaction of the caller.
package enum JobTable {
    package static let jobs = "roundtable_job"
    package static let workers = "roundtable_job_worker"

    /// The wall clock in ms since 1970, in the SQL of all versions of SQLite.
    private static let now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

    /// Strict tables (SQLite 3.37), so that no program can store a text where a number belongs. The payload is the last column, because
    /// SQLite reads through a long one to reach the columns behind it.
    package static let schema = """
        CREATE TABLE roundtable_job (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            queue TEXT NOT NULL,
            priority INTEGER NOT NULL DEFAULT 0,
            due INTEGER NOT NULL DEFAULT (\(now)),
            state TEXT NOT NULL DEFAULT 'waiting'
                CHECK (state IN ('scheduled', 'waiting', 'running', 'done', 'dead', 'cancelled')),
            unique_key TEXT,
            attempt INTEGER NOT NULL DEFAULT 0,
            failures INTEGER NOT NULL DEFAULT 0,
            worker INTEGER,
            error TEXT,
            created INTEGER NOT NULL DEFAULT (\(now)),
            finished INTEGER,
            payload TEXT NOT NULL
        ) STRICT;
        CREATE INDEX roundtable_job_waiting ON roundtable_job (queue, priority DESC, due) WHERE state = 'waiting';
        CREATE INDEX roundtable_job_scheduled ON roundtable_job (queue, due) WHERE state = 'scheduled';
        CREATE INDEX roundtable_job_running ON roundtable_job (queue, worker) WHERE state = 'running';
        CREATE INDEX roundtable_job_finished ON roundtable_job (queue, state, finished) WHERE finished IS NOT NULL;
        CREATE UNIQUE INDEX roundtable_job_key ON roundtable_job (queue, unique_key)
            WHERE unique_key IS NOT NULL AND state IN ('scheduled', 'waiting');
        CREATE TABLE roundtable_job_worker (
            id INTEGER PRIMARY KEY,
            queue TEXT NOT NULL,
            author TEXT NOT NULL,
            pid INTEGER NOT NULL,
            start_time INTEGER NOT NULL,
            namespace INTEGER NOT NULL,
            boot TEXT NOT NULL,
            lease INTEGER NOT NULL,
            lease_end INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX roundtable_job_worker_queue ON roundtable_job_worker (queue);
        """
}

extension Database {
    /// Creates the tables that all job queues of this database share: `roundtable_job`, and `roundtable_job_worker`. Call it in a
    /// migration. See <doc:Jobs>.
    ///
    /// - throws: `DatabaseError`, also if the tables exist.
    public func createJobTables() throws {
        try execute(sql: JobTable.schema)
    }
}
