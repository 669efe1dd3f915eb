import Foundation

/// JSON as all verbs print it: sorted keys, dates of ISO 8601, and an escape for each character that could control a terminal.
package enum PrintedJSON {
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
