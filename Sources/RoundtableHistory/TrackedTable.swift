import Foundation
import GRDB
import RoundtableCore
import RoundtableTables

/// A row of `roundtable_history_tables`, together with the table's triggers in the schema.
struct TrackedTable {
    enum State: String {
        case recording
        /// The table is gone, or cannot be recorded as it is now. Recording begins again when that changes.
        case missing
        case disabled
    }

    let id: Int64
    /// The last known name of the table.
    var name: String
    var state: State
    var recording: HistoryRecording
    var keyColumns: [String]
    /// What the guards of the table cover.
    var coverage: [String]
    var generation: Int
    /// Changes from before this sequence may be missing.
    var gap: Int64
    /// The columns whose old values are or were kept, with their present names (rule H13).
    var kept: [KeptColumn] = []
    /// What `roundtable_history_tables` has of `kept`; nil if the history was created by a version that cannot keep values.
    private var storedKept: [KeptColumn]?
    /// The history's triggers of the table, by name, with their text in the schema.
    var triggers: [String: String] = [:]

    // Rule H12: SQLite fires the triggers of a table from the youngest (the highest rowid in `sqlite_master`) to the oldest, temporary ones
    // before all others. So a user's trigger may run first, and therefore only what still holds is recorded: the last change of a key shows
    // whether its row is there. A younger AFTER trigger may also end the statement without undoing it. So a participant that synchronizes
    // (H8) creates the recording triggers again, after it; a gap is put only if its text has RAISE with IGNORE or FAIL. Those that take
    // notes stay, so that they fire last among the BEFORE triggers.

    /// The other triggers of the table that fire before those that record (rule H12).
    var youngerTriggers: [OtherTrigger] = []

    /// Whether the tables of the history can keep old values.
    var canKeepValues: Bool { storedKept != nil }

    /// Whether all changes are recorded, with the old values that are to be kept. They are not after the table was dropped or recreated, or
    /// got a trigger that ends statements, or those of an earlier version of Roundtable, until a participant detects that.
    var isIntact: Bool {
        let keepsValues = kept.contains(where: \.isKept)
        if keepsValues, generation < HistoryTriggers.keepingGeneration { return false }
        let essential = keepsValues ? HistoryTriggers.essentialToKeep : HistoryTriggers.essential
        return state == .recording && essential.allSatisfy { triggers[HistoryTriggers.name(id, $0)] != nil }
            && !youngerTriggers.contains(where: \.mayEndStatement)
    }
}

extension TrackedTable {
    /// Whether a later version of Roundtable maintains its triggers.
    var isIntactAndNewer: Bool { isIntact && generation > HistoryTriggers.generation }

    /// All tables that were ever tracked.
    static func fetchAll(_ db: Database) throws -> [TrackedTable] {
        let sql = "SELECT rowid, name, tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger'"
        let all = try Row.fetchAll(db, sql: sql)
        let triggers = all.filter { ($0["name"] as String).hasPrefix(HistoryTables.prefix) }
        let others = all.filter { !($0["name"] as String).hasPrefix(TableShape.reservedPrefix) }
        return try Row.fetchAll(db, sql: "SELECT * FROM main.roundtable_history_tables ORDER BY id").map { row in
            var table = try TrackedTable(row, db)
            let prefix = HistoryTriggers.name(table.id, "")
            var oldest = Int64.max
            for trigger in triggers {
                let name: String = trigger["name"]
                guard name.hasPrefix(prefix) else { continue }
                table.triggers[name] = trigger["sql"]
                // ALTER TABLE … RENAME keeps the triggers, so their table has the present name.
                table.name = trigger["tbl_name"]
                if HistoryTriggers.isRecording(name, table.id) { oldest = min(oldest, trigger["rowid"]) }
            }
            if let deletion = table.triggers[HistoryTriggers.name(table.id, "delete")] {
                let names = HistoryTriggers.columnNames(inDeletion: deletion)
                for index in table.kept.indices where table.kept[index].isKept {
                    table.kept[index].name = names[table.kept[index].id] ?? table.kept[index].name
                }
            }
            let name = table.name.lowercased()
            table.youngerTriggers =
                others
                .filter { $0["rowid"] > oldest && ($0["tbl_name"] as String).lowercased() == name }
                .map { OtherTrigger($0["sql"]) }.filter(\.isAfter)
            return table
        }
    }

    private init(_ row: Row, _ db: Database) throws {
        id = try row.historyValue("id", db)
        name = try row.historyValue("name", db)
        // Unknown words can only come from a later format, which is refused.
        state = State(rawValue: try row.historyValue("state", db)) ?? .disabled
        recording = HistoryRecording(rawValue: try row.historyValue("recording", db)) ?? .rows
        keyColumns = try row.historyJSON("key_columns", db)
        coverage = try row.historyJSON("conflicts", db)
        generation = try row.historyValue("generation", db)
        gap = try row.historyValue("gap", db)
        if row.hasColumn("kept_columns") {
            let list: [KeptColumn] = try row.historyJSON("kept_columns", db)
            storedKept = list
            kept = list
        }
    }

    private static func text(_ list: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(list), as: UTF8.self)
    }

    /// Inserts the row of a table. Must be called inside a write transaction.
    static func insert(_ db: Database, name: String, recording: HistoryRecording) throws -> TrackedTable {
        try db.execute(
            sql: """
                INSERT INTO main.roundtable_history_tables (name, state, recording, key_columns, conflicts, generation, gap)
                VALUES (?, ?, ?, '[]', '[]', 0, 0)
                """,
            arguments: [name, State.disabled.rawValue, recording.rawValue]
        )
        return TrackedTable(
            id: db.lastInsertedRowID,
            name: name,
            state: .disabled,
            recording: recording,
            keyColumns: [],
            coverage: [],
            generation: 0,
            gap: 0,
            storedKept: try HistoryTables.canKeepValues(db) ? [] : nil
        )
    }

    func update(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE main.roundtable_history_tables
                SET name = ?, state = ?, recording = ?, key_columns = ?, conflicts = ?, generation = ?,
                    gap = ?
                WHERE id = ?
                """,
            arguments: [
                name, state.rawValue, recording.rawValue, try Self.text(keyColumns), try Self.text(coverage),
                generation, gap, id,
            ]
        )
        if storedKept != nil || !kept.isEmpty {
            try db.execute(
                sql: "UPDATE main.roundtable_history_tables SET kept_columns = ? WHERE id = ?",
                arguments: [try Self.text(kept), id]
            )
        }
    }

    // MARK: Triggers

    /// Replaces the triggers by those that the table needs as it is now. Must be called inside a write transaction.
    ///
    /// - parameter wasIntact: whether no changes are missing so far, nor old values that were to be kept.
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)``.
    mutating func putTriggers(_ db: Database, wasIntact: Bool) throws {
        let shape = try TableShape(toRecord: name, db)
        let needed = needed(shape)
        let isCovered = Set(needed.coverage).isSubset(of: coverage)
        let isColumnLost = needed.kept != kept
        let statements = needed.statements
        if triggers != statements || !youngerTriggers.isEmpty {
            // The triggers that take notes should be as old as possible, because the oldest fire last (rule H12). They are kept
            // unless a text has changed.
            let areAllNew = triggers != statements
            try dropTriggers(db) { [id] in areAllNew || HistoryTriggers.isRecording($0, id) }
            // Without its schema's name, a trigger on a table that has a temporary namesake would be a temporary one.
            for (trigger, sql) in statements.sorted(by: { $0.key < $1.key }) where triggers[trigger] == nil {
                let start = "CREATE TRIGGER "
                try db.execute(sql: "\(start)main.\(sql.dropFirst(start.count))")
            }
            if areAllNew {
                // The triggers would not find the notes of others, which may have other values (rule H14b).
                try db.execute(sql: "DELETE FROM main.roundtable_history_conflicts WHERE table_id = ?", arguments: [id])
            }
            triggers = statements
            youngerTriggers = []
        }
        name = shape.name
        state = .recording
        keyColumns = shape.key.map(\.name)
        coverage = needed.coverage
        generation = needed.generation
        kept = needed.kept
        if !wasIntact || !isCovered || isColumnLost { try putGap(db) }
        try update(db)
    }

    /// The triggers that the table needs. Columns that it no longer has are not kept.
    private func needed(_ shape: TableShape) -> HistoryTriggers {
        var kept = kept
        kept.restrict(to: Set(shape.columns.map(\.name)))
        return HistoryTriggers(shape: shape, id: id, recording: recording, kept: kept)
    }

    mutating func dropTriggers(_ db: Database, where isDropped: (String) -> Bool = { _ in true }) throws {
        for trigger in triggers.keys.sorted() where isDropped(trigger) {
            try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(trigger.sqlName)")
            triggers[trigger] = nil
        }
    }

    /// Records a gap: readers with older tokens must start over (rule H8).
    mutating func putGap(_ db: Database) throws {
        try db.execute(
            sql: "INSERT INTO main.roundtable_history (table_id, operation) VALUES (?, 'gap')",
            arguments: [id]
        )
        gap = db.lastInsertedRowID
    }
}

extension TrackedTable {
    // Rule H8: Where changes may be missing, a *gap* is recorded, and consumers with an older token start over: when recording begins or
    // ends, when a participant finds a table without its triggers, with others, or with a later trigger that may have ended statements. It
    // compares texts byte for byte before its first write and after schema changes, and restores them with the gap in one transaction;
    // later generations stay. Replaced content gets a history of another identity. A program that cannot produce these texts must not
    // enable or restore; it may read, consume, prune and stamp.

    /// Creates triggers again that schema changes have removed, and records a gap where changes may be missing (rule H8). Must be
    /// called inside a write transaction.
    static func synchronize(_ db: Database) throws {
        for var table in try fetchAll(db) where table.state != .disabled && !table.isIntactAndNewer {
            do {
                try table.putTriggers(db, wasIntact: table.isIntact)
            } catch HistoryError.cannotTrack {
                try table.dropTriggers(db)
                if table.state == .recording {
                    table.state = .missing
                    try table.putGap(db)
                    try table.update(db)
                }
            }
        }
    }

    /// Whether `synchronize` would change anything. Does not write.
    static func needsSynchronization(_ db: Database) throws -> Bool {
        try fetchAll(db).contains { table in
            guard table.state != .disabled, !table.isIntactAndNewer else { return false }
            guard let shape = try? TableShape(db, table: table.name) else { return table.state == .recording }
            let needed = table.needed(shape)
            return !table.isIntact || table.triggers != needed.statements || !table.youngerTriggers.isEmpty
                || needed.kept != (table.storedKept ?? [])
        }
    }
}
