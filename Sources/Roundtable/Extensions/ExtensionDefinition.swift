import Foundation
import RoundtableKernel

/// What an extension derives from a table: for each of its rows, at most one.
public struct ExtensionDefinition: Sendable, Equatable {
    /// The table that it is derived from. It needs a primary key; rows of which that is NULL are left out.
    public let baseTable: String

    /// Which rows, as an SQL expression of that row alone; nil for all.
    public let filter: String?

    /// What is derived of each.
    public let columns: [Column]

    /// Indexes of the derived rows.
    public let indexes: [Index]

    /// What is kept on top of the derived rows.
    public let parts: [Part]

    /// What was declared, as JSON.
    let configuration: String

    /// Tells declarations apart.
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

    /// - parameter declaration: what the fingerprint is of. For definitions that this library makes of something shorter: the SQL
    ///   may change with the library (``Projection/generation``), and what the user has declared has not.
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
        public let name: String
        /// SQL, of columns of the row and pure functions: `json_extract(address, '$.city')`.
        public let expression: String
        /// Of the derived column; nil for SQLite's default, `BINARY`.
        public let collation: String?
        /// Of a value within JSON, for checks. It is in the expression, and so no part of the declaration.
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

        /// A column of the table, as it is.
        public init(_ name: String) { self.init(name, name.sqlName) }

        /// A value within a column that holds JSON, as those do in which GRDB stores `Codable` properties.
        ///
        /// - parameter path: as [SQLite's functions](https://www.sqlite.org/json1.html#path_arguments) have it: `$.address.city`. What is no path is
        ///   refused when the extension is made. Of what is no JSON, the value is NULL.
        public static func json(_ name: String, in column: String, at path: String, collation: String? = nil) -> Column
        {
            let text = column.sqlName
            let expression = "CASE WHEN json_valid(\(text)) THEN json_extract(\(text), \(path.sqlText)) END"
            var column = Column(name, expression, collation: collation)
            column.path = path
            return column
        }
    }

    /// An index of derived rows.
    public struct Index: Sendable, Encodable, Equatable {
        /// Names of derived columns, perhaps with `DESC` behind, and ``key``.
        public let terms: [String]

        public init(_ terms: [String]) { self.terms = terms }

        /// Stands for the columns of the primary key.
        public static let key = "*"
    }

    /// Tables that are kept by triggers of the derived rows. These are only ever inserted and deleted, one by one: a row that changes is deleted
    /// and inserted anew.
    ///
    /// The names of its tables begin with ``SharedExtension/tableName`` and two underscores. Its statements must have no conflict clause:
    /// that of the statement which made the change would take its place. In all of them, `{schema}` stands for the name of the schema that
    /// the tables are in, `{rowid}` for the derived rows' column of type INTEGER PRIMARY KEY, `{keys}` for the names of the primary key's columns, `{new.keys}` and `{old.keys}` for their values, and
    /// `{key columns}` for their definitions.
    public struct Part: Sendable, Encodable, Equatable {
        /// Statements that create its tables: `CREATE TABLE {schema}.…`.
        public let create: [String]
        /// After a row was derived: statements, in which `new` is that row.
        public let inserted: [String]
        /// After a derived row has gone: statements, in which `old` is that row.
        public let deleted: [String]
        /// After a row of the base table was changed in a way that leaves what is derived of it as it is: statements, in which `new` is the row
        /// of the base table.
        public let touched: [String]

        public init(create: [String], inserted: [String] = [], deleted: [String] = [], touched: [String] = []) {
            self.create = create
            self.inserted = inserted
            self.deleted = deleted
            self.touched = touched
        }
    }
}
