import GRDB

/// Words of a table's rows, found by [FTS5](https://www.sqlite.org/fts5.html).
///
/// ```swift
/// let search = FullTextSearch("search", version: 1, of: "message", columns: [.init("subject"), .init("body")])
/// let found = try search.rows(Message.self, in: db, matching: "round AND table")
/// ```
///
/// The words' source is the extension's own table, which holds a copy of the columns: so a row can be taken out of the index by what it
/// was, whatever has become of it.
public struct FullTextSearch: SharedExtension {
    public let name: String
    public let version: Int
    public let definition: ExtensionDefinition
    public let functions: [DatabaseFunction]

    /// - Parameters:
    ///   - columns: of the table, or expressions.
    ///   - tokenizer: with its options, [as FTS5 has them](https://www.sqlite.org/fts5.html#tokenizers). Tokenizers of your own have to be added
    ///     to each connection, by `Options.configuration`.
    ///   - prefixes: lengths of beginnings of words that have an index of their own.
    public init(
        _ name: String,
        version: Int,
        of table: String,
        where filter: String? = nil,
        columns: [ExtensionDefinition.Column],
        tokenizer: String = "unicode61",
        prefixes: [Int] = [],
        functions: [DatabaseFunction] = []
    ) {
        self.name = name
        self.version = version
        self.functions = functions
        let projection = ExtensionNames.projection(name)
        let index = ExtensionNames.part(name, "words").sqlName
        let names = columns.map(\.name.sqlName)
        var options =
            names + ["content=\(projection.sqlText)", "content_rowid={rowid}", "tokenize=\(tokenizer.sqlText)"]
        if !prefixes.isEmpty { options.append("prefix=\(prefixes.map(String.init).joined(separator: " ").sqlText)") }
        func values(_ row: String) -> String { names.map { "\(row).\($0)" }.joined(separator: ", ") }
        let list = names.joined(separator: ", ")
        definition = ExtensionDefinition(
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

    /// The projection, in searches.
    private static let texts = "roundtable_texts"

    private struct Declaration: Encodable {
        var kind = "words"
        var of: String
        var `where`: String?
        var columns: [ExtensionDefinition.Column]
        var tokenizer: String
        var prefixes: [Int]
    }

    /// The rows that match, the best first.
    ///
    /// - parameter pattern: [a query of FTS5](https://www.sqlite.org/fts5.html#full_text_query_syntax). For what somebody has typed, use the
    ///   `rawPattern` of GRDB's `FTS5Pattern(matchingAllPrefixesIn:)`, and the like.
    /// - throws: ``ExtensionError``, `DatabaseError`: for a pattern that is none, too.
    public func rows<Record: FetchableRecord>(
        _ type: Record.Type = Record.self,
        in db: Database,
        matching pattern: String,
        limit: Int? = nil,
        offset: Int = 0
    ) throws -> [Record] {
        let joined = try join(db, as: Self.texts)
        let matches = matches(joined.sql, joined.schema, try stored(db).keyColumns)
        let sql = "SELECT \(joined.base).* FROM \(matches) ORDER BY \(part("words")).rank LIMIT ? OFFSET ?"
        return try Record.fetchAll(db, sql: sql, arguments: [pattern, limit ?? -1, offset])
    }

    /// The primary keys of rows that match, the best first, with a piece of text around what was found.
    public func matches(_ pattern: String, in db: Database, limit: Int? = nil, offset: Int = 0) throws -> [Match] {
        let stored = try stored(db)
        let keys = stored.keyColumns.map { "\(Self.texts).\($0.sqlName)" }.joined(separator: ", ")
        let sql = """
            SELECT \(part("words")).rank, snippet(\(part("words")), -1, '<b>', '</b>', '…', 16), \(keys)
            FROM \(matches("\(stored.schema).\(table) AS \(Self.texts)", stored.schema, stored.keyColumns)) ORDER BY \(part("words")).rank LIMIT ? OFFSET ?
            """
        return try Row.fetchAll(db, sql: sql, arguments: [pattern, limit ?? -1, offset]).map { row in
            Match(key: Array(row.databaseValues.dropFirst(2)), rank: row[0], snippet: row[1] ?? "")
        }
    }

    /// How many rows match.
    public func count(matching pattern: String, in db: Database) throws -> Int {
        let stored = try stored(db)
        let sql = "SELECT count(*) FROM \(stored.schema).\(part("words")) WHERE \(part("words")) MATCH ?"
        return try Int.fetchOne(db, sql: sql, arguments: [pattern]) ?? 0
    }

    private func matches(_ tables: String, _ schema: String, _ keyColumns: [String]) -> String {
        let words = part("words")
        // A name of the rowid that no column has taken.
        let taken = Set((keyColumns + definition.columns.map(\.name)).map { $0.lowercased() })
        let rowID = ["rowid", "oid", "_rowid_"].first { !taken.contains($0) } ?? "rowid"
        return "\(tables) JOIN \(schema).\(words) ON \(Self.texts).\(rowID) = \(words).rowid WHERE \(words) MATCH ?"
    }

    /// A row that was found.
    public struct Match: Sendable, Equatable {
        /// The values of the primary key.
        public let key: [DatabaseValue]
        /// The lower, the better.
        public let rank: Double
        /// Words around what was found, which is between `<b>` and `</b>`.
        public let snippet: String
    }
}
