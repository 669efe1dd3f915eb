import GRDB
import RoundtableCore

/// The rows of a table, filtered, grouped and sorted, as a list on the screen shows them.
///
/// ```swift
/// let inbox = MaterializedView(
///     "inbox", version: 1, of: "message", where: "NOT isDeleted",
///     groupedBy: "mailbox", sortedBy: [.descending("date")]
/// )
/// let messages = try inbox.rows(Message.self, in: db, group: "work", limit: 50)
/// for try await update in inbox.updates(in: shared) { … }     // inserted, deleted, moved, updated
/// ```
///
/// Rows that have equal sort values are sorted by primary key, so that each row has a definite place.
public struct MaterializedView: DerivedTable {
    public let name: String
    public let version: Int
    public let definition: DerivedTableDefinition
    public let functions: [DatabaseFunction]
    /// The columns of the projection that a group's rows are sorted by, before the primary key.
    private let sorts: [(column: String, isDescending: Bool)]

    /// A term of the sort order of rows.
    public struct SortTerm: Sendable, Equatable, Encodable {
        let expression: String
        let isDescending: Bool
        let collation: String?

        /// - Parameters:
        ///   - expression: a column of the table, or an SQL expression of its columns.
        ///   - collation: the collation, or nil for SQLite's default, `BINARY`.
        public static func ascending(_ expression: String, collation: String? = nil) -> SortTerm {
            SortTerm(expression: expression, isDescending: false, collation: collation)
        }

        public static func descending(_ expression: String, collation: String? = nil) -> SortTerm {
            SortTerm(expression: expression, isDescending: true, collation: collation)
        }
    }

    /// The number of changes that the log keeps. An observer that is further behind compares all rows.
    static let logLength = 10_000
    // The names of the columns beside the base table's key columns.
    static let group = "roundtable_group"
    static let sequence = "roundtable_sequence"
    /// A random number for each change. It distinguishes logs that have the same number of changes.
    static let stamp = "roundtable_stamp"

    /// - Parameters:
    ///   - name: the name of the derived table.
    ///   - version: your own number for the definition. Raise it with each change of the definition.
    ///   - table: the base table.
    ///   - filter: an SQL condition that selects rows, or nil for all rows.
    ///   - group: an SQL expression for the group of a row. Rows for which it is NULL are not in the view. If it is nil, all
    ///     rows are in one group, `''`.
    ///   - order: the sort terms of a group's rows. If the list is empty, rows are sorted by primary key.
    ///   - functions: SQL functions that the definition calls. They are added to all connections.
    public init(
        _ name: String,
        version: Int,
        of table: String,
        where filter: String? = nil,
        groupedBy group: String? = nil,
        sortedBy order: [SortTerm] = [],
        functions: [DatabaseFunction] = []
    ) {
        self.name = name
        self.version = version
        self.functions = functions
        let sorts = order.enumerated().map { ("roundtable_sort_\($0 + 1)", $1) }
        self.sorts = sorts.map { ($0, $1.isDescending) }
        let conditions = [filter, group.map { "(\($0)) IS NOT NULL" }].compactMap { $0.map { "(\($0))" } }
        let groups = DerivedTableNames.part(name, "groups").sqlName
        let log = DerivedTableNames.part(name, "log").sqlName
        let number = Self.group
        definition = DerivedTableDefinition(
            of: table,
            where: conditions.isEmpty ? nil : conditions.joined(separator: " AND "),
            columns: [.init(number, group ?? "''")]
                + sorts.map { .init($0, $1.expression, collation: $1.collation) },
            indexes: [
                .init(
                    [number] + sorts.map { "\($0)\($1.isDescending ? " DESC" : "")" } + [
                        DerivedTableDefinition.Index.key
                    ]
                )
            ],
            parts: [
                .init(
                    create: [
                        "CREATE TABLE {schema}.\(groups) (\(number) PRIMARY KEY, count INTEGER NOT NULL)",
                        """
                        CREATE TABLE {schema}.\(log) \
                        (\(Self.sequence) INTEGER PRIMARY KEY, \(Self.stamp) INTEGER, \(number), {key columns})
                        """,
                    ],
                    inserted: [
                        """
                        INSERT INTO \(groups) SELECT new.\(number), 0
                                WHERE NOT EXISTS (SELECT 1 FROM \(groups) WHERE \(number) = new.\(number))
                        """,
                        "UPDATE \(groups) SET count = count + 1 WHERE \(number) = new.\(number)",
                        "INSERT INTO \(log) (\(Self.stamp), \(number), {keys}) VALUES (random(), new.\(number), {new.keys})",
                        Self.prune(log),
                    ],
                    deleted: [
                        "UPDATE \(groups) SET count = count - 1 WHERE \(number) = old.\(number)",
                        "DELETE FROM \(groups) WHERE \(number) = old.\(number) AND count = 0",
                        "INSERT INTO \(log) (\(Self.stamp), \(number), {keys}) VALUES (random(), old.\(number), {old.keys})",
                        Self.prune(log),
                    ],
                    touched: [
                        "INSERT INTO \(log) (\(Self.stamp), {keys}) VALUES (random(), {new.keys})",
                        Self.prune(log),
                    ]
                )
            ],
            declaration: Declaration(of: table, where: filter, groupedBy: group, sortedBy: order)
        )
    }

    private struct Declaration: Encodable {
        var kind = "view"
        var of: String
        var `where`: String?
        var groupedBy: String?
        var sortedBy: [SortTerm]
    }

    /// Returns the statement that deletes old log entries when 64 of them have accumulated, so that few changes bear the cost. Otherwise
    /// the limit is NULL, which matches no row, and SQLite reads no row to find that out.
    private static func prune(_ log: String) -> String {
        let (first, last) = ("(SELECT min(\(sequence)) FROM \(log))", "(SELECT max(\(sequence)) FROM \(log))")
        let limit = "CASE WHEN \(first) <= \(last) - \(logLength + 64) THEN \(last) - \(logLength) END"
        return "DELETE FROM \(log) WHERE \(sequence) <= \(limit)"
    }

    // MARK: Reading

    /// Returns the groups that have rows, in their order, with the number of rows of each.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func groups(in db: Database) throws -> [(group: DatabaseValue, count: Int)] {
        let stored = try stored(db)
        let sql = "SELECT \(Self.group), count FROM \(stored.schema).\(part("groups")) ORDER BY \(Self.group)"
        return try Row.fetchAll(db, sql: sql).map { ($0[0], $0[1]) }
    }

    /// Returns the number of rows of a group.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func count(in db: Database, group: some DatabaseValueConvertible = "") throws -> Int {
        let stored = try stored(db)
        let sql = "SELECT count FROM \(stored.schema).\(part("groups")) WHERE \(Self.group) = ?"
        return try Int.fetchOne(db, sql: sql, arguments: [group]) ?? 0
    }

    /// Returns the rows of a group, in its order.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func rows<Record: FetchableRecord>(
        _ type: Record.Type = Record.self,
        in db: Database,
        group: some DatabaseValueConvertible = "",
        limit: Int? = nil,
        offset: Int = 0
    ) throws -> [Record] {
        let stored = try stored(db)
        let base = stored.baseTable.sqlName
        let keys = stored.keyColumns.map { "roundtable_page.\($0.sqlName) = \(base).\($0.sqlName)" }.joined(
            separator: " AND "
        )
        // The page is selected first, so that SQLite skips the rows before it in the index alone.
        let columns = (sorts.map(\.column) + stored.keyColumns.map(\.sqlName)).joined(separator: ", ")
        let page = """
            SELECT \(columns) FROM \(stored.schema).\(table) WHERE \(Self.group) = ? ORDER BY \(order(stored)) LIMIT ? OFFSET ?
            """
        let order = order(stored, of: "roundtable_page.")
        let sql = "SELECT \(base).* FROM (\(page)) AS roundtable_page JOIN main.\(base) ON \(keys) ORDER BY \(order)"
        return try Record.fetchAll(db, sql: sql, arguments: [group, limit ?? -1, offset])
    }

    /// Returns the primary keys of a group's rows, in its order.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func keys(
        in db: Database,
        group: some DatabaseValueConvertible = "",
        limit: Int? = nil,
        offset: Int = 0
    ) throws -> [ViewKey] {
        try keys(try stored(db), db, group: group.databaseValue, limit: limit, offset: offset)
    }

    func keys(
        _ stored: StoredDerivedTable,
        _ db: Database,
        group: DatabaseValue,
        limit: Int?,
        offset: Int = 0
    ) throws -> [ViewKey] {
        let list = stored.keyColumns.map(\.sqlName).joined(separator: ", ")
        let sql = """
            SELECT \(list) FROM \(stored.schema).\(table) WHERE \(Self.group) = ? ORDER BY \(order(stored)) LIMIT ? OFFSET ?
            """
        return try Row.fetchAll(db, sql: sql, arguments: [group, limit ?? -1, offset]).map(ViewKey.init)
    }

    /// Returns the terms of `ORDER BY` for the rows of a group.
    private func order(_ stored: StoredDerivedTable, of table: String = "") -> String {
        let sorts = sorts.map { "\(table)\($0.column)\($0.isDescending ? " DESC" : "")" }
        return (sorts + stored.keyColumns.map { "\(table)\($0.sqlName)" }).joined(separator: ", ")
    }
}
