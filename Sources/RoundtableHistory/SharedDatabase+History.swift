import GRDB
import RoundtableCore

/// Recording and reading the history. See <doc:History>.
extension SharedDatabase {
    // MARK: Recording

    /// Records all changes of a table from now on, whichever program makes them. Does nothing if they are recorded already.
    ///
    /// When several processes ask for different recordings, the one that records more wins.
    ///
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)`` for a view, a virtual table, a table without a primary key, and for
    ///   ``HistoryRecording/changedColumns`` one with too many columns; what `write` throws.
    @_disfavoredOverload
    public func enableHistory(of table: String, recording: HistoryRecording = .rows) throws {
        try write { db in try Self.enableHistory(of: table, recording: recording, in: db) }
    }

    /// Records all changes of a table from now on, whichever program makes them. Does nothing if they are recorded already.
    ///
    /// When several processes ask for different recordings, the one that records more wins.
    ///
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)`` for a view, a virtual table, a table without a primary key, and for
    ///   ``HistoryRecording/changedColumns`` one with too many columns; what `write` throws.
    public func enableHistory(of table: String, recording: HistoryRecording = .rows) async throws {
        try await write { db in try Self.enableHistory(of: table, recording: recording, in: db) }
    }

    /// Records all changes of a table from now on, in the transaction of `db`, for migrations. A migration that recreates the table
    /// calls it to create the triggers again in the same transaction.
    ///
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)``.
    public static func enableHistory(of table: String, recording: HistoryRecording = .rows, in db: Database) throws {
        try HistoryEnabling.enable(db, table: table, recording: recording)
    }

    /// Continues recording without the changed columns, and deletes the changed columns that were recorded. Call it before
    /// `ALTER TABLE … DROP COLUMN`, in the same migration.
    ///
    /// - throws: ``HistoryError/notTracked(path:table:)``, ``HistoryError/notEnabled(path:)``.
    public static func narrowHistory(of table: String, in db: Database) throws {
        try HistoryEnabling.narrow(db, table: table)
    }

    /// Stops recording the changes of a table. Recorded changes stay until they are pruned. Readers that ask for all tables must
    /// start over.
    @_disfavoredOverload
    public func disableHistory(of table: String) throws {
        try write { db in try Self.disableHistory(of: table, in: db) }
    }

    /// Stops recording the changes of a table. Recorded changes stay until they are pruned. Readers that ask for all tables must
    /// start over.
    public func disableHistory(of table: String) async throws {
        try await write { db in try Self.disableHistory(of: table, in: db) }
    }

    /// Stops recording the changes of a table, in the transaction of `db`, for migrations.
    public static func disableHistory(of table: String, in db: Database) throws {
        try HistoryEnabling.disable(db, table: table)
    }

    // MARK: Reading

    /// The tables whose changes are recorded, and what is recorded of them.
    public static func historyTables(in db: Database) throws -> [String: HistoryRecording] {
        guard try HistoryTables.exist(db) else { return [:] }
        let tables = try HistoryState(db).tables.filter { $0.state == .recording }
        return Dictionary(tables.map { ($0.name, $0.recording) }) { first, _ in first }
    }

    /// The position after all changes that are committed now.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``; what `read` throws.
    @_disfavoredOverload
    public func currentHistoryToken() throws -> HistoryToken {
        try read { db in try Self.currentHistoryToken(in: db) }
    }

    /// The position after all changes that are committed now.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``; what `read` throws.
    public func currentHistoryToken() async throws -> HistoryToken {
        try await read { db in try Self.currentHistoryToken(in: db) }
    }

    /// The position after all changes that `db` sees. In one `read` with other queries, it is exactly the position of their results.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``.
    public static func currentHistoryToken(in db: Database) throws -> HistoryToken {
        try HistoryState(db).lastToken
    }

    /// Returns the changes after a token, in the order of their commits. Read-only processes may call it, too.
    ///
    /// - Parameters:
    ///   - token: the token of the last page, or of `currentHistoryToken()`; nil for all changes that are kept.
    ///   - tables: the tables whose changes are returned; nil for all recorded tables.
    ///   - limit: the most changes that are returned. ``HistoryPage/hasMore`` shows whether there are more.
    /// - throws: ``HistoryError/startOver(reason:token:)`` when changes are missing after the token;
    ///   ``HistoryError/notEnabled(path:)``, ``HistoryError/notTracked(path:table:)``; what `read` throws.
    @_disfavoredOverload
    public func history(
        since token: HistoryToken?,
        in tables: [String]? = nil,
        limit: Int = 1000
    ) throws -> HistoryPage {
        try read { db in try Self.history(since: token, in: tables, limit: limit, from: db) }
    }

    /// Returns the changes after a token, in the order of their commits. Read-only processes may call it, too.
    ///
    /// - Parameters:
    ///   - token: the token of the last page, or of `currentHistoryToken()`; nil for all changes that are kept.
    ///   - tables: the tables whose changes are returned; nil for all recorded tables.
    ///   - limit: the most changes that are returned. ``HistoryPage/hasMore`` shows whether there are more.
    /// - throws: ``HistoryError/startOver(reason:token:)`` when changes are missing after the token;
    ///   ``HistoryError/notEnabled(path:)``, ``HistoryError/notTracked(path:table:)``; what `read` throws.
    public func history(
        since token: HistoryToken?,
        in tables: [String]? = nil,
        limit: Int = 1000
    ) async throws -> HistoryPage {
        try await read { db in try Self.history(since: token, in: tables, limit: limit, from: db) }
    }

    /// Returns the changes after a token that `db` sees, in the order of their commits.
    ///
    /// - throws: ``HistoryError/startOver(reason:token:)`` when changes are missing after the token;
    ///   ``HistoryError/notEnabled(path:)``, ``HistoryError/notTracked(path:table:)``.
    public static func history(
        since token: HistoryToken?,
        in tables: [String]? = nil,
        limit: Int = 1000,
        from db: Database
    ) throws -> HistoryPage {
        let state = try HistoryState(db)
        let start = try token ?? state.oldestToken(db, in: tables)
        return try state.page(db, HistoryState.Request(token: start, tables: tables, limit: limit))
    }

    // MARK: Settings

    /// How much of the history is kept.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``.
    public static func historySettings(in db: Database) throws -> HistorySettings {
        _ = try HistoryState(db)
        let row = try Row.fetchOne(db, sql: "SELECT * FROM main.roundtable_history_settings")
        return row.map(HistorySettings.init) ?? HistorySettings()
    }

    /// Changes how much of the history is kept, for all processes.
    ///
    /// - throws: ``HistoryError/notEnabled(path:)``.
    public static func setHistorySettings(_ settings: HistorySettings, in db: Database) throws {
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
