import GRDB
import RoundtableCore
import RoundtableTables

extension Projection {
    /// Checks that the derived table can be created as declared. Must be called inside a transaction, and leaves no changes.
    ///
    /// - throws: ``DerivedTableError/notUsable(name:reason:)``.
    func check(_ db: Database) throws {
        if ["new", "old"].contains(shape.name.lowercased()) {
            throw refusal(
                "a trigger cannot distinguish the table '\(shape.name)' from its row of that name: rename the table."
            )
        }
        var names = Set(shape.key.map { $0.name.lowercased() } + [Self.rowID])
        for column in definition.columns {
            guard !column.name.isEmpty, names.insert(column.name.lowercased()).inserted else {
                throw refusal(
                    "the name of the column '\(column.name)' is empty, or taken: by another one, or by the primary key."
                )
            }
        }
        for index in definition.indexes {
            for term in index.terms
            where term != DerivedTableDefinition.Index.key && !names.contains(Self.columnName(term)) {
                throw refusal("an index names '\(term)', which is not a derived column.")
            }
        }
        for column in definition.columns { try check(column.expression, isCondition: false, db) }
        if let filter = definition.filter { try check(filter, isCondition: true, db) }
        for column in definition.columns { try check(path: column, db) }
        // Calls of date functions are also checked alone, because the surrounding expression may not call them for any probe.
        for text in definition.columns.map(\.expression) + [definition.filter ?? ""] {
            for call in Self.callsOfDateFunctions(text) { try check(call, isCondition: false, db) }
        }
    }

    private static let dateFunctions: Set = [
        "date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff",
    ]

    private static func callsOfDateFunctions(_ expression: String) -> [String] {
        let tokens = IndexDefinition.tokens(expression)
        return tokens.indices.filter { dateFunctions.contains(tokens[$0].lowercased()) }.compactMap { start in
            var depth = 0
            for end in tokens.indices.dropFirst(start + 1) {
                switch tokens[end] {
                case "(": depth += 1
                case ")" where depth > 0:
                    depth -= 1
                    if depth == 0 { return tokens[start...end].joined() }
                default:
                    // The word is the name of a column, and not a call.
                    if depth == 0, !tokens[end].allSatisfy(\.isWhitespace) { return nil }
                }
            }
            return nil
        }
    }

    private static func columnName(_ term: String) -> String {
        let lower = term.lowercased()
        for order in [" desc", " asc"] where lower.hasSuffix(order) { return String(lower.dropLast(order.count)) }
        return lower
    }

    private func refusal(_ reason: String) -> DerivedTableError { .notUsable(name: name, reason: reason) }

    /// Checks an expression by using it in an index, because SQLite has the same requirements there: columns of the same row, and
    /// deterministic functions. SQLite checks date functions only when it computes an entry, so probe rows are inserted.
    private func check(_ expression: String, isCondition: Bool, _ db: Database) throws {
        let names = shape.columns.map(\.name.sqlName).joined(separator: ", ")
        let index =
            isCondition
            ? "(\(shape.columns[0].name.sqlName)) WHERE (\(expression))" : "(CASE WHEN 1 THEN (\(expression)) END)"
        do {
            try db.inSavepoint {
                try db.execute(sql: "CREATE TEMP TABLE roundtable_check (\(names))")
                try db.execute(sql: "CREATE INDEX temp.roundtable_check_index ON roundtable_check \(index)")
                try probe(db)
                return .rollback
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw refusal(
                """
                '\(expression)': \(error.message ?? "not an expression"). An expression may name columns of '\(shape.name)', without the \
                table's name, and pure functions.
                """
            )
        }
    }

    /// Checks a JSON path. An invalid path would fail only later, for each row that holds valid JSON.
    private func check(path column: DerivedTableDefinition.Column, _ db: Database) throws {
        guard let path = column.path else { return }
        do {
            // `json_set` is called because it evaluates the path to its end.
            let sql = "SELECT json_extract('{}', :path), json_extract('[]', :path), json_set('{}', :path, 1)"
            _ = try Row.fetchOne(db, sql: sql, arguments: ["path": path])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw refusal(
                """
                '\(path)', for the column '\(column.name)', is not a JSON path: \(error.message ?? "an error"). A path begins with $, which is the \
                whole value: '$.city', '$.address.city', '$.tags[0]'.
                """
            )
        }
    }

    /// Inserts probe rows, so that SQLite computes index entries. Errors other than non-determinism are ignored, because the real rows may
    /// never have such values. An error that ends the transaction is thrown.
    private func probe(_ db: Database) throws {
        for value in ["NULL", "0", "1", "''", "'2026-01-01'"] {
            let values = shape.columns.map { _ in value }.joined(separator: ", ")
            do {
                try db.execute(sql: "INSERT INTO temp.roundtable_check VALUES (\(values))")
            } catch let error as DatabaseError
                where error.message?.hasPrefix("non-deterministic") != true && db.isInsideTransaction
            {
                continue
            }
        }
    }
}
