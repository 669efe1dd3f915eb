import GRDB
import Roundtable

/// Derives the content of derived tables again from their base tables, by queries of its own.
package enum DerivedTableRecomputation {
    /// The differences between the content of the derived tables and what follows from their base tables; empty when there are none.
    ///
    /// - parameter words: the words that are searched in full-text indexes.
    package static func discrepancies(
        of derivedTables: [any DerivedTable],
        words: [String],
        _ db: Database
    ) throws -> [String] {
        try derivedTables.flatMap { one in
            let found = try discrepancies(ofProjection: one, db)
            switch one {
            case let sum as AggregateTable: return found + (try discrepancies(of: sum, db))
            case let search as FullTextSearch: return found + (try discrepancies(of: search, words, db))
            case let view as MaterializedView: return found + (try discrepancies(of: view, db))
            default: return found
            }
        }
    }

    private static func keyColumns(_ name: String, _ db: Database) throws -> [String] {
        let sql = "SELECT value FROM roundtable_extensions, json_each(key_columns) WHERE name = ? ORDER BY key"
        return try String.fetchAll(db, sql: sql, arguments: [name]).map { "\"\($0)\"" }
    }

    private static func compare(_ name: String, _ found: String, _ expected: String, _ db: Database) throws -> [String]
    {
        func lines(_ sql: String) throws -> [String] {
            try Row.fetchAll(db, sql: sql).map { Array($0.databaseValues).description }
        }
        let (found, expected) = (try lines(found), try lines(expected))
        if found == expected { return [] }
        let missing = Set(expected).subtracting(found)
        let wrong = Set(found).subtracting(expected)
        if !missing.isEmpty || !wrong.isEmpty { return ["\(name): \(missing) missing, \(wrong) wrong"] }
        return ["\(name): in another order: \(found), instead of \(expected)"]
    }

    private static func isTaken(_ one: any DerivedTable, _ keys: [String]) -> String {
        (keys.map { "\($0) IS NOT NULL" } + [one.definition.filter.map { "(\($0))" } ?? "1"]).joined(separator: " AND ")
    }

    private static func discrepancies(ofProjection one: any DerivedTable, _ db: Database) throws -> [String] {
        let keys = try keyColumns(one.name, db)
        let columns = one.definition.columns
        let values = (keys + columns.map { "(\($0.expression))" }).joined(separator: ", ")
        let names = (keys + columns.map { "\"\($0.name)\"" }).joined(separator: ", ")
        let order = (1...keys.count).map { "\($0) COLLATE BINARY" }.joined(separator: ", ")
        return try compare(
            one.name,
            "SELECT \(names) FROM \(one.tableName) ORDER BY \(order)",
            "SELECT \(values) FROM \(one.definition.baseTable) WHERE \(isTaken(one, keys)) ORDER BY \(order)",
            db
        )
    }

    private static func discrepancies(of sum: AggregateTable, _ db: Database) throws -> [String] {
        let values = sum.definition.columns.filter { column in
            sum.definition.indexes.contains { $0.terms.last == column.name }
        }
        let groups = sum.definition.columns.filter { !values.contains($0) }.map(\.expression)
        let list = groups + ["count(*)"] + values.flatMap { ["sum(\($0.expression))", "count(\($0.expression))"] }
        let sql = """
            SELECT \(list.joined(separator: ", ")) FROM \(sum.definition.baseTable)
            WHERE \(isTaken(sum, try keyColumns(sum.name, db)))
            \(groups.isEmpty ? "" : "GROUP BY \(groups.joined(separator: ", "))") HAVING count(*) > 0 ORDER BY 1
            """
        let expected = try Row.fetchAll(db, sql: sql).map { Array($0.databaseValues) }
        let found = try sum.totals(in: db).map { total in
            total.group + [total.count.databaseValue]
                + values.flatMap {
                    [
                        total.sum($0.name, as: DatabaseValue.self) ?? .null,
                        total.counts[$0.name, default: 0].databaseValue,
                    ]
                }
        }
        return found == expected ? [] : ["\(sum.name) (totals): \(found) instead of \(expected)"]
    }

    private static func discrepancies(of search: FullTextSearch, _ words: [String], _ db: Database) throws -> [String] {
        let column = search.definition.columns[0].expression
        let isTaken = isTaken(search, try keyColumns(search.name, db))
        return try words.flatMap { word in
            try compare(
                "\(search.name) (\(word))",
                "SELECT count(*) FROM \(search.tableName)__words WHERE \(search.tableName)__words MATCH '\(word)'",
                """
                SELECT count(*) FROM \(search.definition.baseTable)
                WHERE \(isTaken) AND ' ' || \(column) || ' ' LIKE '% \(word) %'
                """,
                db
            )
        }
    }

    private static func discrepancies(of view: MaterializedView, _ db: Database) throws -> [String] {
        let sorts = view.definition.indexes[0].terms.dropLast()
        let names = (sorts + (try keyColumns(view.name, db))).joined(separator: ", ")
        return try compare(
            "\(view.name) (groups)",
            "SELECT roundtable_group, count FROM \(view.tableName)__groups ORDER BY 1",
            "SELECT roundtable_group, count(*) FROM \(view.tableName) GROUP BY 1 ORDER BY 1",
            db
        )
            + view.groups(in: db).flatMap { group, _ -> [String] in
                let expected = try Row.fetchAll(
                    db,
                    // NOT INDEXED makes the expected order independent of the index.
                    sql: """
                        SELECT \(try keyColumns(view.name, db).joined(separator: ", ")) FROM \(view.tableName) NOT INDEXED
                        WHERE roundtable_group = ? ORDER BY \(names)
                        """,
                    arguments: [group]
                ).map { ViewKey(Array($0.databaseValues)) }
                let found = try view.keys(in: db, group: group)
                return found == expected ? [] : ["\(view.name) (order of \(group)): \(found) instead of \(expected)"]
            }
    }
}
