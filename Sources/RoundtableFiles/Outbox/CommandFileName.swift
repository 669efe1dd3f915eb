import Foundation

/// The name of a command's file, which says who submitted the command and in what order (rule X1).
///
/// A folder may hold tens of thousands of such files, and is listed often. A name is therefore checked byte by byte, and parsed only
/// when a part of it is needed.
package struct CommandFileName: Hashable, Sendable {
    /// The name itself. All parts but the sender have a fixed width, so the names of one sender sort by their bytes.
    private let text: String
    /// The sender as file names have it, percent-encoded.
    package let encodedSender: String

    private static let ending = ".command"
    /// The form of epoch, stream, number and ending: `0` stands for a decimal digit, `x` for a hexadecimal one.
    private static let form = Array(".0000000000.xxxxxxxx.000000000000.command".utf8)
    private static let fixedLength = form.count
    package static let maximumSenderLength = 120

    package init?(sender: String, epoch: UInt64, stream: UInt32, number: UInt64) {
        func padded(_ text: String, _ width: Int) -> String {
            String(repeating: "0", count: max(0, width - text.utf8.count)) + text
        }
        guard let encoded = Self.encoded(sender) else { return nil }
        let epoch = padded("\(epoch)", 10)
        let order = "\(epoch).\(padded(String(stream, radix: 16), 8)).\(padded("\(number)", 12))"
        self.init("\(encoded).\(order)\(Self.ending)")
    }

    /// Checks a file name. The result is nil when the name is not of the form.
    package init?(_ name: String) {
        var name = name
        guard let length = name.withUTF8(Self.senderLength) else { return nil }
        text = name
        encodedSender = String(decoding: name.utf8.prefix(length), as: UTF8.self)
    }

    /// The length of the sender in a name; nil when the name is not of the form. The code uses loops alone, because they are fast in debug
    /// builds, too.
    private static func senderLength(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        let length = bytes.count - fixedLength
        guard length >= 1, length <= maximumSenderLength else { return nil }
        for index in 0..<length where !isOfSender(bytes[index]) { return nil }
        // The largest epochs are refused: counting never reaches them, and after the last one streams would have no order.
        guard bytes[length + 1] < UInt8(ascii: "9") else { return nil }
        for index in 0..<fixedLength {
            let byte = bytes[length + index]
            switch form[index] {
            case UInt8(ascii: "0"): guard isDigit(byte) else { return nil }
            case UInt8(ascii: "x"): guard isDigit(byte) || isHexadecimalLetter(byte) else { return nil }
            case let literal: guard byte == literal else { return nil }
            }
        }
        return length
    }

    /// The sender as file names have it, percent-encoded; nil when that is empty or too long.
    package static func encoded(_ sender: String) -> String? {
        var text = ""
        for byte in sender.utf8 {
            if isOfSender(byte), byte != UInt8(ascii: "%") {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                text += "%" + (digits.utf8.count == 1 ? "0" : "") + digits
            }
        }
        return (1...maximumSenderLength).contains(text.utf8.count) ? text : nil
    }

    /// The decoded sender; empty when its percent-encoding is not valid.
    package var sender: String { encodedSender.removingPercentEncoding ?? "" }

    package var epoch: UInt64 {
        let digits = text.utf8.dropFirst(encodedSender.utf8.count + 1).prefix(10)
        return digits.reduce(0) { $0 * 10 + UInt64($1 - UInt8(ascii: "0")) }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

    private static func isHexadecimalLetter(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "f")
    }

    private static func isOfSender(_ byte: UInt8) -> Bool { isOfSender[Int(byte)] }

    private static let isOfSender: [Bool] = {
        let allowed = Set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_%".utf8)
        return (0...UInt8.max).map(allowed.contains)
    }()
}

extension CommandFileName: Comparable {
    /// For the commands of one sender, this is the order in which they are applied.
    package static func < (one: Self, other: Self) -> Bool { one.text < other.text }
}

extension CommandFileName: CustomStringConvertible {
    package var description: String { text }
}
