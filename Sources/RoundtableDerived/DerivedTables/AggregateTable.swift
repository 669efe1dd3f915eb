import GRDB
import RoundtableCore

/// The counts and sums of a table's rows by group. They are kept up to date by each write, instead of computed by each query.
///
/// ```swift
/// let spent = AggregateTable("spent", version: 1, of: "expense", groupedBy: [.init("category")], values: [.init("cents")])
/// try spent.total(of: ["travel"], in: db)?.sum("cents")
/// ```
///
/// A sum of integers is exact while it fits into 64 bits. While it does not fit, it is a floating-point number. Sums of floating-point
/// numbers have the rounding errors of additions and subtractions, so store amounts of money as integers. Infinities count as in SQL: with
/// two infinities of opposite signs, there is no sum.
public struct AggregateTable: DerivedTable {
    public let name: String
    public let version: Int
    public let definition: DerivedTableDefinition
    public let functions: [DatabaseFunction]
    private let groups: [String]
    private let values: [String]

    /// - Parameters:
    ///   - name: the name of the derived table.
    ///   - version: your own number for the definition. Raise it with each change of the definition.
    ///   - table: the base table.
    ///   - filter: an SQL condition that selects the rows to count, or nil for all rows.
    ///   - groups: the columns that define the groups. NULL is a group, too. If the list is empty, all rows are one group.
    ///   - values: the columns that have a sum, an average, a minimum and a maximum.
    ///   - functions: SQL functions that the definition calls. They are added to all connections.
    public init(
        _ name: String,
        version: Int,
        of table: String,
        where filter: String? = nil,
        groupedBy groups: [DerivedTableDefinition.Column] = [],
        values: [DerivedTableDefinition.Column] = [],
        functions: [DatabaseFunction] = []
    ) {
        self.name = name
        self.version = version
        self.functions = functions
        self.groups = groups.map(\.name)
        self.values = values.map(\.name)
        let totals = DerivedTableNames.part(name, "totals").sqlName
        let projection = DerivedTableNames.projection(name).sqlName
        let names = groups.map(\.name.sqlName)
        let columns =
            groups.map { $0.name.sqlName + ($0.collation.map { " COLLATE \($0.sqlName)" } ?? "") }
            + ["roundtable_count INTEGER NOT NULL"]
            + values.flatMap { RunningSum($0.name).columns }
        func isGroup(of row: String, in table: String) -> String {
            names.isEmpty ? "1" : names.map { "\(table).\($0) IS \(row).\($0)" }.joined(separator: " AND ")
        }
        func change(_ sign: String, _ row: String) -> String {
            let changes =
                ["roundtable_count = roundtable_count \(sign) 1"]
                + values.flatMap { value in
                    RunningSum(value.name).changes(
                        sign,
                        row,
                        rest: "\(projection) WHERE \(isGroup(of: row, in: projection))"
                    )
                }
            return "UPDATE \(totals) SET \(changes.joined(separator: ", ")) WHERE \(isGroup(of: row, in: totals))"
        }
        let zeros =
            names.map { "new.\($0)" } + Array(repeating: "0", count: 1 + RunningSum.columnCount * values.count)
        var create = ["CREATE TABLE {schema}.\(totals) (\(columns.joined(separator: ", ")))"]
        if !names.isEmpty {
            let index = DerivedTableNames.part(name, "totals_groups").sqlName
            create.append("CREATE INDEX {schema}.\(index) ON \(totals) (\(names.joined(separator: ", ")))")
        }
        definition = DerivedTableDefinition(
            of: table,
            where: filter,
            columns: groups + values,
            indexes: values.map { DerivedTableDefinition.Index(groups.map(\.name) + [$0.name]) },
            parts: [
                .init(
                    create: create,
                    inserted: [
                        """
                        INSERT INTO \(totals) SELECT \(zeros.joined(separator: ", "))
                                WHERE NOT EXISTS (SELECT 1 FROM \(totals) WHERE \(isGroup(of: "new", in: totals)))
                        """,
                        change("+", "new"),
                    ],
                    deleted: [
                        change("-", "old"),
                        "DELETE FROM \(totals) WHERE \(isGroup(of: "old", in: totals)) AND roundtable_count = 0",
                    ]
                )
            ],
            declaration: Declaration(of: table, where: filter, groupedBy: groups, values: values)
        )
    }

    private struct Declaration: Encodable {
        var kind = "aggregate"
        var of: String
        var `where`: String?
        var groupedBy: [DerivedTableDefinition.Column]
        var values: [DerivedTableDefinition.Column]
    }

    /// The count and the sums of one group.
    public struct Total: Sendable, Equatable {
        /// The group's values, in the order of the declaration.
        public let group: [DatabaseValue]
        /// The number of rows.
        public let count: Int
        let sums: [String: DatabaseValue]
        /// The number of rows that have a value, by the name of the value.
        package let counts: [String: Int]

        /// Returns the sum of a value.
        ///
        /// - returns: nil if no row of the group has this value, if infinities of opposite signs make the sum undefined, or if the sum
        ///   cannot be converted to `Value`.
        public func sum<Value: DatabaseValueConvertible>(_ value: String, as type: Value.Type = Value.self) -> Value? {
            counts[value, default: 0] == 0 ? nil : sums[value].flatMap(Value.fromDatabaseValue)
        }

        /// Returns the average of a value.
        ///
        /// - returns: nil if no row of the group has this value, or if there is no sum.
        public func average(_ value: String) -> Double? {
            guard let count = counts[value], count > 0, let sum = sum(value, as: Double.self) else { return nil }
            return sum / Double(count)
        }
    }

    /// Returns all groups, in their order.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func totals(in db: Database) throws -> [Total] {
        let schema = try stored(db).schema
        let order = groups.isEmpty ? "" : " ORDER BY \(groups.map(\.sqlName).joined(separator: ", "))"
        return try Row.fetchAll(db, sql: "SELECT * FROM \(schema).\(part("totals"))\(order)").map(total)
    }

    /// Returns one group, or nil if it has no rows.
    ///
    /// - Parameters:
    ///   - group: the group's values, in the order of the declaration.
    ///   - db: a connection, inside of an access.
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func total(of group: [(any DatabaseValueConvertible)?] = [], in db: Database) throws -> Total? {
        let schema = try stored(db).schema
        let sql = "SELECT * FROM \(schema).\(part("totals")) WHERE \(isGroup(group))"
        return try Row.fetchOne(db, sql: sql, arguments: StatementArguments(group)).map(total)
    }

    /// Returns the minimum and the maximum of a value in a group, found by an index. Returns nil if no row of the group has the value.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func range<Value: DatabaseValueConvertible>(
        of value: String,
        group: [(any DatabaseValueConvertible)?] = [],
        in db: Database,
        as type: Value.Type = Value.self
    ) throws -> (least: Value, greatest: Value)? {
        let schema = try stored(db).schema
        precondition(values.contains(value), "the aggregate '\(name)' has no value '\(value)'")
        let column = value.sqlName
        func first(_ order: String) throws -> Value? {
            let sql = """
                SELECT \(column) FROM \(schema).\(table) WHERE \(isGroup(group)) AND \(column) IS NOT NULL
                ORDER BY \(column) \(order) LIMIT 1
                """
            return try Value.fetchOne(db, sql: sql, arguments: StatementArguments(group))
        }
        guard let least = try first("ASC"), let greatest = try first("DESC") else { return nil }
        return (least, greatest)
    }

    private func isGroup(_ group: [(any DatabaseValueConvertible)?]) -> String {
        precondition(group.count == groups.count, "the aggregate '\(name)' is grouped by \(groups)")
        return groups.isEmpty ? "1" : groups.map { "\($0.sqlName) IS ?" }.joined(separator: " AND ")
    }

    private func total(_ row: Row) -> Total {
        var sums: [String: DatabaseValue] = [:]
        var counts: [String: Int] = [:]
        var index = groups.count + 1
        for value in values {
            (sums[value], counts[value]) = RunningSum.value(of: row, at: index)
            index += RunningSum.columnCount
        }
        return Total(
            group: Array(row.databaseValues.prefix(groups.count)),
            count: row[groups.count],
            sums: sums,
            counts: counts
        )
    }
}
