import RoundtableCore

// Rule H7: REPLACE deletes rows that are in the way of a unique index, or of the rowid, without firing their triggers. A table where this
// can happen has two more triggers each for INSERT and UPDATE. *Before*, the rows in conflict are noted under a *cause*, the text of the
// new row's values in those indexes; *after*, those that are gone are recorded as deleted, and the notes of the cause are deleted. A table
// that cascades to itself also notes before an update and looks when a row is deleted. No statement of a trigger has a conflict clause,
// because that of the outer statement would replace it.

/// The triggers that detect which rows REPLACE deletes (rule H7).
///
/// An update that noted no rows does not look for notes. Otherwise it could find old notes, or the notes of an outer write that caused the
/// update by a foreign key's SET NULL.
package struct ReplaceGuards {
    /// The event after which notes are looked for.
    package enum Event {
        /// A row, `new`, has been written.
        case write
        /// The row that was being updated, `old`, has been deleted by a cascade.
        case cascade
    }

    let shape: TableShape
    /// Returns the statements that note rows under the cause: the rows `existing` that meet one of the conditions, but not the exception.
    let note: (_ conflicts: [String], _ cause: String, _ exception: String?, _ event: Event) -> String
    /// Returns the SQL condition that there are notes, or notes of the cause if one is given.
    let isNoted: (_ cause: String?) -> String
    /// Returns the statements that handle the noted rows that are gone, and delete the notes of this cause.
    let settle: (_ cause: String, _ event: Event) -> String

    package init(
        shape: TableShape,
        note: @escaping (_ conflicts: [String], _ cause: String, _ exception: String?, _ event: Event) -> String,
        isNoted: @escaping (_ cause: String?) -> String,
        settle: @escaping (_ cause: String, _ event: Event) -> String
    ) {
        self.shape = shape
        self.note = note
        self.isNoted = isNoted
        self.settle = settle
    }

    /// The text of each trigger after `CREATE TRIGGER` and the name, by a short name. There are no triggers if REPLACE deletes only rows
    /// with the key of the new row.
    package var triggers: [String: String] {
        var triggers: [String: String] = [:]
        if !conflicts.isEmpty { triggers.merge(guards) { $1 } }
        if shape.cascadesToItself { triggers.merge(cascadeGuards) { $1 } }
        return triggers
    }

    /// The conflicts that the guards cover. A new index is detected by a conflict that is not among them.
    package var coverage: [String] { (conflicts + (shape.cascadesToItself ? [keyConflict] : [])).sorted() }

    private var table: String { shape.name.sqlName }

    private var guards: [String: String] {
        [
            "note_insert": """
            BEFORE INSERT ON \(table)\(hasToNote) BEGIN
                \(note(conflicts, cause, nil, .write))
            END
            """,
            "replace_insert": """
            AFTER INSERT ON \(table) WHEN \(isNoted(nil)) BEGIN
                \(settle(cause, .write))
            END
            """,
            "note_update": """
            BEFORE UPDATE ON \(table) WHEN \(conflictsChange) BEGIN
                \(note(conflicts, cause, isOldRow, .write))
            END
            """,
            "replace_update": """
            AFTER UPDATE ON \(table) WHEN (\(conflictsChange)) AND \(isNoted(nil)) BEGIN
                \(settle(cause, .write))
            END
            """,
        ]
    }

    /// The deletion of a row in conflict may cascade to the row that is being updated. Then the update has no effect, and its AFTER
    /// triggers do not fire. Only the deletion of the updated row can be detected.
    private var cascadeGuards: [String: String] {
        [
            "note_cascade": """
            BEFORE UPDATE ON \(table) WHEN \(mayReplace) BEGIN
                \(note(conflicts + [keyConflict], cascadeCause, isOldRow, .cascade))
            END
            """,
            "replace_cascade": """
            AFTER DELETE ON \(table) WHEN \(isNoted(cascadeCause)) BEGIN
                \(settle(cascadeCause, .cascade))
            END
            """,
        ]
    }

    /// The cause of the notes that are taken before an update which may cascade to its own row. It begins with `cascadePrefix`.
    package var cascadeCause: String { "('\(Self.cascadePrefix)' || \(quotedOldKey))" }
    package static let cascadePrefix = "updating "

    /// The SQL condition, in an UPDATE trigger, that the update may replace another row.
    package var mayReplace: String {
        conflicts.isEmpty ? shape.keyChanges : "\(shape.keyChanges) OR \(conflictsChange)"
    }

    // MARK: Conflicts

    /// The SQL conditions for existing rows that are in conflict with the new row: by each unique index, and by the rowid. In a BEFORE
    /// INSERT trigger, a rowid that is not given is -1. A row that is noted for that reason still exists afterwards, so the note has no
    /// effect.
    private var conflicts: [String] {
        var conflicts = shape.uniqueIndexes.map { index in
            (index.terms.map(equality(of: index)) + condition(of: index)).joined(separator: " AND ")
        }
        // The value of a generated column is not known before the write. So these conditions select all rows that match the other terms.
        for index in shape.uniqueIndexes where !madeOfNull.isEmpty && index.columns == nil {
            let known = index.terms.filter {
                if case .column(let column, _) = $0 { !column.isGenerated } else { false }
            }
            let terms = ["(\(madeOfNull))"] + known.map(equality(of: index)) + condition(of: index)
            conflicts.append(terms.joined(separator: " AND "))
        }
        if let rowID = shape.rowIDBesideKey { conflicts.append("existing.\(rowID) = new.\(rowID)") }
        return conflicts
    }

    private func equality(of index: TableShape.UniqueIndex) -> (TableShape.UniqueIndex.Term) -> String {
        { term in
            switch term {
            case .column(let column, let collation):
                "existing.\(column.name.sqlName) = \(shape.newValue(column)) COLLATE \(collation.sqlName)"
            case .expression(let text):
                "(\(text)) = (SELECT \(text) FROM (SELECT \(newRow(index.columns ?? shape.columns))))"
            }
        }
    }

    private func condition(of index: TableShape.UniqueIndex) -> [String] { index.condition.map { ["(\($0))"] } ?? [] }

    /// The SQL condition that a generated column is still computed from a NULL that REPLACE will not write.
    private var madeOfNull: String {
        shape.replacedInGenerated.map { "new.\($0.name.sqlName) IS NULL" }.joined(separator: " OR ")
    }

    private var keyConflict: String {
        shape.key.map { column in
            let collation = column.keyCollation.map { " COLLATE \($0.sqlName)" } ?? ""
            return "existing.\(column.name.sqlName)\(collation) = \(shape.newValue(column))"
        }.joined(separator: " AND ")
    }

    private var isOldRow: String {
        shape.key.map { "existing.\($0.name.sqlName) COLLATE BINARY IS old.\($0.name.sqlName)" }
            .joined(separator: " AND ")
    }

    /// The values of the new row, with the names of its columns.
    private func newRow(_ columns: [TableShape.Column]) -> String {
        columns.map { "\(shape.newValue($0)) AS \($0.name.sqlName)" }.joined(separator: ", ")
    }

    /// The WHEN clause of the trigger that notes rows before an INSERT. Without unique indexes, it limits the cost of an insert to two
    /// lookups, because few inserts give a rowid beside the key. The trigger also runs if there are notes, because old notes of the same
    /// cause would be taken for its own.
    private var hasToNote: String {
        guard shape.uniqueIndexes.isEmpty else { return "" }
        let isTaken = "EXISTS (SELECT 1 FROM \(table) AS existing WHERE \(conflicts.joined(separator: " OR ")))"
        return " WHEN \(isTaken) OR \(isNoted(nil))"
    }

    /// The SQL condition, in an UPDATE trigger, that the row may have other conflicts than before.
    private var conflictsChange: String {
        let rowID = shape.rowIDBesideKey.map { ["old.\($0) <> new.\($0)"] } ?? []
        return (uniqueColumns.map(\.differs) + rowID).joined(separator: " OR ")
    }

    /// The columns that unique indexes depend on, or all columns if one of these is generated. In a BEFORE trigger a generated column is
    /// NULL, unless the triggers also name the columns that it is computed from.
    private var uniqueColumns: [TableShape.Column] {
        let lists = shape.uniqueIndexes.map(\.columns)
        if lists.contains(nil) { return shape.columns }
        var columns: [TableShape.Column] = []
        for column in lists.flatMap({ $0 ?? [] }) where !columns.contains(column) { columns.append(column) }
        return columns
    }

    // MARK: Causes

    /// An SQL expression that identifies the write of one row, before and after it, because nested triggers write other rows in between.
    /// Values that are not known before the write are left out. A key of one column is left out unless there is nothing else, because
    /// SQLite may choose it during the write.
    private var cause: String {
        let key = shape.key.count == 1 ? shape.key[0].name : nil
        let columns = shape.uniqueIndexes.isEmpty ? shape.key : uniqueColumns.filter { $0.name != key }
        var names: [String] = []
        for column in columns where isKnownBefore(column) {
            let value = shape.digest(shape.newValue(column))
            if !names.contains(value) { names.append(value) }
        }
        return names.isEmpty ? "''" : "(" + names.joined(separator: " || ',' || ") + ")"
    }

    private func isKnownBefore(_ column: TableShape.Column) -> Bool {
        if column.isGenerated { return shape.replacedInGenerated.isEmpty }
        return column.replacementOfNull?.isConstant ?? true
    }

    private var quotedOldKey: String {
        shape.key.map { shape.digest("old.\($0.name.sqlName)") }.joined(separator: " || ',' || ")
    }
}

extension TableShape {
    /// The SQL condition, in an UPDATE trigger, that the key of the row changes.
    package var keyChanges: String { key.map(\.differs).joined(separator: " OR ") }

    /// The new value of a column, as REPLACE will write it.
    package func newValue(_ column: Column) -> String {
        let value = "new.\(column.name.sqlName)"
        return column.replacementOfNull.map { "coalesce(\(value), \($0.sql))" } ?? value
    }

    /// Shortens a long value to its length, beginning and end, which distinguish it from most others. `quote` of the whole value more than
    /// doubles it, which may exceed SQLite's limit.
    package func digest(_ value: String) -> String {
        """
        CASE WHEN length(\(value)) > 1000
                THEN length(\(value)) || quote(substr(\(value), 1, 500)) || quote(substr(\(value), -500))
                ELSE quote(\(value)) END
        """
    }
}

extension TableShape.Column {
    /// The SQL condition, in an UPDATE trigger, that the column changes. The column's collation is not used, because it may treat 'a' and
    /// 'A' as equal, or may be unknown to the writing program.
    var differs: String { "old.\(name.sqlName) COLLATE BINARY IS NOT new.\(name.sqlName)" }

    /// The SQL condition, in an UPDATE trigger, that the column changes, or that its type does. 3 and 3.0 compare equal, but differ in
    /// type.
    package var changes: String {
        guard affinity == .blob else { return differs }
        return "\(differs) OR typeof(old.\(name.sqlName)) <> typeof(new.\(name.sqlName))"
    }
}
