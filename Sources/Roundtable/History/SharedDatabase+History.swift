import GRDB

/// Recording and reading the history. See <doc:History>.
extension SharedDatabase {
    // MARK: Recording

    /// Records all changes of a table from now on, whoever makes them. Does nothing if they are recorded already.
    ///
    /// When several processes ask for different recordings, the one that records more wins.
    ///
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)`` for a view, a virtual table, a table without a primary key, and for
    ///   ``HistoryRecording/changedColumns`` one with too many columns; what `write` throws.
    @_disfavoredOverload
    public func enableHistory(of table: String, recording: HistoryRecording = .rows) throws {
        try write { db in try Self.enableHistory(of: table, recording: recording, in: db) }
    }

    /// Records all changes of a table from now on, whoever makes them. Does nothing if they are recorded already.
    ///
    /// When several processes ask for different recordings, the one that records more wins.
    ///
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)`` for a view, a virtual table, a table without a primary key, and for
    ///   ``HistoryRecording/changedColumns`` one with too many columns; what `write` throws.
    public func enableHistory(of table: String, recording: HistoryRecording = .rows) async throws {
        try await write { db in try Self.enableHistory(of: table, recording: recording, in: db) }
    }

    /// The same, for migrations. Also puts the triggers back in the same transaction that has recreated the table.
    public static func enableHistory(of table: String, recording: HistoryRecording = .rows, in db: Database) throws {
        try HistoryEnabling.enable(db, table: table, recording: recording)
    }

    /// Goes on recording without the changed columns, and forgets those that were recorded: before
    /// `ALTER TABLE … DROP COLUMN`, in the same migration.
    ///
    /// - throws: ``HistoryError/notTracked(path:table:)``, ``HistoryError/notEnabled(path:)``.
    public static func narrowHistory(of table: String, in db: Database) throws {
        try HistoryEnabling.narrow(db, table: table)
    }

    /// Records the changes of a table no longer. What was recorded stays until it is pruned. Readers that ask for all tables
    /// are told to start over.
    @_disfavoredOverload
    public func disableHistory(of table: String) throws {
        try write { db in try Self.disableHistory(of: table, in: db) }
    }

    /// Records the changes of a table no longer. What was recorded stays until it is pruned. Readers that ask for all tables
    /// are told to start over.
    public func disableHistory(of table: String) async throws {
        try await write { db in try Self.disableHistory(of: table, in: db) }
    }

    /// The same, for migrations.
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

    /// The position after all changes that `db` sees: in one `read` with other queries, exactly what they returned.
    public static func currentHistoryToken(in db: Database) throws -> HistoryToken {
        try HistoryState(db).lastToken
    }

    /// The changes after a token, in the order of their commits. Read-only processes may ask too.
    ///
    /// - Parameters:
    ///   - token: that of the last page, or of `currentHistoryToken()`. nil for all that is kept.
    ///   - tables: only these; nil for all that are recorded.
    ///   - limit: the most changes that are returned; ``HistoryPage/hasMore`` tells that there are more.
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

    /// The changes after a token, in the order of their commits. Read-only processes may ask too.
    ///
    /// - Parameters:
    ///   - token: that of the last page, or of `currentHistoryToken()`. nil for all that is kept.
    ///   - tables: only these; nil for all that are recorded.
    ///   - limit: the most changes that are returned; ``HistoryPage/hasMore`` tells that there are more.
    /// - throws: ``HistoryError/startOver(reason:token:)`` when changes are missing after the token;
    ///   ``HistoryError/notEnabled(path:)``, ``HistoryError/notTracked(path:table:)``; what `read` throws.
    public func history(
        since token: HistoryToken?,
        in tables: [String]? = nil,
        limit: Int = 1000
    ) async throws -> HistoryPage {
        try await read { db in try Self.history(since: token, in: tables, limit: limit, from: db) }
    }

    /// The same, of what `db` sees.
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
    /// Where whoever has no token yet begins: after the last gap of the tables asked for, or with the oldest kept change.
    func oldestToken(_ db: Database, in names: [String]?) throws -> HistoryToken {
        let gaps = try chosen(db, names).map(\.gap)
        return HistoryToken(identity: identity, sequence: max(keptAfter, gaps.max() ?? 0))
    }
}
