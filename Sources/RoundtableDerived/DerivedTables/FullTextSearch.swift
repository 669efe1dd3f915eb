import GRDB
import RoundtableCore

/// A full-text index of a table's rows, by [FTS5](https://www.sqlite.org/fts5.html).
///
/// ```swift
/// let search = FullTextSearch("search", version: 1, of: "message", columns: [.init("subject"), .init("body")])
/// let found = try search.rows(Message.self, in: db, matching: "round AND table")
/// ```
///
/// The index reads its text from the derived table's own table, which holds a copy of the columns. So the index entries of a row can be removed
/// by its old content, even after the row has changed.
public struct FullTextSearch: DerivedTable {
    public let name: String
    public let version: Int
    public let definition: DerivedTableDefinition
    public let functions: [DatabaseFunction]

    /// - Parameters:
    ///   - name: the name of the derived table.
    ///   - version: your own number for the definition. Raise it with each change of the definition.
    ///   - table: the base table.
    ///   - filter: an SQL condition that selects rows, or nil for all rows.
    ///   - columns: columns of the table, or expressions.
    ///   - tokenizer: the tokenizer with its options, [as in FTS5](https://www.sqlite.org/fts5.html#tokenizers). Tokenizers of
    ///     your own have to be added to each connection, by `Options.configuration`.
    ///   - prefixes: the lengths of word prefixes that have an index of their own.
    ///   - functions: SQL functions that the definition calls. They are added to all connections.
    public init(
        _ name: String,
        version: Int,
        of table: String,
        where filter: String? = nil,
        columns: [DerivedTableDefinition.Column],
        tokenizer: String = "unicode61",
        prefixes: [Int] = [],
        functions: [DatabaseFunction] = []
    ) {
        self.name = name
        self.version = version
        self.functions = functions
        let projection = DerivedTableNames.projection(name)
        let index = DerivedTableNames.part(name, "words").sqlName
        let names = columns.map(\.name.sqlName)
        var options =
            names + ["content=\(projection.sqlText)", "content_rowid={rowid}", "tokenize=\(tokenizer.sqlText)"]
        if !prefixes.isEmpty { options.append("prefix=\(prefixes.map(String.init).joined(separator: " ").sqlText)") }
        func values(_ row: String) -> String { names.map { "\(row).\($0)" }.joined(separator: ", ") }
        let list = names.joined(separator: ", ")
        definition = DerivedTableDefinition(
            of: table,
            where: filter,
            columns: columns,
            parts: [
                .init(
                    create: ["CREATE VIRTUAL TABLE {schema}.\(index) USING fts5(\(options.joined(separator: ", ")))"],
                    inserted: ["INSERT INTO \(index) (rowid, \(list)) VALUES (new.{rowid}, \(values("new")))"],
                    deleted: [
                        "INSERT INTO \(index) (\(index), rowid, \(list)) VALUES ('delete', old.{rowid}, \(values("old")))"
                    ]
                )
            ],
            declaration: Declaration(
                of: table,
                where: filter,
                columns: columns,
                tokenizer: tokenizer,
                prefixes: prefixes
            )
        )
    }

    /// The alias of the projection in searches.
    private static let texts = "roundtable_texts"

    private struct Declaration: Encodable {
        var kind = "words"
        var of: String
        var `where`: String?
        var columns: [DerivedTableDefinition.Column]
        var tokenizer: String
        var prefixes: [Int]
    }

    /// Returns the rows that match, the best match first.
    ///
    /// - Parameters:
    ///   - type: the record type that rows of the base table are converted to.
    ///   - db: a connection, inside of an access.
    ///   - pattern: [a query of FTS5](https://www.sqlite.org/fts5.html#full_text_query_syntax). For text that a user has
    ///     typed, use the `rawPattern` of GRDB's `FTS5Pattern(matchingAllPrefixesIn:)`, or of a similar initializer.
    ///   - limit: the maximum number of rows; nil for all.
    ///   - offset: the number of rows to skip.
    /// - throws: ``DerivedTableError``, `DatabaseError`, also for an invalid pattern.
    public func rows<Record: FetchableRecord>(
        _ type: Record.Type = Record.self,
        in db: Database,
        matching pattern: String,
        limit: Int? = nil,
        offset: Int = 0
    ) throws -> [Record] {
        let stored = try stored(db)
        let joined = join(stored, as: Self.texts)
        let matches = matches(joined.sql, stored)
        let sql = "SELECT \(joined.base).* FROM \(matches) ORDER BY \(part("words")).rank LIMIT ? OFFSET ?"
        return try Record.fetchAll(db, sql: sql, arguments: [pattern, limit ?? -1, offset])
    }

    /// Returns the primary keys of the rows that match, the best match first, with a snippet of text around the match.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func matches(_ pattern: String, in db: Database, limit: Int? = nil, offset: Int = 0) throws -> [Match] {
        let stored = try stored(db)
        let keys = stored.keyColumns.map { "\(Self.texts).\($0.sqlName)" }.joined(separator: ", ")
        let sql = """
            SELECT \(part("words")).rank, snippet(\(part("words")), -1, '<b>', '</b>', '…', 16), \(keys)
            FROM \(matches("\(stored.schema).\(table) AS \(Self.texts)", stored)) ORDER BY \(part("words")).rank LIMIT ? OFFSET ?
            """
        return try Row.fetchAll(db, sql: sql, arguments: [pattern, limit ?? -1, offset]).map { row in
            Match(key: Array(row.databaseValues.dropFirst(2)), rank: row[0], snippet: row[1] ?? "")
        }
    }

    /// Returns the number of rows that match.
    ///
    /// - throws: ``DerivedTableError``, `DatabaseError`.
    public func count(matching pattern: String, in db: Database) throws -> Int {
        let stored = try stored(db)
        let sql = "SELECT count(*) FROM \(stored.schema).\(part("words")) WHERE \(part("words")) MATCH ?"
        return try Int.fetchOne(db, sql: sql, arguments: [pattern]) ?? 0
    }

    private func matches(_ tables: String, _ stored: StoredDerivedTable) -> String {
        let words = part("words")
        let join = "\(tables) JOIN \(stored.schema).\(words)"
        // A name of the rowid that no column hides.
        let taken = Set((stored.keyColumns + definition.columns.map(\.name)).map { $0.lowercased() })
        let rowID = ["rowid", "oid", "_rowid_"].first { !taken.contains($0) } ?? "rowid"
        return "\(join) ON \(Self.texts).\(rowID) = \(words).rowid WHERE \(words) MATCH ?"
    }

    /// A row that matches.
    public struct Match: Sendable, Equatable {
        /// The values of the primary key.
        public let key: [DatabaseValue]
        /// The rank of the match. A lower rank is better.
        public let rank: Double
        /// The text around the match, which is between `<b>` and `</b>`.
        public let snippet: String
    }
}
