import Foundation
import GRDB

/// The values of a primary key, as the triggers store them.
enum HistoryKey {
    /// - parameter count: the number of columns of the key.
    static func values(of stored: DatabaseValue, count: Int, in encoding: TextEncoding) -> [DatabaseValue] {
        guard count > 1, case .string(let text) = stored.storage else { return [stored] }
        return literals(text, in: encoding)
    }

    /// The values of a list of literals, as SQLite's `quote()` writes them, and `CAST(X'…' AS TEXT)`.
    static func literals(_ list: String, in encoding: TextEncoding) -> [DatabaseValue] {
        var values: [DatabaseValue] = []
        var rest = Array(list.utf8)[...]
        while true {
            values.append(next(&rest, encoding))
            guard rest.first == UInt8(ascii: ",") else { return values }
            rest.removeFirst()
        }
    }

    private static func next(_ rest: inout ArraySlice<UInt8>, _ encoding: TextEncoding) -> DatabaseValue {
        switch rest.first {
        case UInt8(ascii: "'"):
            return String(decoding: quoted(&rest), as: UTF8.self).databaseValue
        case UInt8(ascii: "X"):
            rest.removeFirst()
            return bytes(quoted(&rest)).databaseValue
        case UInt8(ascii: "C"):
            rest.removeFirst(min(rest.count, "CAST(X".utf8.count))
            let text = encoding.text(bytes(quoted(&rest)))
            rest.removeFirst(min(rest.count, " AS TEXT)".utf8.count))
            return text.databaseValue
        default:
            let end = rest.firstIndex(of: UInt8(ascii: ",")) ?? rest.endIndex
            let word = String(decoding: rest[..<end], as: UTF8.self)
            rest = rest[end...]
            return number(word)
        }
    }

    private static func number(_ word: String) -> DatabaseValue {
        if let integer = Int64(word) { return integer.databaseValue }
        switch word {
        case "NULL": return .null
        case "Inf": return Double.infinity.databaseValue
        case "-Inf": return (-Double.infinity).databaseValue
        default: return Double(word)?.databaseValue ?? .null
        }
    }

    /// The content between two quotes. Two quotes inside of it stand for one.
    private static func quoted(_ rest: inout ArraySlice<UInt8>) -> [UInt8] {
        let quote = UInt8(ascii: "'")
        var content: [UInt8] = []
        _ = rest.popFirst()
        while let byte = rest.popFirst() {
            if byte == quote {
                guard rest.first == quote else { break }
                rest.removeFirst()
            }
            content.append(byte)
        }
        return content
    }

    private static func bytes(_ hexadecimal: [UInt8]) -> Data {
        var data = Data(capacity: hexadecimal.count / 2)
        for index in stride(from: 0, to: hexadecimal.count - 1, by: 2) {
            data.append(digit(hexadecimal[index]) << 4 | digit(hexadecimal[index + 1]))
        }
        return data
    }

    private static func digit(_ letter: UInt8) -> UInt8 {
        switch letter {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): letter - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): letter - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): letter - UInt8(ascii: "a") + 10
        default: 0
        }
    }
}
