import Foundation
import GRDB
import Roundtable

/// The place where a caller wants the error message; NULL for no message.
public typealias ErrorOutput = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?

/// `ROUNDTABLE_NO_CHANGE`.
let noChange: CInt = 101

struct MissingArgument: Error, CustomStringConvertible {
    var what = "a required argument is NULL: roundtable.h says which arguments may be"
    var description: String { what }
}

/// The database was closed during a wait for a change. It is reported as `ROUNDTABLE_DETACHED`.
struct ClosedMeanwhile: Error, CustomStringConvertible {
    let path: String
    var description: String {
        "\(path): the database was closed during the wait for a change. Open it again to wait for more changes."
    }
}

/// Reads a C string.
///
/// - throws: `MissingArgument` when the string is not UTF-8. Repairing it would make it another name.
func text(_ pointer: UnsafePointer<CChar>, _ what: String) throws -> String {
    guard let text = String(validatingCString: pointer) else {
        throw MissingArgument(what: "\(what): not UTF-8: '\(String(cString: pointer))'")
    }
    return text
}

/// The largest accepted number of tables. No database has more, so a larger length was computed wrongly.
private let mostTables = 100_000

func tableNames(_ tables: UnsafePointer<UnsafePointer<CChar>?>?, count: Int) throws -> Set<String>? {
    guard let tables else { return nil }
    // A `size_t` beyond `Int` arrives as a negative number.
    guard 0...mostTables ~= count else {
        throw MissingArgument(
            what: """
                count: \(UInt(bitPattern: count)) tables are too many, \(mostTables) are allowed. For any table, tables is NULL
                """
        )
    }
    return try Set(
        (0..<count).map { index in
            guard let name = tables[index] else { throw MissingArgument(what: "tables: the name at \(index) is NULL") }
            return try text(name, "tables")
        }
    )
}

/// Runs `body`, and converts the error that it throws to a message and a result code for C.
func reporting(to output: ErrorOutput, _ body: () throws -> Void) -> CInt {
    output?.pointee = nil
    do {
        try body()
        return 0
    } catch {
        output?.pointee = strdup("\(error)")
        return switch error {
        case let error as RawHandleError: error.code
        case let error as DatabaseError: error.extendedResultCode.rawValue
        case let error as ClosedMeanwhile: RawHandleError.detached(path: error.path).code
        case is MissingArgument: ResultCode.SQLITE_MISUSE.rawValue
        default: ResultCode.SQLITE_ERROR.rawValue
        }
    }
}
