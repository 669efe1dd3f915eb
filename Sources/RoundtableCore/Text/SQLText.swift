import Foundation
import GRDB
import GRDBSQLite

extension String {
    /// The string as an identifier of SQL.
    package var sqlName: String { quoted("\"") }
    /// The string as a text literal of SQL.
    package var sqlText: String { quoted("'") }

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
    /// The path of the main database; empty for a database in memory.
    package var filePath: String { sqlite3_db_filename(sqliteConnection, "main").map { String(cString: $0) } ?? "" }
}
