import Foundation

/// How values become bytes.
///
/// A publisher does not rewrite a file whose bytes stay the same, so equal values should have equal bytes. For this reason, JSON is
/// written with sorted keys. Dictionaries and sets that are encoded as arrays have no order of their own: sort them first.
public struct SnapshotEncoding<Value: Codable & Sendable>: Sendable {
    package let kind: SnapshotHeader.Encoding
    let encode: @Sendable (Value) throws -> Data
    let decode: @Sendable (Data, _ version: Int) throws -> Value

    /// JSON with sorted keys, written by Foundation's encoder. A value that JSON cannot express (a number that is not finite) cannot be
    /// encoded.
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

    /// A binary property list, which is smaller than JSON if the value has a lot of `Data`. The system chooses the order of keys, so an
    /// equal value may be written again.
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

    /// An encoding of your own: another format, an encoder with other settings, compression, encryption, or values of older versions.
    ///
    /// - Parameters:
    ///   - encode: returns the bytes of a value. Equal values should have equal bytes.
    ///   - decode: returns the value of these bytes. The version is the one that the writer gave, which the file accepts.
    public static func custom(
        encode: @escaping @Sendable (Value) throws -> Data,
        decode: @escaping @Sendable (_ data: Data, _ version: Int) throws -> Value
    ) -> Self {
        Self(kind: .other(0), encode: encode, decode: decode)
    }
}
