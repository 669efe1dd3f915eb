import Foundation

/// How values become bytes.
///
/// A publisher leaves a file alone whose bytes stay the same, so equal values should have equal bytes: JSON is written with sorted keys.
/// Dictionaries and sets that are encoded as arrays have no order of their own: sort them first.
public struct SnapshotEncoding<Value: Codable & Sendable>: Sendable {
    let kind: SnapshotHeader.Encoding
    let encode: @Sendable (Value) throws -> Data
    let decode: @Sendable (Data, _ version: Int) throws -> Value

    /// JSON with sorted keys, by Foundation's encoder as it is. What JSON cannot express (a number that is not finite) cannot be encoded.
    public static var json: Self {
        Self(
            kind: .json,
            encode: { value in
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
                return try encoder.encode(value)
            },
            decode: { data, _ in try JSONDecoder().decode(Value.self, from: data) }
        )
    }

    /// A binary property list: smaller than JSON where there is a lot of `Data`. The order of keys is the system's, so that equal values may be
    /// written again.
    public static var propertyList: Self {
        Self(
            kind: .propertyList,
            encode: { value in
                let encoder = PropertyListEncoder()
                encoder.outputFormat = .binary
                return try encoder.encode(value)
            },
            decode: { data, _ in try PropertyListDecoder().decode(Value.self, from: data) }
        )
    }

    /// Your own: another format, an encoder that is set up otherwise, compression, encryption, or values of older versions.
    ///
    /// - Parameters:
    ///   - encode: makes the bytes of a value, equal ones of equal values.
    ///   - decode: the reverse; also told the version that the writer has given, which is one of those that the file accepts.
    public static func custom(
        encode: @escaping @Sendable (Value) throws -> Data,
        decode: @escaping @Sendable (_ data: Data, _ version: Int) throws -> Value
    ) -> Self {
        Self(kind: .other(0), encode: encode, decode: decode)
    }
}
