import GRDB
import RoundtableCore

/// An index of fields that are not columns of the table: values inside JSON, or computed values.
///
/// ```swift
/// let people = SecondaryIndex(
///     "people", version: 1, of: "contact",
///     fields: [.json("city", in: "address", at: "$.city"), .init("initial", "upper(substr(name, 1, 1))")]
/// )
/// let neighbours = try people.rows(Contact.self, in: db, where: "city = ?", arguments: ["Oslo"], orderedBy: "initial")
/// ```
public struct SecondaryIndex: DerivedTable {
    public let name: String
    public let version: Int
    public let definition: DerivedTableDefinition
    public let functions: [DatabaseFunction]

    /// - Parameters:
    ///   - name: the name of the derived table.
    ///   - version: your own number for the definition. Raise it with each change of the definition.
    ///   - table: the base table.
    ///   - filter: an SQL condition that selects rows, or nil for all rows.
    ///   - fields: the fields to search, as columns.
    ///   - indexes: the lists of fields to index, each in the order of the index. Pass nil for one index per field.
    ///   - functions: SQL functions that the definition calls. They are added to all connections.
    public init(
        _ name: String,
        version: Int,
        of table: String,
        where filter: String? = nil,
        fields: [DerivedTableDefinition.Column],
        indexes: [[String]]? = nil,
        functions: [DatabaseFunction] = []
    ) {
        self.name = name
        self.version = version
        self.functions = functions
        definition = DerivedTableDefinition(
            of: table,
            where: filter,
            columns: fields,
            indexes: (indexes ?? fields.map { [$0.name] }).map(DerivedTableDefinition.Index.init),
            declaration: Declaration(of: table, where: filter, fields: fields, indexes: indexes)
        )
    }

    private struct Declaration: Encodable {
        var kind = "index"
        var of: String
        var `where`: String?
        var fields: [DerivedTableDefinition.Column]
        var indexes: [[String]]?
    }

    /// Returns the rows whose fields meet a condition.
    ///
    /// - Parameters:
    ///   - type: the record type that rows of the base table are converted to.
    ///   - db: a connection, inside of an access.
    ///   - condition: an SQL condition on the fields, or nil for all rows that are in the index. If the table has a column of
    ///     the same name, write `fields.city`.
    ///   - arguments: the arguments of the condition.
    ///   - order: the terms of `ORDER BY`.
    ///   - limit: the maximum number of rows; nil for all.
    ///   - offset: the number of rows to skip.
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func rows<Record: FetchableRecord>(
        _ type: Record.Type = Record.self,
        in db: Database,
        where condition: String? = nil,
        arguments: StatementArguments = StatementArguments(),
        orderedBy order: String? = nil,
        limit: Int? = nil,
        offset: Int = 0
    ) throws -> [Record] {
        let joined = join(try stored(db), as: "fields")
        let tail = Self.tail(condition, order, limit, offset)
        return try Record.fetchAll(db, sql: "SELECT \(joined.base).* FROM \(joined.sql)\(tail)", arguments: arguments)
    }

    /// Returns the number of rows whose fields meet a condition.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func count(
        in db: Database,
        where condition: String? = nil,
        arguments: StatementArguments = StatementArguments()
    ) throws -> Int {
        let stored = try stored(db)
        let sql = "SELECT count(*) FROM \(stored.schema).\(table) AS fields\(Self.tail(condition, nil, nil, 0))"
        return try Int.fetchOne(db, sql: sql, arguments: arguments) ?? 0
    }

    private static func tail(_ condition: String?, _ order: String?, _ limit: Int?, _ offset: Int) -> String {
        var sql = condition.map { " WHERE (\($0))" } ?? ""
        if let order { sql += " ORDER BY \(order)" }
        if limit != nil || offset > 0 { sql += " LIMIT \(limit ?? -1) OFFSET \(offset)" }
        return sql
    }
}

extension DerivedTable {
    /// Returns the join of the projection and its base table, and the name of the base table in it.
    func join(_ stored: StoredDerivedTable, as alias: String) -> (sql: String, base: String) {
        let isAlias = stored.baseTable.lowercased() == alias
        let base = isAlias ? "roundtable_base" : stored.baseTable.sqlName
        // The projection is on the left, because SQLite uses the collation of the left operand. That is the primary key's collation, which
        // may differ from the column's.
        let keys = stored.keyColumns.map { "\(alias).\($0.sqlName) = \(base).\($0.sqlName)" }
        let sql =
            "\(stored.schema).\(table) AS \(alias) JOIN main.\(stored.baseTable.sqlName) AS \(base) ON \(keys.joined(separator: " AND "))"
        return (sql, base)
    }
}
