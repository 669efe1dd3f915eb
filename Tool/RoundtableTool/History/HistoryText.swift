import Foundation
import GRDB
import Roundtable
import RoundtableToolSupport

/// Changes and consumers as text, for people and for programs.
enum HistoryText {
    // MARK: For people

    private static func table(_ changes: [HistoryChange], withOldValues: Bool) -> TextTable {
        var table = TextTable(columns: [
            ("sequence", .right), ("time", .left), ("author", .left), ("table", .left), ("operation", .left),
            ("key", .left),
            ("columns", .left),
        ])
        if withOldValues { table.columns.append(("old values", .left)) }
        table.rows = changes.map { change in
            [
                "\(change.sequence)", change.date.formatted(.iso8601), change.author ?? "(unknown)", change.table,
                change.operation.rawValue, change.key.map(\.visible).joined(separator: ", "),
                change.columns?.sorted().joined(separator: ", ") ?? "",
            ] + (withOldValues ? [oldValues(of: change)] : [])
        }
        return table
    }

    /// The changes of a page while they are followed. The columns have the widths that the first page needs.
    ///
    /// - Parameters:
    ///   - layout: nil at the first page, which has the header.
    ///   - width: the columns of the terminal; nil: any number.
    static func followed(_ page: HistoryPage, _ layout: inout TextTable.Layout?, in width: Int? = nil) -> [StyledText] {
        // The header is printed before it is known whether a later change has old values.
        let table = table(page.changes, withOldValues: true)
        // The first page may be empty. On a terminal, each time and most authors then still have room.
        let minimums = width == nil ? [:] : ["time": 20, "author": "(unknown)".count]
        return table.styledLines(continuing: &layout, in: width, minimums: minimums)
    }

    /// - parameter width: the columns of the terminal; nil: any number.
    static func table(_ page: HistoryPage, in width: Int? = nil) -> [StyledText] {
        // Most histories keep no values.
        let table = table(page.changes, withOldValues: page.changes.contains { !$0.oldValues.isEmpty })
        let lines = table.styledLines(in: width) + (page.changes.isEmpty ? ["(no changes)"] : [])
        return lines + [
            "", StyledText(page.hasMore ? "There are more: --since \(page.token)" : "Token: \(page.token)"),
        ]
    }

    private static func oldValues(of change: HistoryChange) -> String {
        change.oldValues.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.visible)" }.joined(separator: ", ")
    }

    /// - parameter width: the columns of the terminal; nil: any number.
    static func table(_ consumers: [HistoryConsumer], in width: Int? = nil) -> [StyledText] {
        var table = TextTable(columns: [
            ("consumer", .left), ("token", .left), ("backlog", .right), ("last seen", .left), ("state", .left),
        ])
        table.rows = consumers.map { consumer in
            [
                consumer.name, "\(consumer.token)", consumer.backlog.grouped, consumer.lastSeen.formatted(.iso8601),
                consumer.state.rawValue,
            ]
        }
        return table.styledLines(in: width) + (consumers.isEmpty ? ["(no consumers)"] : [])
    }

    // MARK: For programs

    static func lines(_ page: HistoryPage) -> String {
        page.changes.map { json(Change($0)) }.joined() + json(End(token: page.token, hasMore: page.hasMore))
    }

    /// The changes of a page without the line at its end.
    static func followedLines(_ page: HistoryPage) -> String { page.changes.map { json(Change($0)) }.joined() }

    static func lines(_ consumers: [HistoryConsumer]) -> String {
        consumers.map { consumer in
            json(
                Consumer(
                    consumer: consumer.name,
                    token: consumer.token,
                    backlog: consumer.backlog,
                    lastSeen: consumer.lastSeen,
                    state: consumer.state
                )
            )
        }.joined()
    }

    private static func json(_ value: some Encodable) -> String { PrintedJSON.object(value, inSnakeCase: true) }

    private struct Change: Encodable {
        let token: HistoryToken
        let sequence: Int64
        let transaction: Int64?
        let author: String?
        let time: String
        let table: String
        let operation: String
        /// The key's values by column.
        let key: [String: Value]
        let columns: [String]?
        /// The old values by column; left out if there are none.
        let oldValues: [String: Value]?

        init(_ change: HistoryChange) {
            token = change.token
            sequence = change.sequence
            transaction = change.transaction
            author = change.author
            time = PrintedJSON.moment(change.date)
            table = change.table
            operation = change.operation.rawValue
            key = Dictionary(zip(change.keyColumns, change.key.map(Value.init))) { first, _ in first }
            columns = change.columns?.sorted()
            oldValues = change.oldValues.isEmpty ? nil : change.oldValues.mapValues(Value.init)
        }
    }

    private struct End: Encodable {
        let token: HistoryToken
        let hasMore: Bool
    }

    private struct Consumer: Encodable {
        let consumer: String
        let token: HistoryToken
        let backlog: Int
        let lastSeen: Date
        let state: HistoryConsumer.State
    }

    /// A value in the same form as the verb `sql` prints it: a BLOB is `{"base64": …}`.
    private struct Value: Encodable {
        let value: DatabaseValue

        init(_ value: DatabaseValue) { self.value = value }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch value.storage {
            case .null: try container.encodeNil()
            case .int64(let number): try container.encode(number)
            case .double(let number): try container.encode(number)
            case .string(let text): try container.encode(text)
            case .blob(let data): try container.encode(["base64": data.base64EncodedString()])
            }
        }
    }
}
