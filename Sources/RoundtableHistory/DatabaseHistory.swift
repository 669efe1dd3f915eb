import GRDB
import RoundtableCore

/// The history of a database: durable records of changes, for readers that were not running when the changes were made. See <doc:KeepingAHistory>.
///
/// It keeps the database open. The static functions work in a transaction of yours, for example in a migration.
public struct DatabaseHistory: Sendable {
    let database: SharedDatabase
}

extension SharedDatabase {
    /// The history of this database.
    public var history: DatabaseHistory { DatabaseHistory(database: self) }
}

/// Recording and reading.
extension DatabaseHistory {
    // MARK: Recording

    /// Records all changes of a table from now on, as the asynchronous form does, and blocks the calling thread.
    @_disfavoredOverload
    public func enable(
        for table: String,
        recording: HistoryRecording = .rows,
        keeping: OldValuePolicy = []
    ) throws {
        try database.write { db in try Self.enable(for: table, recording: recording, keeping: keeping, in: db) }
    }

    /// Records all changes of a table from now on, whichever program makes them. Does nothing if they are recorded already.
    ///
    /// When several processes ask for different recordings, the one that records more wins, and the old values of each column that one
    /// of them names are kept.
    ///
    /// - Parameters:
    ///   - table: the name of a table of the main database.
    ///   - recording: what is recorded of an update.
    ///   - keeping: the columns whose old values are kept with each deletion, and if asked with each update.
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)`` for a view, a virtual table, a table without a primary key, and for
    ///   ``HistoryRecording/changedColumns`` one with too many columns, and a table without a column of `keeping`;
    ///   ``HistoryError/newerFormat(path:format:)``; what `write` throws.
    public func enable(
        for table: String,
        recording: HistoryRecording = .rows,
        keeping: OldValuePolicy = []
    ) async throws {
        try await database.write { db in
            try Self.enable(for: table, recording: recording, keeping: keeping, in: db)
        }
    }

    /// Stops recording the changes of a table, as the asynchronous form does, and blocks the calling thread.
    @_disfavoredOverload
    public func disable(for table: String) throws {
        try database.write { db in try Self.disable(for: table, in: db) }
    }

    /// Stops recording the changes of a table. Recorded changes stay until they are pruned. Readers that ask for all tables must
    /// start over. Does nothing if the changes are not recorded.
    ///
    /// - throws: ``HistoryError/newerFormat(path:format:)``; what `write` throws.
    public func disable(for table: String) async throws {
        try await database.write { db in try Self.disable(for: table, in: db) }
    }

    // MARK: Authors

    /// Runs `updates`, and records its changes with another author than the name that the database was opened as. Call it inside a write.
    ///
    /// A sync engine marks in this way what it received, so that it does not send it back:
    ///
    /// ```swift
    /// try await db.write { db in
    ///     try DatabaseHistory.write(as: "server", in: db) { try received.apply(db) }
    /// }
    /// ```
    ///
    /// The author of ``DatabaseChange`` stays that of the participant.
    ///
    /// - throws: what `updates` throws; `SQLITE_MISUSE` when `db` is not the writer connection of a ``SharedDatabase``.
    public static func write<T>(as author: String, in db: Database, _ updates: () throws -> T) throws -> T {
        let previous = try HistoryStamp.setAuthor(author, in: db)
        // After an interruption, the statement fails. The next write resets the author then.
        defer { _ = try? HistoryStamp.setAuthor(previous, in: db) }
        return try updates()
    }

    // MARK: Reading

    /// The tables whose changes are recorded, and what is recorded of them. Empty if there is no history.
    ///
    /// - throws: ``HistoryError/newerFormat(path:format:)``.
    public static func tables(in db: Database) throws -> [String: HistoryRecording] {
        guard try HistoryTables.exist(db) else { return [:] }
        let tables = try HistoryState(db).tables.filter { $0.state == .recording }
        return Dictionary(tables.map { ($0.name, $0.recording) }) { first, _ in first }
    }

    /// The columns whose old values are kept now, by table. Tables without such columns are left out.
    ///
    /// - throws: ``HistoryError/newerFormat(path:format:)``.
    public static func keptColumns(in db: Database) throws -> [String: Set<String>] {
        guard try HistoryTables.exist(db) else { return [:] }
        let tables = try HistoryState(db).tables.filter { $0.state == .recording && $0.kept.contains(where: \.isKept) }
        return Dictionary(tables.map { ($0.name, Set($0.kept.filter(\.isKept).map(\.name))) }) { first, _ in first }
    }

    /// Returns the position like the asynchronous form, and blocks the calling thread.
    @_disfavoredOverload
    public func currentToken() throws -> HistoryToken {
        try database.read { db in try Self.currentToken(in: db) }
    }

    /// The position after all changes that are committed now.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``; what `read` throws.
    public func currentToken() async throws -> HistoryToken {
        try await database.read { db in try Self.currentToken(in: db) }
    }

    /// The position after all changes that `db` sees. In one `read` with other queries, it is exactly the position of their results.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``.
    public static func currentToken(in db: Database) throws -> HistoryToken {
        try HistoryState(db).lastToken
    }

    /// Returns the changes after a token like the asynchronous form, and blocks the calling thread.
    @_disfavoredOverload
    public func changes(
        since token: HistoryToken?,
        in tables: [String]? = nil,
        limit: Int = 1000
    ) throws -> HistoryPage {
        try database.read { db in try Self.changes(since: token, in: tables, limit: limit, from: db) }
    }

    /// Returns the changes after a token, in the order of their commits. Read-only processes may call it, too.
    ///
    /// - Parameters:
    ///   - token: the token of the last page, or of `currentToken()`; nil for all changes that are kept.
    ///   - tables: the tables whose changes are returned; nil for all recorded tables.
    ///   - limit: the most changes that are returned. ``HistoryPage/hasMore`` shows whether there are more.
    /// - throws: ``HistoryError``: `startOver` when changes are missing after the token, `notEnabled`, `notTracked`, `newerFormat`; what
    ///   `read` throws.
    public func changes(
        since token: HistoryToken?,
        in tables: [String]? = nil,
        limit: Int = 1000
    ) async throws -> HistoryPage {
        try await database.read { db in try Self.changes(since: token, in: tables, limit: limit, from: db) }
    }

    /// Returns the changes after a token that `db` sees, in the order of their commits.
    ///
    /// - throws: ``HistoryError``: `startOver` when changes are missing after the token, `notEnabled`, `notTracked`, `newerFormat`.
    public static func changes(
        since token: HistoryToken?,
        in tables: [String]? = nil,
        limit: Int = 1000,
        from db: Database
    ) throws -> HistoryPage {
        let state = try HistoryState(db)
        let start = try token ?? state.oldestToken(db, in: tables)
        return try state.page(db, after: start, in: tables, limit: limit)
    }

    /// The token after which the last changes follow.
    ///
    /// - Parameters:
    ///   - count: how many changes follow, if so many are kept.
    ///   - tables: the tables whose changes are counted; nil for all recorded tables.
    /// - throws: ``HistoryError``: `notEnabled`, `notTracked`, `newerFormat`.
    package static func token(
        beforeLast count: Int,
        in tables: [String]? = nil,
        from db: Database
    ) throws -> HistoryToken {
        try HistoryState(db).token(db, beforeLast: count, in: tables)
    }

    // MARK: Settings

    /// How much of the history is kept.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``.
    public static func settings(in db: Database) throws -> DatabaseHistory.Settings {
        _ = try HistoryState(db)
        let row = try Row.fetchOne(db, sql: "SELECT * FROM main.roundtable_history_settings")
        return try row.map { try DatabaseHistory.Settings($0, db) } ?? DatabaseHistory.Settings()
    }

    /// Changes how much of the history is kept, for all processes.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``.
    public static func setSettings(_ settings: DatabaseHistory.Settings, in db: Database) throws {
        _ = try HistoryState(db)
        try settings.store(db)
    }
}

extension HistoryState {
    /// The position at which a reader without a token begins: after the last gap of the tables asked for, or before the oldest kept
    /// change.
    func oldestToken(_ db: Database, in names: [String]?) throws -> HistoryToken {
        let gaps = try chosen(db, names).map(\.gap)
        return HistoryToken(identity: identity, sequence: max(keptAfter, gaps.max() ?? 0))
    }
}
