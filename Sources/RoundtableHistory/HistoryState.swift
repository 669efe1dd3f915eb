import GRDB
import RoundtableCore

/// What a reader must know of the history before it reads changes. Must be read inside a transaction, so that all values belong
/// together.
struct HistoryState {
    let identity: String
    /// Changes up to this sequence were pruned.
    let keptAfter: Int64
    let lastSequence: Int64
    let tables: [TrackedTable]

    /// - throws: ``HistoryError/notEnabled(path:)``, ``HistoryError/newerFormat(path:format:)``.
    init(_ db: Database) throws {
        guard try HistoryTables.exist(db) else { throw HistoryError.notEnabled(path: db.filePath) }
        try Self.checkFormat(db)
        let sql = """
            SELECT identity, kept_after, (SELECT max(sequence) FROM main.roundtable_history) AS last
            FROM main.roundtable_history_settings
            """
        guard let row = try Row.fetchOne(db, sql: sql) else { throw HistoryError.notEnabled(path: db.filePath) }
        identity = try row.historyValue("identity", db)
        keptAfter = try row.historyValue("kept_after", db)
        let last: Int64? = try row.historyValue("last", db)
        lastSequence = last ?? 0
        tables = try TrackedTable.fetchAll(db)
    }

    // Rule H2: With a `format` above its own, a program reads, writes, prunes and restores nothing of the history. Triggers continue to
    // fire.

    /// Throws an error if a newer version of Roundtable created the history (rule H2).
    static func checkFormat(_ db: Database) throws {
        let row = try Row.fetchOne(db, sql: "SELECT format FROM main.roundtable_history_settings")
        guard let format: Int = try row?.historyValue("format", db), format > HistoryTables.format else { return }
        throw HistoryError.newerFormat(path: db.filePath, format: format)
    }

    var lastToken: HistoryToken { HistoryToken(identity: identity, sequence: lastSequence) }

    /// The tables that a reader asks for: those of these names, or all.
    ///
    /// - throws: ``HistoryError/notTracked(path:table:)``.
    func chosen(_ db: Database, _ names: [String]?) throws -> [TrackedTable] {
        guard let names else { return tables }
        return try names.flatMap { name in
            let found = tables.filter { $0.name.lowercased() == name.lowercased() }
            guard found.contains(where: { $0.state != .disabled }) else {
                throw HistoryError.notTracked(path: db.filePath, table: name)
            }
            return found
        }
    }

    /// Throws ``HistoryError/startOver(reason:token:)`` if changes after the token may be missing (rule H8).
    func check(_ token: HistoryToken, _ tables: [TrackedTable]) throws {
        func startOver(_ reason: HistoryError.StartOverReason) -> HistoryError {
            .startOver(reason: reason, token: lastToken)
        }
        if token.identity != identity { throw startOver(.otherHistory) }
        if token.sequence > lastSequence { throw startOver(.wentBack) }
        if token.sequence < keptAfter { throw startOver(.pruned) }
        for table in tables where table.gap > token.sequence || (table.state == .recording && !table.isIntact) {
            throw startOver(.changesMissing(table: table.name))
        }
    }
}
