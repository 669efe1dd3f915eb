import Foundation

/// Why the content of a database cannot be replaced by that of another file. Nothing was changed.
public enum ContentReplacementError: Error, Equatable, Sendable {
    /// There is no such file, or it is empty or no database.
    case notADatabase(source: String, reason: String)

    /// The source is the file of the database itself, perhaps by another name.
    case sameFile(path: String, source: String)

    /// SQLite's `PRAGMA quick_check` has found damage in the source.
    case damaged(source: String, finding: String)

    /// The database and the source have different page sizes. SQLite cannot change that of a database in WAL mode.
    case otherPageSize(path: String, pageSize: Int, source: String, sourcePageSize: Int)

    /// The database and the source have different text encodings.
    case otherEncoding(path: String, encoding: String, source: String, sourceEncoding: String)

    /// The database or the source is encrypted.
    case encrypted(path: String)

    /// The source has none of the migrations of this program's schema: it is the database of another program.
    case otherProgram(source: String)
}

extension ContentReplacementError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .notADatabase(let source, let reason):
            "\(source): \(reason). Nothing was changed. Give the path of a SQLite database."
        case .sameFile(let path, let source):
            "\(source): is the database itself (\(path)). Nothing was changed. Give the path of another database."
        case .damaged(let source, let finding):
            """
            \(source): is damaged: \(finding). Nothing was changed. Give another backup; what can be saved of this one, the sqlite3 shell shows \
            with .recover.
            """
        case .otherPageSize(let path, let pageSize, let source, let sourcePageSize):
            """
            \(source): has pages of \(sourcePageSize) bytes, and \(path) has pages of \(pageSize), which SQLite cannot change in WAL mode. \
            Nothing was changed. Give a copy of the source with that size: sqlite3 SOURCE "PRAGMA page_size = \(pageSize); VACUUM INTO 'COPY'".
            """
        case .otherEncoding(let path, let encoding, let source, let sourceEncoding):
            """
            \(source): has text in \(sourceEncoding), and \(path) in \(encoding), which SQLite cannot change. Nothing was changed. Copy the \
            rows by SQL.
            """
        case .encrypted(let path):
            """
            \(path): is encrypted, and the content of encrypted databases cannot be replaced. Nothing was changed. Copy the rows by SQL, or end \
            all programs and replace the files.
            """
        case .otherProgram(let source):
            """
            \(source): has none of this program's migrations, so it is the database of another program. Nothing was changed. Give a database \
            of this program.
            """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .notADatabase: "The file is no database."
        case .sameFile: "The file is the database itself."
        case .damaged: "The file is damaged."
        case .otherProgram: "The file is of another program."
        case .otherPageSize, .otherEncoding, .encrypted: "The database cannot be replaced by this file."
        }
    }

    public var failureReason: String? { "Nothing was changed." }
}
