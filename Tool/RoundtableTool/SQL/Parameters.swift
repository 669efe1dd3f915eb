import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

/// The values of `--param`, which are bound to the statements in the order in which these run.
struct Parameters: Equatable {
    private var positional: [DatabaseValue] = []
    private var named: [String: DatabaseValue] = [:]
    private var usedPositional = 0
    private var usedNames: Set<String> = []

    init(_ texts: [String] = []) {
        for text in texts {
            if let (name, value) = Self.assignment(text) {
                named[name] = Self.value(value)
            } else {
                positional.append(Self.value(text))
            }
        }
    }

    /// The parts of `:name=VALUE`, `@name=VALUE` or `$name=VALUE`.
    private static func assignment(_ text: String) -> (name: String, value: String)? {
        guard let sign = text.first, ":@$".contains(sign), let equals = text.firstIndex(of: "=") else { return nil }
        let name = text[..<equals]
        guard name.count > 1, name.dropFirst().allSatisfy({ $0.isLetter || $0.isNumber || $0 == "_" }) else {
            return nil
        }
        return (String(name), String(text[text.index(after: equals)...]))
    }

    /// Parses `NULL`, `x'…'`, `'…'`, and a number that is written exactly as SQLite would write it (so that nothing is lost in a text
    /// column). Everything else is text and stays as it is.
    static func value(_ text: String) -> DatabaseValue {
        if text == "NULL" { return .null }
        if let integer = Int64(text), String(integer) == text { return integer.databaseValue }
        if let real = Double(text), text.allSatisfy({ "-.0123456789".contains($0) }), "\(real)" == text {
            return real.databaseValue
        }
        guard text.count >= 2, text.hasSuffix("'") else { return text.databaseValue }
        if let literal = text.unquoted("'") { return literal.databaseValue }
        if text.hasPrefix("x'") || text.hasPrefix("X'"), let data = Data(hexadecimal: text.dropFirst(2).dropLast()) {
            return data.databaseValue
        }
        return text.databaseValue
    }

    /// Binds all parameters of a statement.
    mutating func bind(to statement: Statement) throws {
        let count = sqlite3_bind_parameter_count(statement.sqliteStatement)
        guard count > 0 else { return }
        let values = try (1...count).map { index in
            let name = sqlite3_bind_parameter_name(statement.sqliteStatement, index).map { String(cString: $0) }
            return try value(named: name, statement: statement)
        }
        try statement.setArguments(StatementArguments(values))
    }

    private mutating func value(named name: String?, statement: Statement) throws -> DatabaseValue {
        if let name, !name.hasPrefix("?") {
            guard let value = named[name] else {
                throw ToolError(
                    "no value for \(name): add --param \("\(name)=VALUE".shellQuoted). In: \(statement.sql)"
                )
            }
            usedNames.insert(name)
            return value
        }
        guard usedPositional < positional.count else {
            throw ToolError(
                """
                \(positional.isEmpty ? "no value" : "only \(positional.count) value(s)") for the parameters '?': \
                add --param VALUE for each. In: \(statement.sql)
                """
            )
        }
        defer { usedPositional += 1 }
        return positional[usedPositional]
    }

    /// Throws an error if there is a value that no statement used.
    func checkAllUsed() throws {
        if usedPositional < positional.count {
            throw ToolError("\(positional.count) values in --param, but the statements take \(usedPositional)")
        }
        if let name = named.keys.filter({ !usedNames.contains($0) }).min() {
            throw ToolError("--param \(name) is not a parameter of any statement")
        }
    }
}

extension Data {
    fileprivate init?(hexadecimal text: Substring) {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard digits[index] != UInt8(ascii: "+"), digits[index] != UInt8(ascii: "-"),
                let byte = UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(byte)
        }
        self.init(bytes)
    }
}
