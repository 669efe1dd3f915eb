import GRDB

/// What the triggers of a tracked table depend on, as the table is now.
struct TableShape: Equatable {
    struct Column: Equatable {
        var name: String
        /// The default value that REPLACE puts in the place of a NULL, as SQL; nil where NULL is allowed.
        var replacementOfNull: String?
        var isGenerated = false
        /// Of the primary key's index; nil for a column that is not in one.
        var keyCollation: String?
    }

    /// A unique index by which REPLACE may delete rows with another key than the new one's.
    struct UniqueIndex: Equatable {
        enum Term: Equatable {
            case column(Column, collation: String)
            case expression(String)
        }
        var terms: [Term]
        /// The WHERE clause of a partial index.
        var condition: String?

        /// The columns that it depends on; nil when they may be any, as with expressions, of which a generated column is one.
        var columns: [Column]? {
            var columns: [Column] = []
            for term in terms {
                guard case .column(let column, _) = term, !column.isGenerated else { return nil }
                columns.append(column)
            }
            return condition == nil ? columns : nil
        }
    }

    let name: String
    /// Generated ones too; not the hidden ones of virtual tables.
    let columns: [Column]
    /// In the order of the primary key.
    let key: [Column]
    /// A name by which the rowid can be had; nil when there is none.
    let rowID: String?
    let uniqueIndexes: [UniqueIndex]
    /// Whether deleting one row may delete others by a foreign key, directly or by way of other tables.
    let cascadesToItself: Bool

    static let mostColumns = 62
}

extension TableShape {
    /// - throws: ``HistoryError/cannotTrack(path:table:reason:)``.
    init(_ db: Database, table: String) throws {
        func refusal(_ reason: String) -> HistoryError {
            .cannotTrack(path: db.filePath, table: table, reason: reason)
        }
        if table.lowercased().hasPrefix(HistoryTables.prefix) {
            throw refusal("names that begin with \(HistoryTables.prefix) are the history's own. Rename the table.")
        }
        if table.lowercased().hasPrefix("sqlite_") { throw refusal("it is a table of SQLite itself.") }
        let sql = """
            SELECT name, type, sql FROM main.sqlite_master
            WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE
            """
        guard let object = try Row.fetchOne(db, sql: sql, arguments: [table]) else {
            throw refusal("there is no such table in the main database.")
        }
        if object["type"] == "view" {
            throw refusal("it is a view. Enable the history of the tables that it selects from.")
        }
        if (object["sql"] as String?)?.uppercased().hasPrefix("CREATE VIRTUAL TABLE") == true {
            throw refusal(
                "it is a virtual table, which has no triggers. Enable that of the table that its content is from."
            )
        }
        name = object["name"]

        let keyCollations = try Self.keyCollations(db, table: name)
        var columns: [Column] = []
        var key: [(position: Int, column: Column)] = []
        let notHidden = try Row.fetchAll(db, sql: "PRAGMA main.table_xinfo(\(name.sqlName))").filter {
            $0["hidden"] != 1
        }
        for row in notHidden {
            let isNotNull: Bool = row["notnull"]
            var column = Column(
                name: row["name"],
                replacementOfNull: isNotNull ? row["dflt_value"] : nil,
                isGenerated: row["hidden"] > 1
            )
            column.keyCollation = keyCollations[column.name]
            columns.append(column)
            if row["pk"] > 0 { key.append((row["pk"], column)) }
        }
        guard !key.isEmpty else {
            throw refusal("it has no primary key, and VACUUM may change the rowid of a row. Give it a primary key.")
        }
        self.columns = columns
        self.key = key.sorted { $0.position < $1.position }.map(\.column)
        rowID = try Self.rowID(db, table: name, columns: columns)
        uniqueIndexes = try Self.uniqueIndexes(db, table: name, columns: columns)
        cascadesToItself = try Self.cascadesToItself(db, table: name)
    }

    private static func rowID(_ db: Database, table: String, columns: [Column]) throws -> String? {
        let taken = Set(columns.map { $0.name.lowercased() })
        return ["rowid", "_rowid_", "oid"].first { name in
            !taken.contains(name) && (try? db.makeStatement(sql: "SELECT \(name) FROM main.\(table.sqlName)")) != nil
        }
    }

    private static func keyCollations(_ db: Database, table: String) throws -> [String: String] {
        let sql = """
            SELECT term.name, term.coll
            FROM pragma_index_list(?, 'main') AS list, pragma_index_xinfo(list.name, 'main') AS term
            WHERE list.origin = 'pk' AND term.key
            """
        let rows = try Row.fetchAll(db, sql: sql, arguments: [table])
        return Dictionary(rows.map { ($0["name"], $0["coll"]) }) { first, _ in first }
    }

    private static func cascadesToItself(_ db: Database, table: String) throws -> Bool {
        let sql = """
            WITH RECURSIVE cascades(child, parent) AS (
                SELECT child.name, key."table"
                FROM main.sqlite_master AS child, pragma_foreign_key_list(child.name, 'main') AS key
                WHERE child.type = 'table' AND key.on_delete = 'CASCADE'
            ), reached(name) AS (
                SELECT child FROM cascades WHERE parent = :table COLLATE NOCASE
                UNION
                SELECT child FROM reached JOIN cascades ON parent = name COLLATE NOCASE
            )
            SELECT EXISTS (SELECT 1 FROM reached WHERE name = :table COLLATE NOCASE)
            """
        return try Bool.fetchOne(db, sql: sql, arguments: ["table": table]) ?? false
    }

    /// Without the primary key's, unless it takes different keys for the same.
    private static func uniqueIndexes(_ db: Database, table: String, columns: [Column]) throws -> [UniqueIndex] {
        let indexes = try Row.fetchAll(db, sql: "PRAGMA main.index_list(\(table.sqlName))").filter { $0["unique"] == 1 }
        return try indexes.compactMap { index in
            let name: String = index["name"]
            let rows = try Row.fetchAll(db, sql: "PRAGMA main.index_xinfo(\(name.sqlName))").filter { $0["key"] == 1 }
            let isBinary = rows.allSatisfy { ($0["coll"] as String?)?.uppercased() ?? "BINARY" == "BINARY" }
            if index["origin"] == "pk", isBinary { return nil }
            let sql = "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ?"
            let definition = try String.fetchOne(db, sql: sql, arguments: [name]).map(IndexDefinition.init)
            let terms = rows.map { row in
                let columnName: String? = row["name"]
                if let column = columns.first(where: { $0.name == columnName }) {
                    return UniqueIndex.Term.column(column, collation: row["coll"] ?? "BINARY")
                }
                return .expression(definition?.terms[safe: row["seqno"]] ?? "NULL")
            }
            return UniqueIndex(terms: terms, condition: definition?.condition)
        }
    }
}

extension Array {
    fileprivate subscript(safe index: Int) -> Element? { indices.contains(index) ? self[index] : nil }
}
