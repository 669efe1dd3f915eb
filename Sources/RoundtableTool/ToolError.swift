import Foundation
import GRDB
import Roundtable

/// An error of the tool itself.
struct ToolError: Error, Equatable, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }

    /// What is printed for `error`: one line.
    static func line(for error: any Error) -> String {
        let text: String
        switch error {
        case let error as DatabaseError: text = describe(error)
        case let error as SharedDatabaseError: text = error.description
        case let error as CocoaError: text = error.localizedDescription
        default: text = "\(error)"
        }
        return text.split(whereSeparator: \.isNewline).joined(separator: " ")
    }

    private static func describe(_ error: DatabaseError) -> String {
        let text = error.message ?? "\(error.extendedResultCode)"
        // What SQLite or GRDB began by themselves says nothing to whoever typed other SQL.
        guard let sql = error.sql, !sql.hasPrefix("BEGIN ") else { return text }
        let line = sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return "\(text), in: \(line.count <= 80 ? line : line.prefix(79) + "…")"
    }
}
