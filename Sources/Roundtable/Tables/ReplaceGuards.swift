/// The triggers that notice which rows REPLACE deletes, which it does without firing theirs: the rows in conflict with a new one are noted
/// before it is written, and looked for afterwards. Those that are gone were deleted (rule H7).
///
/// An update that took no notes looks for none: it may have found those of the row that is being written around it, by way of a foreign
/// key's SET NULL, or old ones.
struct ReplaceGuards {
    let shape: TableShape
    /// A statement that notes the rows `existing` that meet one of these conditions, and not the exception, under the cause.
    let note: (_ conflicts: [String], _ cause: String, _ exception: String?) -> String
    /// Whether anything is noted; under the cause, if one is given.
    let isNoted: (_ cause: String?) -> String
    /// Statements that deal with those of the noted rows that are gone, and forget the notes of this cause.
    let settle: (_ cause: String) -> String

    /// What follows `CREATE TRIGGER` and the name, by a short name; none where REPLACE deletes only rows whose key is written anew.
    var triggers: [String: String] {
        var triggers: [String: String] = [:]
        if !conflicts.isEmpty { triggers.merge(guards) { $1 } }
        if shape.cascadesToItself { triggers.merge(cascadeGuards) { $1 } }
        return triggers
    }

    /// What the guards cover, to tell whether an index came that they do not.
    var coverage: [String] { (conflicts + (shape.cascadesToItself ? [keyConflict] : [])).sorted() }

    private var table: String { shape.name.sqlName }

    private var guards: [String: String] {
        [
            "note_insert": """
            BEFORE INSERT ON \(table)\(hasToNote) BEGIN
                \(note(conflicts, cause, nil))
            END
            """,
            "replace_insert": """
            AFTER INSERT ON \(table) WHEN \(isNoted(nil)) BEGIN
                \(settle(cause))
            END
            """,
            "note_update": """
            BEFORE UPDATE ON \(table) WHEN \(conflictsChange) BEGIN
                \(note(conflicts, cause, isOldRow))
            END
            """,
            "replace_update": """
            AFTER UPDATE ON \(table) WHEN (\(conflictsChange)) AND \(isNoted(nil)) BEGIN
                \(settle(cause))
            END
            """,
        ]
    }

    /// When the deletion of a row in conflict cascades to the very row that is being updated, the update comes to nothing, and
    /// its AFTER triggers do not fire. That the row goes is what is left to be noticed.
    private var cascadeGuards: [String: String] {
        let updated = "('updating ' || \(quotedOldKey))"
        let changed = conflicts.isEmpty ? shape.keyChanges : "\(shape.keyChanges) OR \(conflictsChange)"
        return [
            "note_cascade": """
            BEFORE UPDATE ON \(table) WHEN \(changed) BEGIN
                \(note(conflicts + [keyConflict], updated, isOldRow))
            END
            """,
            "replace_cascade": """
            AFTER DELETE ON \(table) WHEN \(isNoted(updated)) BEGIN
                \(settle(updated))
            END
            """,
        ]
    }

    // MARK: Conflicts

    /// Which existing rows are in conflict with the new one: by each unique index, and by the rowid. In a BEFORE INSERT trigger that is -1
    /// where it is not given; what is noted by it then is found again.
    private var conflicts: [String] {
        var conflicts = shape.uniqueIndexes.map { index in
            (index.terms.map(equality(of: index)) + condition(of: index)).joined(separator: " AND ")
        }
        // Of all rows, those that the other terms leave: nothing is known of the generated column before.
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
                "existing.\(column.name.sqlName) = \(newValue(column)) COLLATE \(collation.sqlName)"
            case .expression(let text):
                "(\(text)) = (SELECT \(text) FROM (SELECT \(newRow(index.columns ?? shape.columns))))"
            }
        }
    }

    private func condition(of index: TableShape.UniqueIndex) -> [String] { index.condition.map { ["(\($0))"] } ?? [] }

    /// Whether a generated column is still made of a NULL that REPLACE will not write.
    private var madeOfNull: String {
        shape.replacedInGenerated.map { "new.\($0.name.sqlName) IS NULL" }.joined(separator: " OR ")
    }

    private var keyConflict: String {
        shape.key.map { column in
            let collation = column.keyCollation.map { " COLLATE \($0.sqlName)" } ?? ""
            return "existing.\(column.name.sqlName)\(collation) = \(newValue(column))"
        }.joined(separator: " AND ")
    }

    private var isOldRow: String {
        shape.key.map { "existing.\($0.name.sqlName) COLLATE BINARY IS old.\($0.name.sqlName)" }
            .joined(separator: " AND ")
    }

    /// The new row, with its columns' names.
    private func newRow(_ columns: [TableShape.Column]) -> String {
        columns.map { "\(newValue($0)) AS \($0.name.sqlName)" }.joined(separator: ", ")
    }

    /// As REPLACE will write it.
    private func newValue(_ column: TableShape.Column) -> String {
        let value = "new.\(column.name.sqlName)"
        return column.replacementOfNull.map { "coalesce(\(value), \($0.sql))" } ?? value
    }

    /// Few give a rowid beside the key: without unique indexes, an insert is to cost no more than two questions. Old notes of its cause would
    /// be taken for its own.
    private var hasToNote: String {
        guard shape.uniqueIndexes.isEmpty else { return "" }
        let isTaken = "EXISTS (SELECT 1 FROM \(table) AS existing WHERE \(conflicts.joined(separator: " OR ")))"
        return " WHEN \(isTaken) OR \(isNoted(nil))"
    }

    /// Within a trigger of an update: whether there may be other conflicts.
    private var conflictsChange: String {
        let rowID = shape.rowIDBesideKey.map { ["old.\($0) <> new.\($0)"] } ?? []
        return (uniqueColumns.map(\.differs) + rowID).joined(separator: " OR ")
    }

    /// What unique indexes depend on. All columns when one of these is generated: in a BEFORE trigger a generated column is NULL, unless the
    /// triggers also name the columns that it is made of.
    private var uniqueColumns: [TableShape.Column] {
        let lists = shape.uniqueIndexes.map(\.columns)
        if lists.contains(nil) { return shape.columns }
        var columns: [TableShape.Column] = []
        for column in lists.flatMap({ $0 ?? [] }) where !columns.contains(column) { columns.append(column) }
        return columns
    }

    // MARK: Causes

    /// Tells the writing of one row from that of another, before and after it: triggers within triggers come in between. A
    /// key of one column is left out, because SQLite may choose it in between, unless there is nothing else; and what is not known before.
    private var cause: String {
        let key = shape.key.count == 1 ? shape.key[0].name : nil
        let columns = shape.uniqueIndexes.isEmpty ? shape.key : uniqueColumns.filter { $0.name != key }
        var names: [String] = []
        for column in columns where isKnownBefore(column) {
            let value = digest(newValue(column))
            if !names.contains(value) { names.append(value) }
        }
        return names.isEmpty ? "''" : "(" + names.joined(separator: " || ',' || ") + ")"
    }

    private func isKnownBefore(_ column: TableShape.Column) -> Bool {
        if column.isGenerated { return shape.replacedInGenerated.isEmpty }
        return column.replacementOfNull?.isConstant ?? true
    }

    private var quotedOldKey: String {
        shape.key.map { digest("old.\($0.name.sqlName)") }.joined(separator: " || ',' || ")
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
}

extension TableShape {
    /// Within a trigger of an update: whether it gives the row another key.
    var keyChanges: String { key.map(\.differs).joined(separator: " OR ") }
}

extension TableShape.Column {
    /// Within a trigger of an update: whether it changes the column. Not by its collation, to which 'a' may be 'A', or which the writing
    /// program may not know.
    var differs: String { "old.\(name.sqlName) COLLATE BINARY IS NOT new.\(name.sqlName)" }

    /// The same, and also whether 3 becomes 3.0, which are equal.
    var changes: String {
        guard affinity == .blob else { return differs }
        return "\(differs) OR typeof(old.\(name.sqlName)) <> typeof(new.\(name.sqlName))"
    }
}
