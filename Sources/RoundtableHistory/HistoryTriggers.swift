import RoundtableCore
import RoundtableTables

// Rule H4: Each recorded table has a primary key, and triggers for insert, delete, update and change of the key. They are plain SQL that
// every program fires. So a row and its history are committed or rolled back together.

/// The triggers that record the changes of one table (rules H4 to H7). They are plain SQL, so that every program that writes fires
/// them.
struct HistoryTriggers {
    let shape: TableShape
    let id: Int64
    let recording: HistoryRecording
    var kept: [KeptColumn] = []

    /// Increased when the text of the triggers changes. Versions of Roundtable that share a database keep the triggers of the latest
    /// version, and do not replace each other's (rule H8).
    static let generation = 3
    /// The first generation that keeps old values. Tables without them have triggers of generation 1, as before (rule H13a).
    static let keepingGeneration = 2

    var keepsValues: Bool { kept.contains(where: \.isKept) }
    var generation: Int { keepsValues ? Self.generation : 1 }

    /// The most columns of a table whose changed columns can be recorded, because each column is a bit.
    static let maximumColumnCount = 62

    /// The triggers without which changes are not recorded.
    static let essential = ["insert", "update", "move", "delete"]
    /// Those of a table whose old values are kept.
    static let essentialToKeep = essential + ["displace"]

    /// Whether a trigger fires after a row is written. The other triggers take notes before.
    static func isRecording(_ name: String, _ id: Int64) -> Bool { !name.hasPrefix(self.name(id, "note")) }

    static func name(_ id: Int64, _ part: String) -> String { "\(HistoryTables.prefix)_\(id)_\(part)" }

    /// The statements that create the triggers, by the triggers' names.
    var statements: [String: String] {
        var statements = keepsValues ? keepingTriggers : essentials
        statements.merge(replaceGuards.triggers) { $1 }
        return Dictionary(
            uniqueKeysWithValues: statements.map { part, text in
                let name = Self.name(id, part)
                return (name, "CREATE TRIGGER \(name) \(text)")
            }
        )
    }

    var table: String { shape.name.sqlName }

    // MARK: Changes

    /// Other triggers of the table may have fired before, and may have written the row once more. Therefore only what still holds is
    /// recorded (rule H12). WHEN checks that where possible, because INSERT … SELECT takes half as long again as INSERT … VALUES.
    private var essentials: [String: String] {
        [
            "insert": """
            AFTER INSERT ON \(table) WHEN \(isThere) BEGIN
                \(record) VALUES (\(id), 'insert', \(keyValue("new")));
            END
            """,
            "update": """
            AFTER UPDATE ON \(table) WHEN NOT (\(shape.keyChanges)) AND \(isThere) BEGIN
                \(update)
            END
            """,
            "move": """
            AFTER UPDATE ON \(table) WHEN \(shape.keyChanges) BEGIN
                \(record) SELECT \(id), 'delete', \(keyValue("old")) WHERE \(isGone);
                \(record) SELECT \(id), 'insert', \(keyValue("new")) WHERE \(isThere);
            END
            """,
            "delete": """
            AFTER DELETE ON \(table) WHEN \(isGone) BEGIN
                \(record) VALUES (\(id), 'delete', \(keyValue("old")));
            END
            """,
        ]
    }

    private var record: String { "INSERT INTO roundtable_history (table_id, operation, row_key)" }

    private var update: String {
        guard let mask else { return "\(record) VALUES (\(id), 'update', \(keyValue("new")));" }
        return """
            INSERT INTO roundtable_history (table_id, operation, row_key, columns)
                    VALUES (\(id), 'update', \(keyValue("new")), \(mask));
            """
    }

    var isThere: String { exists("new", "IS") }
    /// A key with a NULL does not identify one row, so a deleted row with such a key counts as gone even if others are left.
    var isGone: String { "NOT \(exists("old", "="))" }

    /// Whether a row with the key of `row` exists.
    func exists(_ row: String, _ comparison: String) -> String {
        let terms = shape.key.map { equals($0, comparison, "\(row).\($0.name.sqlName)") }
        return "EXISTS (SELECT 1 FROM \(table) AS existing WHERE \(terms.joined(separator: " AND ")))"
    }

    /// Whether a row has this value in a column of its key. Compares by the key's collation, so that its index is used, and bytewise.
    func equals(_ column: TableShape.Column, _ comparison: String, _ value: String) -> String {
        let name = "existing.\(column.name.sqlName)"
        guard let collation = column.keyCollation else { return "\(name) \(comparison) \(value)" }
        let letters = "\(name) COLLATE BINARY \(comparison) \(value)"
        if collation.uppercased() == "BINARY" { return letters }
        return "\(name) COLLATE \(collation.sqlName) \(comparison) \(value) AND \(letters)"
    }

    /// A bit for each changed column, and one above them all that shows how many columns were compared (rule H6).
    var mask: String? {
        guard recording == .changedColumns, shape.columns.count <= HistoryTriggers.maximumColumnCount else {
            return nil
        }
        let bits = shape.columns.enumerated().map { "((\($1.changes)) << \($0))" }
        return (bits + ["\(Int64(1) << shape.columns.count)"]).joined(separator: "\n            | ")
    }

    /// The value of the key: a single column's value as it is, or a list of SQL literals for several columns.
    func keyValue(_ row: String) -> String {
        if shape.key.count == 1 { return "\(row).\(shape.key[0].name.sqlName)" }
        return shape.key.map { column in
            literal("\(row).\(column.name.sqlName)")
        }.joined(separator: " || ',' || ")
    }

    /// The value as an SQL literal. `quote()` ends a text at a NUL character.
    func literal(_ value: String) -> String {
        """
        CASE WHEN typeof(\(value)) = 'text' AND instr(\(value), char(0))
                THEN 'CAST(' || quote(CAST(\(value) AS BLOB)) || ' AS TEXT)' ELSE quote(\(value)) END
        """
    }

    // MARK: Rows that REPLACE deletes

    var replaceGuards: ReplaceGuards {
        ReplaceGuards(shape: shape, note: note, isNoted: isNoted, settle: recordReplaced)
    }

    /// The statements have no conflict clause, because that of the statement which fires the trigger would replace it.
    func note(_ conflicts: [String], _ cause: String, except exception: String?, for event: ReplaceGuards.Event)
        -> String
    {
        let rowID = shape.rowID.map { "existing.\($0)" } ?? "NULL"
        let (columns, values) =
            keepsValues
            ? (
                ", old_values, noted_after",
                ", \(oldValues("existing")), (SELECT max(sequence) FROM roundtable_history)"
            ) : ("", "")
        let selections = conflicts.map { conflict in
            """
            SELECT \(id), \(cause), \(keyValue("existing")), \(rowID)\(values) FROM \(table) AS existing
                    WHERE \(conflict)\(exception.map { " AND NOT (\($0))" } ?? "")
            """
        }
        let forget = keepsValues && event == .cascade ? forgetCascaded : forget(cause)
        return """
            \(forget)
                INSERT INTO roundtable_history_conflicts (table_id, cause, row_key, row_id\(columns))
                    \(selections.joined(separator: "\n        UNION "));
            """
    }

    func isNoted(_ cause: String?) -> String {
        let term = cause.map { " AND cause = \($0)" } ?? ""
        return "EXISTS (SELECT 1 FROM roundtable_history_conflicts WHERE table_id = \(id)\(term))"
    }

    func forget(_ cause: String) -> String {
        "DELETE FROM roundtable_history_conflicts WHERE table_id = \(id) AND cause = \(cause);"
    }

    private func recordReplaced(_ cause: String, after event: ReplaceGuards.Event) -> String {
        var (select, column, value, condition) = ("SELECT", "", "", "")
        if keepsValues {
            (column, value, condition) = (", old_values", ", noted.old_values", "\n        AND \(isUnrecorded)")
            switch event {
            case .write: condition += "\n        AND NOT \(isReplacedByKey)"
            // Nested updates of the row may have noted the same row.
            case .cascade: select += " DISTINCT"
            }
        }
        return """
            INSERT INTO roundtable_history (table_id, operation, row_key\(column))
                    \(select) \(id), 'delete', noted.row_key\(value) FROM roundtable_history_conflicts AS noted
                    WHERE noted.table_id = \(id) AND noted.cause = \(cause)
                    AND \(isNotedRowGone)\(condition);
                \(forget(cause))
            """
    }

    var isNotedRowGone: String { "NOT EXISTS (SELECT 1 FROM \(table) AS existing WHERE \(isNotedRow))" }

    private var isNotedRow: String {
        let rowID = shape.rowID.map { "existing.\($0) = noted.row_id AND " } ?? ""
        if shape.key.count > 1 { return "\(rowID)\(keyValue("existing")) = noted.row_key" }
        return "\(rowID)\(equals(shape.key[0], "IS", "noted.row_key"))"
    }

    /// What the guards cover. It shows whether there is an index that they do not cover.
    var coverage: [String] { replaceGuards.coverage }
}
