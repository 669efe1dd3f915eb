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

    /// Whether a trigger fires after a row is written. The others take notes before.
    static func isRecording(_ name: String, _ id: Int64) -> Bool { !name.hasPrefix(self.name(id, "note")) }

    static func name(_ id: Int64, _ part: String) -> String { "\(HistoryTables.prefix)_\(id)_\(part)" }

    /// By name.
    var statements: [String: String] {
        var statements = essentials
        if !shape.uniqueIndexes.isEmpty { statements.merge(guards) { $1 } }
        if shape.cascadesToItself { statements.merge(cascadeGuards) { $1 } }
        return Dictionary(
            uniqueKeysWithValues: statements.map { part, text in
                let name = Self.name(id, part)
                return (name, "CREATE TRIGGER \(name) \(text)")
            }
        )
    }

    private var table: String { shape.name.sqlName }

    // MARK: Changes

    /// Other triggers of the table may have fired before, and may have written the row once more: recorded is only what is
    /// still so (rule H12). Asked in WHEN where that can be: INSERT … SELECT takes half as long again as INSERT … VALUES.
    private var essentials: [String: String] {
        [
            "insert": """
            AFTER INSERT ON \(table) WHEN \(isThere) BEGIN
                \(record) VALUES (\(id), 'insert', \(keyValue("new")));
            END
            """,
            "update": """
            AFTER UPDATE ON \(table) WHEN NOT (\(keyChanges)) AND \(isThere) BEGIN
                \(update)
            END
            """,
            "move": """
            AFTER UPDATE ON \(table) WHEN \(keyChanges) BEGIN
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

    private var isThere: String { exists("new", "IS") }
    /// Rows whose key has a NULL are not told apart: one that goes leaves others.
    private var isGone: String { "NOT \(exists("old", "="))" }

    /// Whether the row of this name is there.
    func exists(_ row: String, _ comparison: String) -> String {
        let terms = shape.key.map { equals($0, comparison, "\(row).\($0.name.sqlName)") }
        return "EXISTS (SELECT 1 FROM \(table) AS existing WHERE \(terms.joined(separator: " AND ")))"
    }

    /// Whether a row has this value in a column of its key: by the key's collation, so that its index is used, and to the
    /// letter.
    private func equals(_ column: TableShape.Column, _ comparison: String, _ value: String) -> String {
        let name = "existing.\(column.name.sqlName)"
        guard let collation = column.keyCollation else { return "\(name) \(comparison) \(value)" }
        let letters = "\(name) COLLATE BINARY \(comparison) \(value)"
        if collation.uppercased() == "BINARY" { return letters }
        return "\(name) COLLATE \(collation.sqlName) \(comparison) \(value) AND \(letters)"
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
    ///
    /// An update that took no notes looks for none: it may have found those of the row that is being written around it, by way of
    /// a foreign key's SET NULL, or old ones.
    private var guards: [String: String] {
        [
            "note_insert": """
            BEFORE INSERT ON \(table) BEGIN
                \(note(conflicts, cause: cause))
            END
            """,
            "replace_insert": """
            AFTER INSERT ON \(table) WHEN \(isNoted()) BEGIN
                \(recordReplaced(cause: cause))
            END
            """,
            "note_update": """
            BEFORE UPDATE ON \(table) WHEN \(uniqueColumnsChange) BEGIN
                \(note(conflicts, cause: cause, except: isOldRow))
            END
            """,
            "replace_update": """
            AFTER UPDATE ON \(table) WHEN (\(uniqueColumnsChange)) AND \(isNoted()) BEGIN
                \(recordReplaced(cause: cause))
            END
            """,
        ]
    }

    /// When the deletion of a row in conflict cascades to the very row that is being updated, the update comes to nothing, and
    /// its AFTER triggers do not fire. That the row goes is what is left to be noticed.
    private var cascadeGuards: [String: String] {
        let updated = { (row: String) in "('updating ' || \(quotedKey(row)))" }
        let changed = shape.uniqueIndexes.isEmpty ? keyChanges : "\(keyChanges) OR \(uniqueColumnsChange)"
        return [
            "note_cascade": """
            BEFORE UPDATE ON \(table) WHEN \(changed) BEGIN
                \(note(conflicts + [keyConflict], cause: updated("old"), except: isOldRow))
            END
            """,
            "replace_cascade": """
            AFTER DELETE ON \(table) WHEN \(isNoted(cause: updated("old"))) BEGIN
                \(recordReplaced(cause: updated("old")))
            END
            """,
        ]
    }

    private var keyConflict: String {
        shape.key.map { column in
            let collation = column.keyCollation.map { " COLLATE \($0.sqlName)" } ?? ""
            return "existing.\(column.name.sqlName)\(collation) = new.\(column.name.sqlName)"
        }.joined(separator: " AND ")
    }

    private func quotedKey(_ row: String) -> String {
        shape.key.map { digest("\(row).\($0.name.sqlName)") }.joined(separator: " || ',' || ")
    }

    /// Without a conflict clause: that of the statement which fires the trigger would take its place.
    private func note(_ conflicts: [String], cause: String, except exception: String? = nil) -> String {
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

    private func isNoted(cause: String? = nil) -> String {
        let term = cause.map { " AND cause = \($0)" } ?? ""
        return "EXISTS (SELECT 1 FROM roundtable_history_conflicts WHERE table_id = \(id)\(term))"
    }

    private func recordReplaced(cause: String) -> String {
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
        return "\(rowID)\(equals(shape.key[0], "IS", "noted.row_key"))"
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
            let value = digest(newValue(column))
            if !names.contains(value) { names.append(value) }
        }
        return names.isEmpty ? "''" : "(" + names.joined(separator: " || ',' || ") + ")"
    }

    /// Of a value that is long, what is enough to tell it from most others: `quote` more than doubles it, to beyond what
    /// SQLite allows.
    private func digest(_ value: String) -> String {
        """
        CASE WHEN length(\(value)) > 1000
                THEN length(\(value)) || quote(substr(\(value), 1, 500)) || quote(substr(\(value), -500))
                ELSE quote(\(value)) END
        """
    }

    /// Names all columns when there is an expression: in a BEFORE trigger a generated column is NULL, unless the triggers also
    /// name the columns that it is made of.
    private var uniqueColumnsChange: String {
        let lists = shape.uniqueIndexes.map(\.columns)
        let columns = lists.contains(nil) ? shape.columns : lists.flatMap { $0 ?? [] }
        return columns.map { changes($0) }.joined(separator: " OR ")
    }

    /// What the guards cover, to tell whether an index came that they do not.
    var coverage: [String] { (conflicts + (shape.cascadesToItself ? [keyConflict] : [])).sorted() }
}
