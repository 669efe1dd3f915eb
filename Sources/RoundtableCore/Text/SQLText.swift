import Foundation
import GRDB
import GRDBSQLite

extension String {
    /// The string as an identifier of SQL.
    package var sqlName: String { "\"" + replacingOccurrences(of: "\"", with: "\"\"") + "\"" }
    /// The string as a text literal of SQL.
    package var sqlText: String { "'" + replacingOccurrences(of: "'", with: "''") + "'" }
}

extension Database {
    /// The path of the main database; empty for a database in memory.
    package var filePath: String { sqlite3_db_filename(sqliteConnection, "main").map { String(cString: $0) } ?? "" }
}
