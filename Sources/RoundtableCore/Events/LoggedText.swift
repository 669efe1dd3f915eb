import Foundation
import GRDB
import RoundtableKernel

/// An error whose text in a log differs from its description, because the description may hold values of the user's.
package protocol LoggedError: Error {
    var loggedText: String { get }
}

/// The texts of errors for logs. A log is read by people who may not read the database, so a text holds no values of rows, keys and
/// commands.
package enum LoggedText {
    /// SQLite's results whose messages come from SQLite, from the system, or from Roundtable. The messages of others may quote a statement,
    /// a search, or a text that a trigger has raised.
    private static let codes: [ResultCode] = [
        .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_CORRUPT,
        .SQLITE_NOTADB,
        .SQLITE_NOMEM, .SQLITE_PROTOCOL, .SQLITE_INTERRUPT, .SQLITE_PERM, .SQLITE_MISUSE,
    ]

    /// The text of an error: the description of an error of Roundtable's; SQLite's result, without the statement; and the type of any
    /// other error, because only its program knows what its description holds.
    package static func of(_ error: any Error) -> String {
        switch error {
        case let error as any LoggedError: error.loggedText
        case let error as DatabaseError: database(error)
        default: "an error of the type \(String(reflecting: type(of: error)))"
        }
    }

    /// A path as a part of one line.
    package static func of(path: String) -> String { path.withVisibleControls }

    private static func database(_ error: DatabaseError) -> String {
        // Without a message, the initializer takes SQLite's own text for the code.
        let own = codes.contains(error.resultCode) ? error.message : nil
        let message = own ?? DatabaseError(resultCode: error.resultCode).message ?? "unknown error"
        return "\(message) (SQLite error \(error.extendedResultCode.rawValue))"
    }
}

extension SystemError: LoggedError {
    package var loggedText: String { description }
}

extension SharedDatabaseError: LoggedError {
    package var loggedText: String { description }
}

extension EncryptionError: LoggedError {
    package var loggedText: String {
        switch self {
        case .saltUnavailable(let path, let store, let underlying):
            "\(path): its salt is not available (\(store)): \(LoggedText.of(underlying)). Open the database again when it can"
        case .keyUnavailable(let path, let underlying):
            "\(path): its key is not available: \(LoggedText.of(underlying)). Open the database again when it can"
        case .invalidKey(let path, _): "\(path): the given key is not valid. The database was not touched"
        default: description
        }
    }
}
