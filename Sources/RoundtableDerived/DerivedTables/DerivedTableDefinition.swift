import Foundation
import RoundtableCore
import RoundtableKernel

/// What a derived table derives from a table: at most one row for each row of the table.
public struct DerivedTableDefinition: Sendable, Equatable {
    /// The table to derive from. It needs a primary key. Rows with a NULL in the primary key are left out.
    package let baseTable: String

    /// An SQL condition that selects rows, or nil for all rows. It uses the columns of that row alone.
    package let filter: String?

    /// The columns that are derived from each row.
    package let columns: [Column]

    /// The indexes of the derived rows.
    package let indexes: [Index]

    /// Further tables that are maintained from the derived rows.
    package let parts: [Part]

    /// The declaration as JSON.
    let configuration: String

    /// A checksum of the declaration. It distinguishes declarations.
    let fingerprint: String

    public init(
        of baseTable: String,
        where filter: String? = nil,
        columns: [Column],
        indexes: [Index] = [],
        parts: [Part] = []
    ) {
        let all = Content(of: baseTable, where: filter, columns: columns, indexes: indexes, parts: parts)
        self.init(of: baseTable, where: filter, columns: columns, indexes: indexes, parts: parts, declaration: all)
    }

    /// - parameter declaration: the value that the fingerprint is computed from. The library's own kinds of derived tables pass what the user
    ///   has declared, because the generated SQL may change with the library (``Projection/generation``) while the declaration stays the
    ///   same.
    init(
        of baseTable: String,
        where filter: String?,
        columns: [Column],
        indexes: [Index] = [],
        parts: [Part] = [],
        declaration: some Encodable
    ) {
        self.baseTable = baseTable
        self.filter = filter
        self.columns = columns
        self.indexes = indexes
        self.parts = parts
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let bytes = try? encoder.encode(declaration) else {
            preconditionFailure("texts, numbers and lists of them can be encoded")
        }
        configuration = String(decoding: bytes, as: UTF8.self)
        let digits = String(Checksum.fnv1a(bytes), radix: 16)
        fingerprint = String(repeating: "0", count: 16 - digits.count) + digits
    }

    private struct Content: Encodable {
        var of: String
        var `where`: String?
        var columns: [Column]
        var indexes: [Index]
        var parts: [Part]
    }

    /// A derived column.
    public struct Column: Sendable, Encodable, Equatable {
        package let name: String
        /// An SQL expression of the row's columns and pure functions, such as `json_extract(address, '$.city')`.
        package let expression: String
        /// The collation of the derived column, or nil for SQLite's default, `BINARY`.
        package let collation: String?
        /// The JSON path, for checks. It is not part of the declaration, because the expression contains it.
        private(set) var path: String?

        private enum CodingKeys: CodingKey {
            case name, expression, collation
        }

        public static func == (left: Self, right: Self) -> Bool {
            (left.name, left.expression, left.collation) == (right.name, right.expression, right.collation)
        }

        public init(_ name: String, _ expression: String, collation: String? = nil) {
            self.name = name
            self.expression = expression
            self.collation = collation
        }

        /// Creates a derived column that copies a column of the table.
        public init(_ name: String) { self.init(name, name.sqlName) }

        /// Creates a derived column for a value within a column that holds JSON, such as a column in which GRDB stores a `Codable`
        /// property. The value is NULL if the column does not hold valid JSON.
        ///
        /// - Parameters:
        ///   - name: the name of the derived column.
        ///   - column: the column that holds the JSON.
        ///   - path: a path of [SQLite's JSON functions](https://www.sqlite.org/json1.html#path_arguments), such as
        ///     `$.address.city`. An invalid path is refused when the derived table is created.
        ///   - collation: the collation of the derived column, or nil for the default.
        public static func json(_ name: String, in column: String, at path: String, collation: String? = nil) -> Column
        {
            let text = column.sqlName
            let expression = "CASE WHEN json_valid(\(text)) THEN json_extract(\(text), \(path.sqlText)) END"
            var column = Column(name, expression, collation: collation)
            column.path = path
            return column
        }
    }

    /// An SQL index on the table of the derived rows.
    public struct Index: Sendable, Encodable, Equatable {
        /// The names of derived columns, each optionally followed by `DESC`, and ``key``.
        package let terms: [String]

        public init(_ terms: [String]) { self.terms = terms }

        /// Stands for the columns of the primary key.
        public static let key = "*"
    }

    /// Tables that triggers of the derived rows maintain. Derived rows are only inserted and deleted, one by one: a row that changes is
    /// deleted and inserted again.
    ///
    /// The names of its tables begin with ``DerivedTable/tableName`` and two underscores. Its statements must have no conflict clause,
    /// because the clause of the statement that made the change would replace it. In all statements, `{schema}` stands for the name of the
    /// schema of the tables, `{rowid}` for the INTEGER PRIMARY KEY column of the derived rows, `{keys}` for the names of the primary key's
    /// columns, `{new.keys}` and `{old.keys}` for their values, and `{key columns}` for their definitions.
    public struct Part: Sendable, Encodable, Equatable {
        /// The statements that create its tables: `CREATE TABLE {schema}.…`.
        package let create: [String]
        /// The statements that run after a row was derived. In them, `new` is that row.
        package let inserted: [String]
        /// The statements that run after a derived row was deleted. In them, `old` is that row.
        package let deleted: [String]
        /// The statements that run after a row of the base table was updated and its derived row stays the same. In them, `new` is the row
        /// of the base table.
        package let touched: [String]

        public init(create: [String], inserted: [String] = [], deleted: [String] = [], touched: [String] = []) {
            self.create = create
            self.inserted = inserted
            self.deleted = deleted
            self.touched = touched
        }
    }
}
