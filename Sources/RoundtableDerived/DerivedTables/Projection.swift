import GRDB
import RoundtableCore
import RoundtableTables

// Rule E3: Triggers of the base table refresh: after INSERT the new key; after DELETE the old one; after UPDATE both, if a column of the
// key, or one that an expression names, changes bytewise, or in its type. They are plain SQL, without a conflict clause, and run for every
// program that writes. Rows that REPLACE deletes are noted and looked for as H7 says; a note has the time of its statement, and older ones
// are deleted first. Rows with a NULL in their primary key are in no projection. Keys are compared by the collation of the key's index.

/// The SQL of one derived table for the current shape of its base table (rules E2, E3).
package struct Projection {
    let name: String
    let definition: DerivedTableDefinition
    let shape: TableShape
    /// The schema that holds its tables: `main`, or `temp` for a temporary derived table.
    let schema: String

    /// The version of the generated SQL. It is raised when the text of the triggers changes, or the SQL that a kind of derived table generates
    /// from its declaration.
    static let generation = 1
    /// The rowid column of a projection whose base table has no INTEGER PRIMARY KEY.
    static let rowID = "roundtable_rowid"
    /// The columns of the notes table (rule E3).
    private static let cause = "roundtable_cause"
    private static let moment = "roundtable_moment"

    init(_ described: DescribedDerivedTable, _ shape: TableShape, in schema: String = "main") {
        name = described.name
        definition = described.definition
        self.shape = shape
        self.schema = schema
    }

    var table: String { DerivedTableNames.projection(name).sqlName }
    private var notes: String { DerivedTableNames.part(name, "notes").sqlName }
    private var building: String { DerivedTableNames.part(name, "building").sqlName }
    private var base: String { shape.name.sqlName }
    private var keys: [String] { shape.key.map(\.name.sqlName) }

    // MARK: Tables

    /// The statements that create the tables and indexes of the derived table, without the triggers.
    var creations: [String] {
        let columns = definition.columns.map { column in
            column.name.sqlName + (column.collation.map { " COLLATE \($0.sqlName)" } ?? "")
        }
        var statements = [
            "CREATE TABLE \(schema).\(table) (\((keyColumns(isPrimary: true) + columns + uniqueKey).joined(separator: ", ")))"
        ]
        if hasNotes, !isTemporary {
            let columns =
                ["\(Self.cause) TEXT NOT NULL", "\(Self.moment) REAL NOT NULL"] + keyColumns(isPrimary: false)
            statements.append("CREATE TABLE \(schema).\(notes) (\(columns.joined(separator: ", ")))")
            for (part, column) in [("notes_cause", Self.cause), ("notes_moment", Self.moment)] {
                let index = DerivedTableNames.part(name, part).sqlName
                statements.append("CREATE INDEX \(schema).\(index) ON \(notes) (\(column))")
            }
        }
        for (number, index) in definition.indexes.enumerated() {
            let name = DerivedTableNames.part(name, "index_\(number + 1)").sqlName
            let terms = index.terms.flatMap { $0 == DerivedTableDefinition.Index.key ? keys : [Self.term($0)] }
            statements.append("CREATE INDEX \(schema).\(name) ON \(table) (\(terms.joined(separator: ", ")))")
        }
        statements += definition.parts.flatMap(\.create).map(expanded)
        // A temporary derived table is derived in one step, so it needs no building position.
        if !isTemporary {
            let columns = keyColumns(isPrimary: false).joined(separator: ", ")
            statements.append("CREATE TABLE \(schema).\(building) (\(columns))")
        }
        return statements
    }

    /// The key columns have the affinities and collations of the base table's primary key. So values are stored unchanged, and comparisons
    /// between the two tables use their indexes.
    private func keyColumns(isPrimary: Bool) -> [String] {
        if shape.hasIntegerKey { return ["\(keys[0]) INTEGER\(isPrimary ? " PRIMARY KEY" : "")"] }
        let columns = shape.key.map { key in
            "\(key.name.sqlName) \(key.affinity.rawValue) COLLATE \((key.keyCollation ?? "BINARY").sqlName)"
        }
        // The table is not WITHOUT ROWID, because SQLite's update hook does not report changes to such tables.
        return (isPrimary ? ["\(Self.rowID) INTEGER PRIMARY KEY"] : []) + columns
    }

    private var uniqueKey: [String] {
        shape.hasIntegerKey ? [] : ["UNIQUE (\(keys.joined(separator: ", ")))"]
    }

    /// Returns a term of an index with its column name quoted.
    static func term(_ text: String) -> String {
        let upper = text.uppercased()
        for order in [" DESC", " ASC"] where upper.hasSuffix(order) {
            return String(text.dropLast(order.count)).sqlName + order
        }
        return text.sqlName
    }

    // MARK: Triggers

    private var isTemporary: Bool { schema == "temp" }

    /// The CREATE TRIGGER statements, by trigger name. A temporary derived table has no triggers on the base table.
    var triggers: [String: String] {
        var texts = onTop
        if !isTemporary {
            texts.merge(refreshing) { $1 }
            texts.merge(replaceGuards.triggers) { $1 }
        }
        return Dictionary(
            uniqueKeysWithValues: texts.map { part, text in
                let name = DerivedTableNames.part(name, part)
                return (name, "CREATE TRIGGER \(name.sqlName) \(text)")
            }
        )
    }

    /// The triggers that fire before a row is written. They should be older than other triggers, because SQLite fires the oldest trigger
    /// last (rule E7).
    var notingTriggers: [String: String] { triggers.filter { !OtherTrigger($0.value).isAfter } }

    /// The parts whose triggers must exist. Without them, changes to the base table are missed.
    package static let indispensableTriggers = ["insert", "move", "delete"]

    private var refreshing: [String: String] {
        let isMoved = shape.key.map(\.changes).joined(separator: " OR ")
        var triggers = [
            "insert": """
            AFTER INSERT ON \(base) BEGIN
                \(refresh("new"))
            END
            """,
            "move": """
            AFTER UPDATE ON \(base) WHEN \(isMoved) BEGIN
                \(refresh("old"))
                \(refresh("new"))
            END
            """,
            "delete": """
            AFTER DELETE ON \(base) BEGIN
                \(refresh("old"))
            END
            """,
        ]
        let isChanged = usedColumns.map(\.changes).joined(separator: " OR ")
        if !isChanged.isEmpty {
            triggers["update"] = """
                AFTER UPDATE ON \(base) WHEN NOT (\(isMoved)) AND (\(isChanged)) BEGIN
                    \(refresh("new"))
                END
                """
        }
        let touched = definition.parts.flatMap(\.touched)
        if !touched.isEmpty {
            let others = isChanged.isEmpty ? "" : " AND NOT (\(isChanged))"
            let isTaken = "EXISTS (SELECT 1 FROM \(table) AS taken WHERE \(equal("taken", "new")))"
            triggers["touch"] = """
                AFTER UPDATE ON \(base) WHEN NOT (\(isMoved))\(others) AND \(isTaken) BEGIN
                    \(list(touched))
                END
                """
        }
        return triggers
    }

    private var onTop: [String: String] {
        var triggers: [String: String] = [:]
        let inserted = definition.parts.flatMap(\.inserted)
        if !inserted.isEmpty {
            triggers["inserted"] = "AFTER INSERT ON \(table) BEGIN\n    \(list(inserted))\nEND"
        }
        let deleted = definition.parts.flatMap(\.deleted)
        if !deleted.isEmpty {
            triggers["deleted"] = "AFTER DELETE ON \(table) BEGIN\n    \(list(deleted))\nEND"
        }
        return triggers
    }

    private func list(_ statements: [String]) -> String {
        statements.map { "\(expanded($0));" }.joined(separator: "\n    ")
    }

    /// Returns a statement of a part with its placeholders replaced.
    private func expanded(_ statement: String) -> String {
        let values = { (row: String) in keys.map { "\(row).\($0)" }.joined(separator: ", ") }
        let placeholders = [
            "schema": schema,
            "rowid": shape.hasIntegerKey ? keys[0] : Self.rowID,
            "keys": keys.joined(separator: ", "),
            "new.keys": values("new"),
            "old.keys": values("old"),
            "key columns": keyColumns(isPrimary: false).joined(separator: ", "),
        ]
        // In one pass, because a column may have the name of a placeholder.
        return statement.replacing(/\{([a-z. ]+)\}/) { match in placeholders[String(match.1)] ?? String(match.0) }
    }

    /// The columns of the base table that the expressions name, or may name.
    private var usedColumns: [TableShape.Column] {
        let texts = definition.columns.map(\.expression) + [definition.filter ?? ""]
        let names = IndexDefinition.names(in: texts)
        return shape.columns.filter { names.contains($0.name.lowercased()) }
    }

    /// The SQL condition that two rows, given by table names or aliases, have the same key.
    private func equal(_ one: String, _ other: String) -> String {
        shape.key.map { key in
            let name = key.name.sqlName
            // The comparison uses the collation of the primary key's index, because the column may declare another one.
            let collation = key.keyCollation.map { " COLLATE \($0.sqlName)" } ?? ""
            return "\(one).\(name)\(collation) = \(other).\(name)"
        }.joined(separator: " AND ")
    }

    // Rule E2: A row of the projection is a function of its row of the base table, by deterministic expressions of that row alone.
    // *Refreshing* a key deletes the projection's row of that key, and inserts the row that follows from what is in the base table now, if
    // one does. So it does not matter how often, in which order, or around which other triggers a key is refreshed, as long as it is
    // refreshed after the last change. An expression is tried as an index of a temporary table, because SQLite refuses functions there that
    // are not deterministic.

    /// The statements that refresh one row of the projection (rule E2).
    private func refresh(_ row: String) -> String {
        """
        DELETE FROM \(table) WHERE \(equal(table, row));
            \(derivation(from: base)) AND \(equal(base, row));
        """
    }

    /// The INSERT statement that derives rows of the projection from rows of the base table. It has no conflict clause. The caller may
    /// append conditions.
    private func derivation(from base: String) -> String {
        let names = keys + definition.columns.map(\.name.sqlName)
        let values = keys.map { "\(base).\($0)" } + definition.columns.map { "(\($0.expression))" }
        let conditions = keys.map { "\(base).\($0) IS NOT NULL" } + (definition.filter.map { ["(\($0))"] } ?? [])
        return """
            INSERT INTO \(table) (\(names.joined(separator: ", "))) SELECT \(values.joined(separator: ", ")) FROM \(base) \
            WHERE \(conditions.joined(separator: " AND "))
            """
    }

    // MARK: Rows deleted by REPLACE

    private var hasNotes: Bool { !replaceGuards.triggers.isEmpty }

    private var replaceGuards: ReplaceGuards {
        let list = keys.joined(separator: ", ")
        // This time is constant within a statement, including nested triggers. So an older note was left by a finished statement.
        let now = "julianday('now')"
        return ReplaceGuards(
            shape: shape,
            note: { conflicts, cause, exception, _ in
                let selections = conflicts.map { conflict in
                    """
                    SELECT \(cause), \(now), \(keys.map { "existing.\($0)" }.joined(separator: ", ")) FROM \(base) AS existing
                            WHERE \(conflict)\(exception.map { " AND NOT (\($0))" } ?? "")
                    """
                }
                return """
                    DELETE FROM \(notes) WHERE \(Self.moment) < \(now);
                        DELETE FROM \(notes) WHERE \(Self.cause) = \(cause);
                        INSERT INTO \(notes) (\(Self.cause), \(Self.moment), \(list))
                            \(selections.joined(separator: "\n        UNION "));
                    """
            },
            isNoted: { cause in
                "EXISTS (SELECT 1 FROM \(notes)\(cause.map { " WHERE \(Self.cause) = \($0)" } ?? ""))"
            },
            settle: { cause, _ in
                """
                DELETE FROM \(table) WHERE (\(list)) IN (SELECT \(list) FROM \(notes) WHERE \(Self.cause) = \(cause))
                        AND NOT EXISTS (SELECT 1 FROM \(base) AS existing WHERE \(equal("existing", table)));
                    DELETE FROM \(notes) WHERE \(Self.cause) = \(cause);
                """
            }
        )
    }

    // MARK: Building

    /// Derives all rows with one statement. The tables must be empty.
    func fill(_ db: Database) throws { try db.execute(sql: derivation(from: "main.\(base)")) }

    /// Derives from the next rows of the base table (rule E6). Must be called inside a write transaction.
    ///
    /// The key of the building position is stored and compared in SQL only, because a conversion to a Swift string may change a text.
    ///
    /// - returns: whether more rows may remain.
    func build(_ db: Database, count: Int) throws -> Bool {
        let list = keys.joined(separator: ", ")
        let hasBegun = try hasPosition(db)
        let end = key(at: count, hasBegun)
        let hasMore = try Bool.fetchOne(db, sql: "SELECT EXISTS (\(end))") ?? false
        // The schema is named, because a temporary table may have the same name.
        let source = "main.\(base)"
        let names = keys.map { "\(source).\($0)" }.joined(separator: ", ")
        // Rows that a trigger has already derived are skipped. The alias is a name that no other table has.
        var conditions =
            " AND NOT EXISTS (SELECT 1 FROM main.\(table) AS roundtable_taken WHERE \(equal("roundtable_taken", source)))"
        if hasBegun { conditions += " AND (\(names)) > (SELECT \(list) FROM main.\(building))" }
        if hasMore { conditions += " AND (\(names)) <= (\(end))" }
        try db.execute(sql: derivation(from: source) + conditions)
        guard hasMore else { return false }
        try db.execute(
            sql: hasBegun
                ? "UPDATE main.\(building) SET (\(list)) = (\(end))" : "INSERT INTO main.\(building) (\(list)) \(end)"
        )
        return true
    }

    private func hasPosition(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(building))") ?? false
    }

    /// The query for the key of the row that is `count` rows after the building position.
    private func key(at count: Int, _ hasBegun: Bool) -> String {
        "\(laterKeys(hasBegun)) ORDER BY \(keys.joined(separator: ", ")) LIMIT 1 OFFSET \(count - 1)"
    }

    private func laterKeys(_ hasBegun: Bool) -> String {
        let list = keys.joined(separator: ", ")
        let isWhole = keys.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")
        let later = hasBegun ? " AND (\(list)) > (SELECT \(list) FROM main.\(building))" : ""
        return "SELECT \(list) FROM main.\(base) WHERE \(isWhole)\(later)"
    }

    /// Returns the key range of the next rows as SQL literals. `after` is exclusive, and nil at the beginning of the table. `upTo` is
    /// inclusive, and nil at its end.
    func nextKeys(_ db: Database, count: Int) throws -> (after: String?, upTo: String?) {
        let hasBegun = try hasPosition(db)
        let quoted = keys.map { "quote(\($0))" }.joined(separator: " || ', ' || ")
        return (
            try String.fetchOne(db, sql: "SELECT \(quoted) FROM main.\(building)"),
            try String.fetchOne(db, sql: "SELECT \(quoted) FROM (\(key(at: count, hasBegun)))")
        )
    }

    /// Counts the rows after the building position.
    func rest(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM (\(laterKeys(try hasPosition(db))))") ?? 0
    }

    /// Removes the building position after all rows are derived.
    func endBuilding(_ db: Database) throws {
        try db.execute(sql: "DROP TABLE IF EXISTS main.\(building)")
    }
}
