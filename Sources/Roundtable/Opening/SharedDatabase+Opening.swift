import Foundation
import GRDB
import RoundtableCore
import RoundtableKernel

extension SharedDatabase {
    /// Opens a database for reading and writing, and creates and migrates it if necessary. Any number of processes may do this at
    /// the same time: one of them does the work, and the others wait for it.
    ///
    /// If the task is cancelled meanwhile, this ends within some milliseconds, whatever it waits for, and throws `CancellationError`. A closure of
    /// yours, such as a migration, is not interrupted between its statements.
    ///
    /// - Parameters:
    ///   - url: the database file. Its folder must exist (or see ``Options/createsParentFolders``). It can have [SQLite's parameters](https://www.sqlite.org/uri.html): with
    ///     `?mode=rw`, the file must exist. With `?mode=ro`, it is opened as by `openReadOnly(at:)`, and a database that is unavailable is
    ///     an error. Parameters that would break sharing are refused with the reason; ``UnsharedDatabase`` opens such locations.
    ///   - schema: the schema that this process expects, and the migrations that lead to it.
    ///   - author: the name of this participant for other processes, such as `"app"` or `"share extension"`.
    ///   - options: how to wait and write.
    /// - throws: ``SharedDatabaseError``; ``DatabaseLocationError``; ``OutboxError`` for ``Options/outboxFolder``; ``EncryptionError``;
    ///   `DatabaseError` with `SQLITE_NOTADB`, `SQLITE_CANTOPEN`, `SQLITE_FULL` …; `SQLITE_BUSY` when another process has been creating or migrating
    ///   the database for longer than ``Options/setupTimeout``; what a migration throws.
    public static func open(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options = Options()
    ) async throws -> SharedDatabase {
        try await whileOpen(options) { options in
            try openNow(at: url, schema: schema, as: author, options: options, features: features)
        }
    }

    /// Opens the database as the async function of the same name does, and blocks the calling thread.
    @_disfavoredOverload
    public static func open(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options = Options()
    ) throws -> SharedDatabase {
        try whileOpen(options) { options in
            try openNow(at: url, schema: schema, as: author, options: options, features: features)
        }
    }

    /// Opens a database for reading that other processes create and migrate.
    ///
    /// The result reports a missing database or another schema; these are not errors. Roundtable creates nothing, not even a
    /// control block. (SQLite creates `-wal` and `-shm` beside a database in WAL mode that has lost them.)
    ///
    /// - throws: ``SharedDatabaseError``; ``DatabaseLocationError``; ``OutboxError`` for ``Options/outboxFolder``; ``EncryptionError``;
    ///   `DatabaseError`.
    public static func openReadOnly(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options = Options()
    ) async throws -> Availability {
        try await whileOpen(options) { options in
            try openReadOnlyNow(at: url, schema: schema, as: author, options: options, features: features)
        }
    }

    /// Opens the database as the async function of the same name does, and blocks the calling thread.
    @_disfavoredOverload
    public static func openReadOnly(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options = Options()
    ) throws -> Availability {
        try whileOpen(options) { options in
            try openReadOnlyNow(at: url, schema: schema, as: author, options: options, features: features)
        }
    }

    /// Opens a database for reading, and waits until other processes have created and migrated it.
    ///
    /// - Parameters:
    ///   - url: the database file.
    ///   - schema: what this process expects.
    ///   - author: the name of this participant for other processes.
    ///   - options: how to read.
    ///   - timeout: how long to wait. When it passes, the function returns the last reason why the database is unavailable. It
    ///     returns immediately if the schema is too new, because waiting would not change that.
    public static func openReadOnly(
        at url: URL,
        schema: SharedSchema,
        as author: String,
        options: Options = Options(),
        waitingUpTo timeout: Duration
    ) async throws -> Availability {
        let deadline = ContinuousClock.now + timeout
        var backoff = Backoff(.milliseconds(2), upTo: .milliseconds(50))
        while true {
            let answer = try await openReadOnly(at: url, schema: schema, as: author, options: options)
            switch answer {
            case .available, .unavailable(.schemaTooNew): return answer
            case .unavailable: break
            }
            let now = ContinuousClock.now
            guard now < deadline else { return answer }
            try await Task.sleep(for: min(.nanoseconds(Int64(backoff.next())), deadline - now))
        }
    }
}
