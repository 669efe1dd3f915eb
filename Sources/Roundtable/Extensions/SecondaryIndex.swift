import GRDB

/// Fields of a table's rows that can be searched, where the table itself cannot: values inside of JSON, or computed ones.
///
/// ```swift
/// let people = SecondaryIndex(
///     "people", version: 1, of: "contact",
///     fields: [.json("city", in: "address", at: "$.city"), .init("initial", "upper(substr(name, 1, 1))")]
/// )
/// let neighbours = try people.rows(Contact.self, in: db, where: "city = ?", arguments: ["Oslo"], orderedBy: "initial")
/// ```
public struct SecondaryIndex: SharedExtension {
    public let name: String
    public let version: Int
    public let definition: ExtensionDefinition
    public let functions: [DatabaseFunction]

    /// - Parameters:
    ///   - fields: what is looked for, as columns.
    ///   - indexes: lists of fields, in the order in which they are asked for; nil for one index a field.
    public init(
        _ name: String,
        version: Int,
        of table: String,
        where filter: String? = nil,
        fields: [ExtensionDefinition.Column],
        indexes: [[String]]? = nil,
        functions: [DatabaseFunction] = []
    ) {
        self.name = name
        self.version = version
        self.functions = functions
        definition = ExtensionDefinition(
            of: table,
            where: filter,
            columns: fields,
            indexes: (indexes ?? fields.map { [$0.name] }).map(ExtensionDefinition.Index.init),
            declaration: Declaration(of: table, where: filter, fields: fields, indexes: indexes)
        )
    }

    private struct Declaration: Encodable {
        var kind = "index"
        var of: String
        var `where`: String?
        var fields: [ExtensionDefinition.Column]
        var indexes: [[String]]?
    }

    /// The rows whose fields meet a condition.
    ///
    /// - Parameters:
    ///   - type: what rows of the base table become.
    ///   - condition: SQL, of fields; nil for all rows that are in the index. Where the table has a column of the same name, write `fields.city`.
    ///   - order: terms of `ORDER BY`.
    /// - throws: ``ExtensionError``, `DatabaseError`.
    public func rows<Record: FetchableRecord>(
        _ type: Record.Type = Record.self,
        in db: Database,
        where condition: String? = nil,
        arguments: StatementArguments = StatementArguments(),
        orderedBy order: String? = nil,
        limit: Int? = nil,
        offset: Int = 0
    ) throws -> [Record] {
        let joined = try join(db, as: "fields")
        let tail = Self.tail(condition, order, limit, offset)
        return try Record.fetchAll(db, sql: "SELECT \(joined.base).* FROM \(joined.sql)\(tail)", arguments: arguments)
    }

    /// How many rows have fields that meet a condition.
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

extension SharedExtension {
    /// The projection and its base table, joined; and what the latter is called there. Makes sure that the extension can be used.
    func join(_ db: Database, as alias: String) throws -> (sql: String, base: String, schema: String) {
        let stored = try stored(db)
        let isAlias = stored.baseTable.lowercased() == alias
        let base = isAlias ? "roundtable_base" : stored.baseTable.sqlName
        // What is on the left has its collation counted: that of the primary key, where the table's column has another.
        let keys = stored.keyColumns.map { "\(alias).\($0.sqlName) = \(base).\($0.sqlName)" }
        let sql =
            "\(stored.schema).\(table) AS \(alias) JOIN main.\(stored.baseTable.sqlName) AS \(base) ON \(keys.joined(separator: " AND "))"
        return (sql, base, stored.schema)
    }
}
