import Foundation

/// Which value a file of rule Z1 holds: sequence and token of its header, as the names of objects have them.
struct StoreMark: Hashable, Sendable {
    let sequence: UInt64
    let token: UInt64

    init(sequence: UInt64, token: UInt64) { (self.sequence, self.token) = (sequence, token) }

    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let sequence = UInt64(digits: parts[0]), let token = UInt64(digits: parts[1]) else {
            return nil
        }
        self.init(sequence: sequence, token: token)
    }

    /// Whether a writer that has written this value has not written `other`: so another one with the same files has (rule Z9).
    func isForeign(_ other: StoreMark) -> Bool {
        other.sequence > sequence || other.sequence == sequence && other.token != token
    }
}

extension StoreMark: CustomStringConvertible {
    var description: String { "\(sequence.digits)-\(token.digits)" }
}

extension StoreMark: Codable {
    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let mark = StoreMark(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "'\(text)' is no mark")
        }
        self = mark
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension UInt64 {
    /// 16 lower-case hexadecimal digits.
    var digits: String {
        let text = String(self, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }

    init?(digits: some StringProtocol) {
        guard digits.utf8.count == 16, let number = UInt64(digits, radix: 16), number.digits == digits else {
            return nil
        }
        self = number
    }
}
