import Foundation
import GRDB
import RoundtableCore

extension HistoryState {
    /// Reads a page of changes in the order of `sequence`, which is the order of the commits (rule H9).
    ///
    /// - parameter names: the names of the tables to read; nil for all tables.
    func page(_ db: Database, after token: HistoryToken, in names: [String]?, limit: Int) throws -> HistoryPage {
        let chosen = try chosen(db, names)
        try check(token, chosen)
        let limit = max(1, limit)
        let filter = names == nil ? "" : "AND table_id IN (\(chosen.map { "\($0.id)" }.joined(separator: ", ")))"
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT sequence, transaction_id, author, time, table_id, operation, row_key, columns,
                    \(tables.contains(where: \.canKeepValues) ? "old_values" : "NULL AS old_values")
                FROM main.roundtable_history
                WHERE sequence > ? AND operation <> 'gap' \(filter)
                ORDER BY sequence LIMIT ?
                """,
            arguments: [token.sequence, limit == .max ? limit : limit + 1]
        )
        let hasMore = rows.count > limit
        let kept = hasMore ? Self.wholeTransactions(rows, limit: limit) : rows
        var reader = try RowReader(db, identity: identity, tables: tables)
        let changes = try kept.map { try reader.change(db, $0) }
        let end = hasMore ? changes.last?.token : nil
        return HistoryPage(changes: changes, token: end ?? lastToken, hasMore: hasMore)
    }

    /// The token after which the last `count` changes follow, or as many as are kept after the last gap.
    func token(_ db: Database, beforeLast count: Int, in tables: [String]?) throws -> HistoryToken {
        let ids = try chosen(db, tables).map { "\($0.id)" }.joined(separator: ", ")
        let sequence = try Int64.fetchOne(
            db,
            sql: """
                SELECT sequence FROM main.roundtable_history
                WHERE operation <> 'gap' \(tables == nil ? "" : "AND table_id IN (\(ids))")
                ORDER BY sequence DESC LIMIT 1 OFFSET ?
                """,
            arguments: [max(1, count) - 1]
        )
        let oldest = try oldestToken(db, in: tables)
        return HistoryToken(
            identity: identity,
            sequence: max(oldest.sequence, sequence.map { $0.subtractingSaturating(1) } ?? 0)
        )
    }

    /// Returns the first `limit` rows, without those of a transaction that continues after them, unless it is the only transaction.
    private static func wholeTransactions(_ rows: [Row], limit: Int) -> [Row] {
        let kept = Array(rows.prefix(limit))
        let cut: DatabaseValue = rows[limit]["transaction_id"]
        if cut.isNull { return kept }
        let end = kept.lastIndex { $0["transaction_id"] != cut }
        return end.map { Array(kept[...$0]) } ?? kept
    }

    /// Converts rows to changes.
    private struct RowReader {
        let identity: String
        let tables: [Int64: TrackedTable]
        let encoding: TextEncoding
        private var columns: [Int64: [String]] = [:]

        init(_ db: Database, identity: String, tables: [TrackedTable]) throws {
            self.identity = identity
            encoding = try TextEncoding(db)
            self.tables = Dictionary(uniqueKeysWithValues: tables.map { ($0.id, $0) })
        }

        mutating func change(_ db: Database, _ row: Row) throws -> HistoryChange {
            let word: String = try row.historyValue("operation", db)
            let sequence: Int64 = try row.historyValue("sequence", db)
            guard let table = tables[try row.historyValue("table_id", db)],
                let operation = HistoryChange.Operation(rawValue: word)
            else {
                throw DatabaseError(
                    resultCode: .SQLITE_CORRUPT,
                    message: """
                        \(db.filePath): roundtable_history has a row (sequence \(sequence)) that Roundtable did not write: \
                        delete the tables of the history, and enable it again
                        """
                )
            }
            let mask: Int64? = try row.historyValue("columns", db)
            return HistoryChange(
                token: HistoryToken(identity: identity, sequence: sequence),
                transaction: try row.historyValue("transaction_id", db),
                author: try row.historyValue("author", db),
                date: Date(timeIntervalSince1970: try row.historyValue("time", db)),
                table: table.name,
                operation: operation,
                key: HistoryKey.values(of: row["row_key"], count: table.keyColumns.count, in: encoding),
                keyColumns: table.keyColumns,
                columns: try mask.flatMap { try changedColumns(db, $0, of: table) },
                oldValues: oldValues(try row.historyValue("old_values", db), of: table)
            )
        }

        // Rule H13b: `old_values` is NULL, or a list of pairs: the id of the column, a comma, the value as an SQL literal, a comma. A value
        // `v` is left out if `length(CAST(v AS BLOB))` is more than 1,000,000: a text is measured in bytes, in the encoding of the
        // database, and what follows a zero character counts. (Generation 2 had `length(v)`.) Readers report the present name of each
        // column.

        /// Decodes the list that the triggers write: for each column its id and its value (rule H13b). A later declaration of a column of
        /// the same name has a greater id.
        private func oldValues(_ list: String?, of table: TrackedTable) -> [String: DatabaseValue] {
            guard let list, !list.isEmpty else { return [:] }
            let items = HistoryKey.literals(list, in: encoding)
            var values: [String: DatabaseValue] = [:]
            for start in stride(from: 0, to: items.count - 1, by: 2) {
                guard let id = Int.fromDatabaseValue(items[start]) else { continue }
                guard let column = table.kept.first(where: { $0.id == id }) else { continue }
                values[column.name] = items[start + 1]
            }
            return values
        }

        /// Returns the changed columns; nil unless all present columns of the table were compared when the change was recorded (rule
        /// H6).
        private mutating func changedColumns(_ db: Database, _ mask: Int64, of table: TrackedTable) throws -> Set<
            String
        >? {
            let names: [String]
            if let known = columns[table.id] {
                names = known
            } else {
                let rows = try Row.fetchAll(db, sql: "PRAGMA main.table_xinfo(\(table.name.sqlName))")
                names = rows.filter { $0["hidden"] != 1 }.map { $0["name"] }
                columns[table.id] = names
            }
            guard mask > 0, names.count <= HistoryTriggers.maximumColumnCount, mask >> names.count == 1 else {
                return nil
            }
            return Set(names.indices.filter { mask & (1 << $0) != 0 }.map { names[$0] })
        }
    }
}
