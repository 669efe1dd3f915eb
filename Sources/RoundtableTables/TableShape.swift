import GRDB
import RoundtableCore

/// The properties of a table, as it is now, that the triggers which follow its rows depend on.
package struct TableShape: Equatable {
    package struct Column: Equatable {
        package var name: String
        var type: String
        /// The affinity, which determines how stored values are converted.
        package var affinity: Affinity
        /// The value that REPLACE writes in place of a NULL, or nil if it writes none.
        var replacementOfNull: DefaultValue?
        var isGenerated = false
        /// The collation in the primary key's index, or nil for a column that is not in such an index.
        package var keyCollation: String?
    }

    /// A unique index by which REPLACE may delete rows whose key differs from that of the new row.
    struct UniqueIndex: Equatable {
        enum Term: Equatable {
            case column(Column, collation: String)
            case expression(String)
        }
        var terms: [Term]
        /// The WHERE clause of a partial index.
        var condition: String?

        /// The columns that the index depends on, or nil if it may depend on any, as when one of these is generated.
        var columns: [Column]?
    }

    package let name: String
    /// All columns, including generated ones, but not the hidden columns of virtual tables.
    package let columns: [Column]
    /// The columns of the primary key, in its order.
    package let key: [Column]
    /// A name of the rowid that no column hides, or nil if there is none.
    package let rowID: String?
    let uniqueIndexes: [UniqueIndex]
    /// The columns that generated columns are computed from, and in which REPLACE writes a default in place of a NULL.
    let replacedInGenerated: [Column]
    /// Whether deleting one row may delete others of the table by a foreign key, directly or through other tables.
    package let cascadesToItself: Bool

    /// The prefix of all names that are reserved for Roundtable.
    package static let reservedPrefix = "roundtable_"

    /// Whether the primary key is the rowid.
    package var hasIntegerKey: Bool { key.count == 1 && key[0].keyCollation == nil }

    /// A name of the rowid if the primary key is not the rowid. REPLACE may then delete a row with another key by its rowid.
    var rowIDBesideKey: String? { hasIntegerKey ? nil : rowID }
}

/// The reason why the rows of a table cannot be followed.
package struct UnsuitableTable: Error {
    package let table: String
    package let reason: String
}

extension TableShape {
    /// - throws: ``UnsuitableTable``.
    package init(_ db: Database, table: String) throws {
        func refusal(_ reason: String) -> UnsuitableTable { UnsuitableTable(table: table, reason: reason) }
        if table.lowercased().hasPrefix(Self.reservedPrefix) {
            throw refusal("names that begin with \(Self.reservedPrefix) are Roundtable's own. Rename the table.")
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
            throw refusal("it is a view. Name a table that it selects from.")
        }
        if (object["sql"] as String?)?.uppercased().hasPrefix("CREATE VIRTUAL TABLE") == true {
            throw refusal("it is a virtual table, which has no triggers. Name the table that its content is from.")
        }
        name = object["name"]

        let keyCollations = try Self.keyCollations(db, table: name)
        var columns: [Column] = []
        var key: [(position: Int, column: Column)] = []
        let notHidden = try Row.fetchAll(db, sql: "PRAGMA main.table_xinfo(\(name.sqlName))").filter {
            $0["hidden"] != 1
        }
        let isStrict = try Row.fetchAll(db, sql: "PRAGMA main.table_list(\(name.sqlName))").contains {
            $0["strict"] == 1
        }
        for row in notHidden {
            let isNotNull: Bool = row["notnull"]
            let affinity = Affinity(ofType: row["type"], inStrictTable: isStrict)
            let defaultValue: String? = isNotNull ? row["dflt_value"] : nil
            var column = Column(
                name: row["name"],
                type: row["type"],
                affinity: affinity,
                replacementOfNull: try defaultValue.map { try DefaultValue($0, in: affinity, db) },
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
        let generating = IndexDefinition.namesInGeneratedColumns(ofTable: object["sql"] ?? "")
        replacedInGenerated = columns.filter {
            $0.replacementOfNull != nil && generating.contains($0.name.lowercased())
        }
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

    /// Returns the unique indexes. The primary key's index is left out, unless its collation treats different keys as equal.
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
            var used = terms.compactMap { if case .column(let column, _) = $0 { column } else { nil } }
            let names = IndexDefinition.names(in: (definition?.terms ?? []) + [definition?.condition ?? ""])
            used += columns.filter { names.contains($0.name.lowercased()) && !used.contains($0) }
            let mayBeAny = used.contains(where: \.isGenerated) || terms.contains(.expression("NULL"))
            return UniqueIndex(terms: terms, condition: definition?.condition, columns: mayBeAny ? nil : used)
        }
    }
}

extension Array {
    fileprivate subscript(safe index: Int) -> Element? { indices.contains(index) ? self[index] : nil }
}
