import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles

/// The tables that hold what the database knows of commands (rules X4, X7, X11). They are rowid tables, because SQLite notifies no
/// observer of changes to tables without rowids.
package enum OutboxTables {
    static let format = 1

    /// The record of a command that has failed and is retried.
    package struct Retry {
        package let attempts: Int
        package let next: Date
        package let error: String
    }

    package static func exist(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT * FROM main.sqlite_master WHERE type = 'table' AND name = 'roundtable_outbox')"
        guard try Bool.fetchOne(db.cachedStatement(sql: sql)) ?? false else { return false }
        let found = try Int.fetchOne(db.cachedStatement(sql: "SELECT max(format) FROM main.roundtable_outbox"))
        guard let found, found > format else { return true }
        throw OutboxError.newerFormat(path: db.filePath, format: found)
    }

    /// Creates the tables if they do not exist. Must be called inside a transaction.
    static func createIfAbsent(_ db: Database) throws {
        if try exist(db) { return }
        try db.execute(sql: schema)
        try db.execute(sql: "INSERT INTO main.roundtable_outbox (format) VALUES (?)", arguments: [format])
    }

    private static let schema = """
        CREATE TABLE main.roundtable_outbox (format INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS main.roundtable_outbox_applied (
            id BLOB PRIMARY KEY NOT NULL,
            outcome TEXT NOT NULL,
            time REAL NOT NULL
        );
        CREATE TABLE IF NOT EXISTS main.roundtable_outbox_retries (
            id BLOB PRIMARY KEY NOT NULL,
            attempts INTEGER NOT NULL,
            next REAL NOT NULL,
            error TEXT NOT NULL
        );
        CREATE TABLE IF NOT EXISTS main.roundtable_outbox_dead (
            sequence INTEGER PRIMARY KEY,
            id BLOB UNIQUE NOT NULL,
            sender TEXT NOT NULL,
            name TEXT NOT NULL,
            version INTEGER NOT NULL,
            payload BLOB NOT NULL,
            submitted REAL NOT NULL,
            set_aside REAL NOT NULL,
            reason TEXT NOT NULL,
            error TEXT NOT NULL,
            attempts INTEGER NOT NULL,
            is_to_be_retried INTEGER NOT NULL
        );
        """

    // MARK: Outcomes

    /// The text that the table stores for an outcome.
    private enum Decision: String { case applied, setAside = "set aside", dropped }

    /// The outcome of a command; nil if it is not decided yet.
    static func outcome(of id: UUID, _ db: Database) throws -> OutboxOutcome? {
        let sql = "SELECT outcome FROM main.roundtable_outbox_applied WHERE id = ?"
        guard let text = try String.fetchOne(db.cachedStatement(sql: sql), arguments: [id]) else { return nil }
        switch Decision(rawValue: text) {
        case .applied, nil: return .applied
        case .dropped: return .dropped
        case .setAside:
            let letter = try deadLetter(id, db)
            return .setAside(letter?.reason ?? .failed, error: letter?.error ?? "the reason is no longer known")
        }
    }

    /// The outcomes of those commands that are decided.
    static func outcomes(of ids: [UUID], _ db: Database) throws -> [UUID: OutboxOutcome] {
        if ids.isEmpty { return [:] }
        let sql =
            "SELECT id FROM main.roundtable_outbox_applied WHERE id IN (\(databaseQuestionMarks(count: ids.count)))"
        var outcomes: [UUID: OutboxOutcome] = [:]
        for id in try UUID.fetchAll(db, sql: sql, arguments: StatementArguments(ids)) {
            outcomes[id] = try outcome(of: id, db)
        }
        return outcomes
    }

    /// The outcome of a command; nil if it is not decided yet, or is a dead letter that is to be retried.
    static func finalOutcome(of id: UUID, _ db: Database) throws -> OutboxOutcome? {
        let outcome = try outcome(of: id, db)
        guard case .setAside = outcome, let letter = try deadLetter(id, db) else { return outcome }
        return letter.isToBeRetried ? nil : outcome
    }

    /// Records that a command is decided. It is not tried again.
    static func record(_ id: UUID, _ outcome: OutboxOutcome, at date: Date, _ db: Database) throws {
        let decision: Decision
        switch outcome {
        case .applied: decision = .applied
        case .setAside: decision = .setAside
        case .dropped: decision = .dropped
        case .waiting, .noDatabase: return
        }
        let sql = "INSERT OR REPLACE INTO main.roundtable_outbox_applied (id, outcome, time) VALUES (?, ?, ?)"
        try db.cachedStatement(sql: sql)
            .execute(arguments: [id, decision.rawValue, date.timeIntervalSince1970])
        try removeRetry(of: id, db)
    }

    /// Whether there are ids that were decided before a date, and may be forgotten.
    static func hasDecided(before date: Date, _ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT * FROM main.roundtable_outbox_applied WHERE \(forgettable))"
        return try Bool.fetchOne(db, sql: sql, arguments: [date.timeIntervalSince1970]) ?? false
    }

    static func forget(decidedBefore date: Date, _ db: Database) throws {
        let sql = "DELETE FROM main.roundtable_outbox_applied WHERE \(forgettable)"
        try db.execute(sql: sql, arguments: [date.timeIntervalSince1970])
        // These are the retries of commands whose files are gone.
        try db.execute(
            sql: """
                DELETE FROM main.roundtable_outbox_retries
                WHERE next < ? AND id NOT IN (SELECT id FROM main.roundtable_outbox_dead)
                """,
            arguments: [date.timeIntervalSince1970]
        )
    }

    private static let forgettable = "time < ? AND id NOT IN (SELECT id FROM main.roundtable_outbox_dead)"

    // MARK: Retries

    package static func retry(of id: UUID, _ db: Database) throws -> Retry? {
        let sql = "SELECT attempts, next, error FROM main.roundtable_outbox_retries WHERE id = ?"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [id]).map { try Retry($0) }
    }

    /// The retries of those commands that wait for their next try.
    static func retries(of ids: [UUID], _ db: Database) throws -> [UUID: Retry] {
        if ids.isEmpty { return [:] }
        let sql = """
            SELECT id, attempts, next, error FROM main.roundtable_outbox_retries
            WHERE id IN (\(databaseQuestionMarks(count: ids.count)))
            """
        let rows = try Row.fetchAll(db, sql: sql, arguments: StatementArguments(ids))
        return Dictionary(try rows.map { (try $0.outboxValue("id"), try Retry($0)) }) { $1 }
    }

    static func record(_ retry: Retry, of id: UUID, _ db: Database) throws {
        let sql = """
            INSERT OR REPLACE INTO main.roundtable_outbox_retries (id, attempts, next, error) VALUES (?, ?, ?, ?)
            """
        try db.cachedStatement(sql: sql)
            .execute(arguments: [id, retry.attempts, retry.next.timeIntervalSince1970, retry.error])
    }

    static func removeRetry(of id: UUID, _ db: Database) throws {
        let sql = "DELETE FROM main.roundtable_outbox_retries WHERE id = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [id])
    }

    // MARK: Dead letters

    /// The dead letters in the order in which they were first set aside, with what is known of their new tries.
    static func deadLetters(_ db: Database) throws -> [DeadLetter] {
        try DeadLetter.fetchAll(db, sql: "\(deadLettersWithRetries) ORDER BY dead.sequence")
    }

    /// The next dead letters, as many as may be in memory at the same time.
    static func deadLetters(after sequence: Int64, _ db: Database) throws -> [(sequence: Int64, DeadLetter)] {
        let sql = "\(deadLettersWithRetries) WHERE dead.sequence > ? ORDER BY dead.sequence LIMIT ?"
        var page: [(sequence: Int64, DeadLetter)] = []
        var bytes = 0
        let rows = try Row.fetchCursor(db, sql: sql, arguments: [sequence, OutboxQueues.maximumCount])
        while bytes < OutboxQueues.maximumBytes, let row = try rows.next() {
            let letter = try DeadLetter(row: row)
            bytes += letter.payload.count
            page.append((try row.outboxValue("sequence"), letter))
        }
        return page
    }

    private static let deadLettersWithRetries = """
        SELECT dead.*, retry.attempts AS new_attempts, retry.next, retry.error AS new_error
        FROM main.roundtable_outbox_dead AS dead
        LEFT JOIN main.roundtable_outbox_retries AS retry ON retry.id = dead.id
        """

    static func deadLetter(_ id: UUID, _ db: Database) throws -> DeadLetter? {
        let sql = "SELECT * FROM main.roundtable_outbox_dead WHERE id = ?"
        return try DeadLetter.fetchOne(db.cachedStatement(sql: sql), arguments: [id])
    }

    /// The dead letters of these kinds that are marked for a retry, or were set aside as unknown.
    ///
    /// - parameter isDue: whether a dead letter that has failed again may be tried.
    /// - returns: the first of them, as many as may be in memory at the same time, and whether they are all.
    static func deadLettersToRetry(
        _ kinds: Set<OutboxCommandKind>,
        _ db: Database,
        isDue: (Retry) -> Bool
    ) throws -> ([DeadLetter], areAll: Bool) {
        let sql = """
            SELECT id, name, version, length(payload) AS size FROM main.roundtable_outbox_dead
            WHERE is_to_be_retried OR reason = 'unknown' ORDER BY sequence
            """
        var letters: [DeadLetter] = []
        var bytes = 0
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
        while let row = try rows.next() {
            guard
                kinds.contains(
                    OutboxCommandKind(name: try row.outboxValue("name"), version: try row.outboxValue("version"))
                )
            else { continue }
            if letters.count >= OutboxQueues.maximumCount || bytes >= OutboxQueues.maximumBytes {
                return (letters, false)
            }
            if let retry = try retry(of: row.outboxValue("id"), db), !isDue(retry) { continue }
            guard let letter = try deadLetter(row.outboxValue("id"), db), letter.isForRetry(kinds) else { continue }
            letters.append(letter)
            bytes += letter.payload.count
        }
        return (letters, true)
    }

    /// Sets a command aside, or updates the dead letter if there is one already.
    static func setAside(_ letter: DeadLetter, _ db: Database) throws {
        let sql = """
            INSERT INTO main.roundtable_outbox_dead
                (id, sender, name, version, payload, submitted, set_aside, reason, error, attempts, is_to_be_retried)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET set_aside = excluded.set_aside, reason = excluded.reason,
                error = excluded.error, attempts = excluded.attempts, is_to_be_retried = excluded.is_to_be_retried
            """
        try db.cachedStatement(sql: sql).execute(
            arguments: [
                letter.id, letter.sender, letter.name, letter.version, letter.payload,
                letter.submitted.timeIntervalSince1970, letter.setAside.timeIntervalSince1970, letter.reason.rawValue,
                letter.error, letter.attempts, letter.isToBeRetried,
            ]
        )
        try record(letter.id, .setAside(letter.reason, error: letter.error), at: letter.setAside, db)
    }

    /// - returns: false when there is no dead letter with this id.
    static func markForRetry(_ id: UUID, _ db: Database) throws -> Bool {
        try db.execute(
            sql: "UPDATE main.roundtable_outbox_dead SET is_to_be_retried = 1 WHERE id = ?",
            arguments: [id]
        )
        guard db.changesCount > 0 else { return false }
        try removeRetry(of: id, db)
        return true
    }

    /// - returns: false when there is no dead letter with this id.
    @discardableResult
    static func removeDeadLetter(_ id: UUID, _ db: Database) throws -> Bool {
        try db.cachedStatement(sql: "DELETE FROM main.roundtable_outbox_dead WHERE id = ?").execute(arguments: [id])
        return db.changesCount > 0
    }
}

extension OutboxTables.Retry {
    fileprivate init(_ row: Row) throws {
        attempts = try row.outboxValue("attempts")
        next = Date(timeIntervalSince1970: try row.outboxValue("next"))
        error = try row.outboxValue("error")
    }
}

extension Row {
    /// A value of the tables of the outbox. Any program can write any values there, so none of them may end the process that reads it.
    ///
    /// - throws: `SQLITE_CORRUPT` when the column has a value of another type.
    func outboxValue<T: DatabaseValueConvertible>(_ column: String) throws -> T {
        do {
            return try decode(T.self, forColumn: column)
        } catch {
            throw DatabaseError(
                resultCode: .SQLITE_CORRUPT,
                message: """
                    the tables of the outbox have a value in '\(column)' that Roundtable did not write: correct it, or delete its row
                    """
            )
        }
    }
}

extension DeadLetter {
    func isForRetry(_ kinds: Set<OutboxCommandKind>) -> Bool {
        guard kinds.contains(command.kind) else { return false }
        return isToBeRetried || reason == .unknown
    }
}
