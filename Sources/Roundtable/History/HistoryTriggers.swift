/// The triggers that record the changes of one table (rules H4 to H7). Plain SQL, so that every program that writes fires them.
struct HistoryTriggers {
    let shape: TableShape
    let id: Int64
    let recording: HistoryRecording

    /// Raised when the text of the triggers changes. Versions of Roundtable that share a database keep those of the latest
    /// one, instead of replacing each other's (rule H8).
    static let generation = 1

    /// Without all of these, changes are not recorded.
    static let essential = ["insert", "update", "move", "delete"]

    static func name(_ id: Int64, _ part: String) -> String { "\(HistoryTables.prefix)_\(id)_\(part)" }

    /// By name.
    var statements: [String: String] {
        var statements = essentials
        if !shape.uniqueIndexes.isEmpty { statements.merge(guards) { $1 } }
        return Dictionary(
            uniqueKeysWithValues: statements.map { part, text in
                let name = Self.name(id, part)
                return (name, "CREATE TRIGGER \(name) \(text)")
            }
        )
    }

    private var table: String { shape.name.sqlName }

    // MARK: Changes

    private var essentials: [String: String] {
        [
            "insert": """
            AFTER INSERT ON \(table) BEGIN
                \(record("insert", of: "new"))
            END
            """,
            "update": """
            AFTER UPDATE ON \(table) WHEN NOT (\(keyChanges)) BEGIN
                \(record("update", of: "new", columns: mask))
            END
            """,
            "move": """
            AFTER UPDATE ON \(table) WHEN \(keyChanges) BEGIN
                \(record("delete", of: "old"))
                \(record("insert", of: "new"))
            END
            """,
            "delete": """
            AFTER DELETE ON \(table) BEGIN
                \(record("delete", of: "old"))
            END
            """,
        ]
    }

    private func record(_ operation: String, of row: String, columns: String? = nil) -> String {
        """
        INSERT INTO roundtable_history (table_id, operation, row_key\(columns == nil ? "" : ", columns"))
                VALUES (\(id), '\(operation)', \(keyValue(row))\(columns.map { ", " + $0 } ?? ""));
        """
    }

    private var keyChanges: String {
        shape.key.map { changes($0) }.joined(separator: " OR ")
    }

    /// Not by the column's collation, to which 'a' may be 'A', or which the writing program may not know.
    private func changes(_ column: TableShape.Column) -> String {
        "old.\(column.name.sqlName) COLLATE BINARY IS NOT new.\(column.name.sqlName)"
    }

    /// A bit for each changed column, and one above them all: it tells how many columns were looked at (rule H6).
    private var mask: String? {
        guard recording == .changedColumns, shape.columns.count <= TableShape.mostColumns else { return nil }
        let bits = shape.columns.enumerated().map { "((\(changes($1))) << \($0))" }
        return (bits + ["\(Int64(1) << shape.columns.count)"]).joined(separator: "\n            | ")
    }

    /// A single value as it is; several as a list of SQL literals.
    private func keyValue(_ row: String) -> String {
        if shape.key.count == 1 { return "\(row).\(shape.key[0].name.sqlName)" }
        return shape.key.map { column in
            let value = "\(row).\(column.name.sqlName)"
            // quote() ends a text at a NUL character.
            return """
                CASE WHEN typeof(\(value)) = 'text' AND instr(\(value), char(0))
                        THEN 'CAST(' || quote(CAST(\(value) AS BLOB)) || ' AS TEXT)' ELSE quote(\(value)) END
                """
        }.joined(separator: " || ',' || ")
    }

    // MARK: What REPLACE deletes

    /// REPLACE deletes rows without firing their triggers. So the rows in conflict with a new one are noted before it is
    /// written, and looked for afterwards: those that are gone were deleted (rule H7).
    private var guards: [String: String] {
        [
            "note_insert": """
            BEFORE INSERT ON \(table) BEGIN
                \(note())
            END
            """,
            "replace_insert": """
            AFTER INSERT ON \(table) WHEN \(isNoted) BEGIN
                \(recordReplaced)
            END
            """,
            "note_update": """
            BEFORE UPDATE ON \(table)\(uniqueColumnsChange.map { " WHEN \($0)" } ?? "") BEGIN
                \(note(except: isOldRow))
            END
            """,
            "replace_update": """
            AFTER UPDATE ON \(table) WHEN \(isNoted) BEGIN
                \(recordReplaced)
            END
            """,
        ]
    }

    /// Without a conflict clause: that of the statement which fires the trigger would take its place.
    private func note(except exception: String? = nil) -> String {
        let rowID = shape.rowID.map { "existing.\($0)" } ?? "NULL"
        let selections = conflicts.map { conflict in
            """
            SELECT \(id), \(cause), \(keyValue("existing")), \(rowID) FROM \(table) AS existing
                    WHERE \(conflict)\(exception.map { " AND NOT (\($0))" } ?? "")
            """
        }
        return """
            DELETE FROM roundtable_history_conflicts WHERE table_id = \(id) AND cause = \(cause);
                INSERT INTO roundtable_history_conflicts (table_id, cause, row_key, row_id)
                    \(selections.joined(separator: "\n        UNION "));
            """
    }

    private var isOldRow: String {
        shape.key.map { "existing.\($0.name.sqlName) COLLATE BINARY IS old.\($0.name.sqlName)" }
            .joined(separator: " AND ")
    }

    private var isNoted: String {
        "EXISTS (SELECT 1 FROM roundtable_history_conflicts WHERE table_id = \(id))"
    }

    private var recordReplaced: String {
        """
        INSERT INTO roundtable_history (table_id, operation, row_key)
                SELECT \(id), 'delete', noted.row_key FROM roundtable_history_conflicts AS noted
                WHERE noted.table_id = \(id) AND noted.cause = \(cause)
                AND NOT EXISTS (SELECT 1 FROM \(table) AS existing WHERE \(isNotedRow));
            DELETE FROM roundtable_history_conflicts WHERE table_id = \(id) AND cause = \(cause);
        """
    }

    private var isNotedRow: String {
        let rowID = shape.rowID.map { "existing.\($0) = noted.row_id AND " } ?? ""
        if shape.key.count > 1 { return "\(rowID)\(keyValue("existing")) = noted.row_key" }
        // Once with the column's collation, which finds the row by its index, and once to the letter.
        let key = keyValue("existing")
        return "\(rowID)\(key) IS noted.row_key AND \(key) COLLATE BINARY IS noted.row_key"
    }

    /// For each unique index, which existing rows are in conflict with the new one.
    private var conflicts: [String] {
        shape.uniqueIndexes.map { index in
            let terms = index.terms.map { term in
                switch term {
                case .column(let column, let collation):
                    "existing.\(column.name.sqlName) = \(newValue(column)) COLLATE \(collation.sqlName)"
                case .expression(let text):
                    "(\(text)) = (SELECT \(text) FROM (SELECT \(newRow)))"
                }
            }
            return (terms + (index.condition.map { ["(\($0))"] } ?? [])).joined(separator: " AND ")
        }
    }

    /// The new row, with its columns' names.
    private var newRow: String {
        shape.columns.map { "\(newValue($0)) AS \($0.name.sqlName)" }.joined(separator: ", ")
    }

    /// As REPLACE will write it.
    private func newValue(_ column: TableShape.Column) -> String {
        let value = "new.\(column.name.sqlName)"
        return column.replacementOfNull.map { "coalesce(\(value), \($0))" } ?? value
    }

    /// Tells the writing of one row from that of another, before and after it: triggers within triggers come in between. A
    /// key of one column is left out, because SQLite may choose it in between.
    private var cause: String {
        let lists = shape.uniqueIndexes.map(\.columns)
        let all = lists.contains(nil) ? shape.columns : lists.flatMap { $0 ?? [] }
        let key = shape.key.count == 1 ? shape.key[0].name : nil
        var names: [String] = []
        for column in all where column.name != key {
            let value = "quote(\(newValue(column)))"
            if !names.contains(value) { names.append(value) }
        }
        return names.isEmpty ? "''" : "(" + names.joined(separator: " || ',' || ") + ")"
    }

    private var uniqueColumnsChange: String? {
        let lists = shape.uniqueIndexes.map(\.columns)
        if lists.contains(nil) { return nil }
        return lists.flatMap { $0 ?? [] }.map { changes($0) }.joined(separator: " OR ")
    }

    /// What the guards cover, to tell whether an index came that they do not.
    var coverage: [String] { conflicts.sorted() }
}
