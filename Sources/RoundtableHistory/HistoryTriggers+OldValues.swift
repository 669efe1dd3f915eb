import RoundtableCore
import RoundtableTables

// Rule H14: Triggers of generation 3 record a row's old values with `delete` if its key is gone, else as `insert`, because a younger
// trigger has inserted another row with the key. Rows that REPLACE deletes by their key are noted too, with their values and the highest
// `sequence`; `displace`, which is older than `insert` and fires after it, records the new row in their place. A note whose row was
// recorded since, with the same values, is not recorded again. `update` records the values of columns with `updates`, whether or not they
// differ.

// Rule H14a: So each value of a kept column that leaves the table, with its row or by a row that takes its place, is in exactly one row of
// the history, whose `operation` is `delete` or `insert`. If the key of a row changes, the `delete` of the old key has the values, although
// the row is still there. Not recorded is the second row that an UPDATE replaces, if the deletion of the first one cascades to the updated
// row: SQLite deletes it afterwards, and fires no trigger.

/// The triggers of a table whose old values are kept (rules H13, H14).
///
/// REPLACE deletes the row with the key of the new one without firing its DELETE trigger. So that row is noted before the write, under a
/// cause that is made of the key, as `ReplaceGuards` notes the rows of other conflicts.
extension HistoryTriggers {
    /// The length of the longest value that is kept, in bytes: those of a text are counted in the encoding of the database.
    static let longestValue = 1_000_000

    var keepingTriggers: [String: String] {
        recordingTriggers.merging(shape.cascadesToItself ? cascadeTriggers : [:]) { $1 }
    }

    private var recordingTriggers: [String: String] {
        [
            "insert": """
            AFTER INSERT ON \(table) WHEN \(isThere) AND NOT \(isNoted(nil)) BEGIN
                INSERT INTO roundtable_history (table_id, operation, row_key) VALUES (\(id), 'insert', \(keyValue("new")));
            END
            """,
            // In place of `insert` if there are notes. It is older, so it fires later, and `insert` has seen the notes that it deletes.
            "displace": """
            AFTER INSERT ON \(table) WHEN \(isNoted(nil)) BEGIN
                \(recordNewRow)
            END
            """,
            "update": """
            AFTER UPDATE ON \(table) WHEN NOT (\(shape.keyChanges)) AND \(isThere) BEGIN
                INSERT INTO roundtable_history (table_id, operation, row_key, columns, old_values)
                    VALUES (\(id), 'update', \(keyValue("new")), \(mask ?? "NULL"), \(updatedValues));
                \(forgetUpdated)\(refreshCascaded)
            END
            """,
            "move": """
            AFTER UPDATE ON \(table) WHEN \(shape.keyChanges) BEGIN
                \(recordWithValues) VALUES (\(id), \(deletion), \(keyValue("old")), \(oldValues("old")));
                \(recordNewRow)
            END
            """,
            "delete": """
            AFTER DELETE ON \(table) BEGIN
                \(recordWithValues) VALUES (\(id), \(deletion), \(keyValue("old")), \(oldValues("old")));
            END
            """,
            "note_key": """
            BEFORE INSERT ON \(table) WHEN EXISTS (SELECT 1 FROM \(table) AS existing WHERE \(hasNewKey)) OR \(isNoted(nil)) BEGIN
                \(note([hasNewKey], keyCause(before: true), except: nil, for: .write))
            END
            """,
            "note_move": """
            BEFORE UPDATE ON \(table) WHEN \(shape.keyChanges) BEGIN
                \(note([hasNewKey], keyCause(before: true), except: nil, for: .write))
            END
            """,
        ]
    }

    private var recordWithValues: String {
        "INSERT INTO roundtable_history (table_id, operation, row_key, old_values)"
    }

    /// Records a row with the values of the one that it has replaced. A younger trigger may have deleted it already.
    private var recordNewRow: String {
        """
        \(recordWithValues) SELECT \(id), 'insert', \(keyValue("new")), \(replacedValues) WHERE \(isThere);
            \(recordWithValues) SELECT \(id), 'delete', \(keyValue("new")), \(replacedValues) WHERE NOT \(isThere) AND \(hasReplaced);
            \(forgetReplaced)
        """
    }

    /// The operation of a row that was deleted. A younger trigger may have inserted another row with its key.
    private var deletion: String { "CASE WHEN \(isGone) THEN 'delete' ELSE 'insert' END" }

    // MARK: Values

    /// The values of the kept columns as a list: for each column its id and its literal, each followed by a comma. A value that is too long
    /// is left out.
    func oldValues(_ row: String) -> String { values(row, of: kept.filter(\.isKept)) }

    private var updatedValues: String {
        let columns = kept.filter { $0.keep == .updates }
        return columns.isEmpty ? "NULL" : values("old", of: columns)
    }

    private func values(_ row: String, of columns: [KeptColumn]) -> String {
        columns.map { column in
            let value = "\(row).\(column.name.sqlName)"
            // The `length` of a text is that in characters, and ends at the first NUL.
            return """
                CASE WHEN length(CAST(\(value) AS BLOB)) > \(Self.longestValue) THEN '' \
                ELSE '\(column.id),' || \(literal(value)) || ',' END
                """
        }.joined(separator: "\n            || ")
    }

    // Rule H13c: SQLite renames columns within triggers. So the present name of a kept column is the one in the text of the `delete`
    // trigger: the token after the tokens `'ID,' || CASE WHEN typeof(old.` with its id, unquoted. The text is split into tokens as SQLite
    // does it, because a name may contain any text. If the table has no such column, it is no longer kept, and a gap is put (H8). Dropping
    // a kept column is refused by SQLite, until it is no longer kept.

    /// The present names of the kept columns by their ids, from the text of the `delete` trigger (rule H13c).
    static func columnNames(inDeletion trigger: String) -> [Int: String] {
        let tokens = IndexDefinition.tokens(trigger).filter { !IndexDefinition.isSpace($0) }
        var names: [Int: String] = [:]
        for index in tokens.indices {
            let rest = tokens[(index + 1)...]
            guard rest.starts(with: tokensBeforeName), let name = rest.dropFirst(tokensBeforeName.count).first else {
                continue
            }
            let mark = tokens[index]
            if mark.hasPrefix("'"), mark.hasSuffix(",'"), let id = Int(mark.dropFirst().dropLast(2)) {
                names[id] = IndexDefinition.content(name)
            }
        }
        return names
    }

    /// The tokens between the id of a column and its name: the beginning of `literal(_:)`, in all generations that keep values.
    private static let tokensBeforeName: [Substring] = ["|", "|", "CASE", "WHEN", "typeof", "(", "old", "."]

    // MARK: Rows with the key of the new row

    /// Whether the row `existing` has the key that the new row will have.
    private var hasNewKey: String {
        shape.key.map { equals($0, "=", shape.newValue($0)) }.joined(separator: " AND ")
    }

    private func keyCause(before: Bool) -> String {
        let key = shape.key.map { shape.digest(before ? shape.newValue($0) : "new.\($0.name.sqlName)") }
        return "('replacing ' || \(key.joined(separator: " || ',' || ")))"
    }

    /// The notes of the row that the new one has replaced. A deletion that was recorded meanwhile, because its trigger fired, is not
    /// recorded again.
    private var replacedNotes: String {
        """
        roundtable_history_conflicts AS noted WHERE noted.table_id = \(id) AND noted.cause = \(keyCause(before: false)) \
        AND noted.row_key IS \(keyValue("new")) AND \(isUnrecorded)
        """
    }

    private var replacedValues: String { "(SELECT noted.old_values FROM \(replacedNotes))" }
    private var hasReplaced: String { "EXISTS (SELECT 1 FROM \(replacedNotes))" }

    private var forgetReplaced: String { forget(keyCause(before: false)) }

    /// Deletes the note that UPSERT leaves. A note with other values is of a row that REPLACE has deleted: a younger trigger has updated the
    /// new row before it was recorded.
    private var forgetUpdated: String {
        """
        DELETE FROM roundtable_history_conflicts WHERE table_id = \(id) AND cause = \(keyCause(before: false)) \
        AND old_values IS \(oldValues("old"));
        """
    }

    /// Whether it was not recorded since the row `noted` was noted that this row is gone, be it as deleted or as replaced.
    var isUnrecorded: String {
        """
        NOT EXISTS (SELECT 1 FROM roundtable_history AS later WHERE later.sequence > noted.noted_after \
        AND later.table_id = \(id) AND later.operation IN ('delete', 'insert') AND later.row_key IS noted.row_key \
        AND later.old_values IS noted.old_values)
        """
    }

    /// Whether the row `noted` has the key of the new row, so that its replacement is recorded as that row's insertion.
    var isReplacedByKey: String {
        """
        EXISTS (SELECT 1 FROM roundtable_history_conflicts AS replaced WHERE replaced.table_id = \(id) \
        AND replaced.cause = \(keyCause(before: false)) AND replaced.row_key IS noted.row_key)
        """
    }

    // MARK: Rows whose deletion cascades to the row that is being updated

    // Rule H14b: In a table that cascades to itself, a note is looked for when the row is deleted, by whichever statement: IGNORE and FAIL
    // leave notes of updates that did nothing. So a note stays true: it names a row that is there with these values, or is gone without a
    // record, or has a record since. `update` puts the new values into the notes that name the row; `note_delete` deletes those of a row
    // whose own trigger records it; `note_cascade` and `cancel_cascade` delete the notes of the cause but those of rows that are gone
    // without a record.

    /// The triggers that keep the notes of `ReplaceGuards.cascadeCause` true (rule H14b).
    private var cascadeTriggers: [String: String] {
        let cause = replaceGuards.cascadeCause
        return [
            // The row's own triggers will record it, after those of the rows that its deletion cascades to.
            "note_delete": """
            BEFORE DELETE ON \(table) WHEN \(isNoted(nil)) BEGIN
                DELETE FROM roundtable_history_conflicts WHERE \(areCascaded("old"));
            END
            """,
            // No cascade has deleted the updated row. This trigger is the oldest, so the replaced rows are recorded before it fires.
            "cancel_cascade": """
            AFTER UPDATE ON \(table) WHEN (\(replaceGuards.mayReplace)) AND \(isNoted(cause)) BEGIN
                \(forgetCascaded)
            END
            """,
        ]
    }

    /// Deletes the notes of this update, and those that earlier updates of the row have left. A row that is gone without a record was
    /// replaced by an outer update of the same row, whose notes stay.
    var forgetCascaded: String {
        let cause = replaceGuards.cascadeCause
        return """
            DELETE FROM roundtable_history_conflicts WHERE table_id = \(id) AND cause = \(cause) AND rowid NOT IN (
                    SELECT noted.rowid FROM roundtable_history_conflicts AS noted
                    WHERE noted.table_id = \(id) AND noted.cause = \(cause)
                    AND \(isNotedRowGone)
                    AND \(isUnrecorded));
            """
    }

    private var refreshCascaded: String {
        guard shape.cascadesToItself else { return "" }
        return """

                UPDATE roundtable_history_conflicts SET old_values = \(oldValues("new")) WHERE \(areCascaded("old"));
            """
    }

    /// The SQL condition for notes of cascades that name this row, with these values.
    private func areCascaded(_ row: String) -> String {
        // All causes that begin with the prefix, and no others: `!` follows the space.
        let (prefix, end) = (ReplaceGuards.cascadePrefix, ReplaceGuards.cascadePrefix.dropLast() + "!")
        return """
            table_id = \(id) AND cause >= '\(prefix)' AND cause < '\(end)' AND row_key IS \(keyValue(row)) \
            AND old_values IS \(oldValues(row))
            """
    }
}
