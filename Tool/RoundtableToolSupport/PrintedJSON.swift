import Foundation

/// JSON as all verbs print it: sorted keys, dates of ISO 8601, and an escape for each character that could control a terminal.
package enum PrintedJSON {
    /// The version of the objects that verbs print. A later version may add keys without another number.
    package static let format = 1

    /// An object that a verb prints: the value with the key `format`.
    ///
    /// The parameters are those of ``text(_:isPretty:inSnakeCase:)``.
    package static func object(
        _ value: some Encodable,
        isPretty: Bool = false,
        inSnakeCase: Bool = false
    ) -> String {
        text(Numbered(value: value), isPretty: isPretty, inSnakeCase: inSnakeCase)
    }

    /// The object for an error that ends a verb.
    package static func error(_ message: String, exitCode: Int32) -> String {
        struct Failure: Encodable {
            struct Reason: Encodable {
                let message: String
                let exitCode: Int32
            }
            let error: Reason
        }
        return object(Failure(error: Failure.Reason(message: message, exitCode: exitCode)), inSnakeCase: true)
    }

    private struct Numbered<Value: Encodable>: Encodable {
        let value: Value

        private enum CodingKeys: CodingKey { case format }

        func encode(to encoder: any Encoder) throws {
            try value.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(PrintedJSON.format, forKey: .format)
        }
    }

    /// A moment as ISO 8601 in UTC, with milliseconds.
    package static func moment(_ date: Date) -> String {
        date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }

    /// - Parameters:
    ///   - value: a value that always encodes.
    ///   - isPretty: whether the text has several lines.
    ///   - inSnakeCase: whether the keys of the value are converted, as `nextTry` to `next_try`.
    /// - returns: the text with a line end.
    package static func text(_ value: some Encodable, isPretty: Bool = false, inSnakeCase: Bool = false) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        if isPretty { encoder.outputFormatting.insert(.prettyPrinted) }
        encoder.dateEncodingStrategy = .iso8601
        if inSnakeCase { encoder.keyEncodingStrategy = .convertToSnakeCase }
        // Tables and files of others may hold an infinite number, which has no form in JSON.
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "Infinity",
            negativeInfinity: "-Infinity",
            nan: "NaN"
        )
        guard let data = try? encoder.encode(value) else { preconditionFailure("it is always JSON") }
        return text(data)
    }

    /// - parameter object: an object that `JSONSerialization` takes.
    package static func text(object: Any, isPretty: Bool) throws -> String {
        var options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed]
        if isPretty { options.insert(.prettyPrinted) }
        return text(try JSONSerialization.data(withJSONObject: object, options: options))
    }

    private static func text(_ data: Data) -> String { String(decoding: data, as: UTF8.self).visibleJSON + "\n" }
}
