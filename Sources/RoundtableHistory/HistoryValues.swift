import Foundation
import GRDB
import RoundtableCore

/// The values of the tables of the history. Any program can write any values there, so none of them may end the process that reads it.
extension Row {
    /// - throws: `SQLITE_CORRUPT` when the column has a value of another type.
    func historyValue<T: DatabaseValueConvertible>(_ column: String, _ db: Database) throws -> T {
        do {
            return try decode(T.self, forColumn: column)
        } catch {
            throw DatabaseError.strangeHistoryValue(in: column, db)
        }
    }

    /// The value of a column of `roundtable_history_tables` that has JSON.
    ///
    /// - throws: `SQLITE_CORRUPT` when the column has something else.
    func historyJSON<T: Decodable>(_ column: String, _ db: Database) throws -> T {
        let text: String = try historyValue(column, db)
        do {
            return try JSONDecoder().decode(T.self, from: Data(text.utf8))
        } catch {
            throw DatabaseError.strangeHistoryValue(in: "roundtable_history_tables.\(column)", db)
        }
    }
}

extension DatabaseError {
    fileprivate static func strangeHistoryValue(in column: String, _ db: Database) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_CORRUPT,
            message: """
                \(db.filePath): the tables of the history have a value in '\(column)' that Roundtable did not write: delete the \
                tables of the history, and enable it again
                """
        )
    }
}

extension Int64 {
    func addingSaturating(_ other: Int64) -> Int64 {
        let (sum, isTooLarge) = addingReportingOverflow(other)
        return isTooLarge ? (other > 0 ? .max : .min) : sum
    }

    func subtractingSaturating(_ other: Int64) -> Int64 {
        let (difference, isTooLarge) = subtractingReportingOverflow(other)
        return isTooLarge ? (other > 0 ? .min : .max) : difference
    }
}

extension Duration {
    /// A stored number of seconds, as the nearest one between 0 and a thousand years.
    init(storedSeconds seconds: Double) { self = .seconds(seconds > 0 ? min(seconds, 31_557_600_000) : 0) }
}
