import Foundation
import GRDB
import Roundtable
import RoundtableKernel

/// An error of the tool itself.
package struct ToolError: Error, Equatable, CustomStringConvertible {
    package let description: String
    /// 1: it failed; 2: what was found is bad; 128 and more: a signal ended it.
    package let exitCode: Int32

    package init(_ description: String, exitCode: Int32 = 1) {
        (self.description, self.exitCode) = (description, exitCode)
    }

    /// The one line that is printed for `error`.
    package static func line(for error: any Error) -> String {
        let text: String
        switch error {
        case let error as DatabaseError: text = describe(error)
        case SharedDatabaseError.notAFile(let path, Onlooker.noSuchFile):
            text = "\(path): \(Onlooker.noSuchFile). Check the path."
        case let error as SharedDatabaseError: text = error.description
        case let error as ContentReplacementError: text = error.description
        case let error as SnapshotFileError: text = error.description
        case let error as OutboxError: text = error.description
        case EncryptionError.databaseIsEncrypted(let path):
            text = "\(path): is encrypted, and this tool has no key. Use a program that has it."
        case let error as EncryptionError: text = error.description
        case let error as CocoaError: text = describe(error)
        default: text = SystemErrorAdvice.line(error) ?? "\(error)"
        }
        return text.split(whereSeparator: \.isNewline).joined(separator: " ")
    }

    /// Foundation's text says what happened and where. This adds the advice.
    private static func describe(_ error: CocoaError) -> String {
        guard let cause = error.underlying as? POSIXError else { return error.localizedDescription }
        return "\(error.localizedDescription) \(SystemErrorAdvice.next(cause.code.rawValue))."
    }

    /// What happened to a write that Ctrl-Z interrupted.
    package static func stopped(_ error: DatabaseError) -> String {
        let statement = error.sql.map { ", in: \(short($0))" } ?? ""
        return "rolled back, since the program was stopped (Ctrl-Z) while it wrote\(statement)"
    }

    private static func describe(_ error: DatabaseError) -> String {
        if error.isSuspension { return "\(stopped(error)). Run it again." }
        let text = error.message ?? "\(error.extendedResultCode)"
        // A BEGIN that SQLite or GRDB ran by themselves is not shown, because the user did not type it.
        guard let sql = error.sql, !sql.hasPrefix("BEGIN ") else { return text }
        return "\(text), in: \(short(sql))"
    }

    private static func short(_ sql: String) -> String {
        let line = sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return line.count <= 80 ? line : line.prefix(79) + "…"
    }
}
