import Foundation
import GRDB
import GRDBSQLite

extension String {
    /// The string as an identifier of SQL.
    package var sqlName: String { quoted("\"") }
    /// The string as a text literal of SQL.
    package var sqlText: String { quoted("'") }

    /// The identifier or literal without its quotes; nil if it does not have them at both ends.
    package func unquoted(_ quote: Unicode.Scalar) -> String? {
        guard unicodeScalars.count >= 2, unicodeScalars.first == quote, unicodeScalars.last == quote else { return nil }
        var text = String.UnicodeScalarView()
        var isSecond = false
        for scalar in unicodeScalars.dropFirst().dropLast() {
            isSecond = scalar == quote && !isSecond
            if !isSecond { text.append(scalar) }
        }
        return String(text)
    }

    /// The quotes are found among the Unicode scalars, as SQLite finds them, because a quote with a combining accent is one Character.
    private func quoted(_ quote: Unicode.Scalar) -> String {
        var scalars = String.UnicodeScalarView([quote])
        for scalar in unicodeScalars {
            if scalar == quote { scalars.append(quote) }
            scalars.append(scalar)
        }
        scalars.append(quote)
        return String(scalars)
    }
}

extension Database {
    /// Whether other databases are attached to this connection, besides its own and the temporary one, which are the first two. No statement
    /// is needed for that.
    package var hasAttachedDatabases: Bool { sqliteConnection.map { sqlite3_db_name($0, 2) != nil } ?? false }

    /// The path of the main database; empty for a database in memory.
    package var filePath: String { sqlite3_db_filename(sqliteConnection, "main").map { String(cString: $0) } ?? "" }
}
