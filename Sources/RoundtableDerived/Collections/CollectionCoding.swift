import Foundation
import GRDB

/// How the values of a ``KeyValueCollection`` are stored.
public struct CollectionCoding<Value: Codable & Sendable>: Sendable {
    /// Whether SQLite's JSON functions can read the stored values.
    let isJSON: Bool
    let column: String
    let encode: @Sendable (Value) throws -> DatabaseValue
    let decode: @Sendable (DatabaseValue) throws -> Value

    /// A coding of your own.
    ///
    /// Equal values should have equal encodings, because a value that is already stored is not written again.
    ///
    /// - Parameters:
    ///   - isJSON: whether values are stored as JSON text.
    ///   - encode: encodes a value.
    ///   - decode: decodes a value.
    public init(
        isJSON: Bool = false,
        encode: @escaping @Sendable (Value) throws -> DatabaseValue,
        decode: @escaping @Sendable (DatabaseValue) throws -> Value
    ) {
        self.isJSON = isJSON
        column = isJSON ? "TEXT" : "BLOB"
        self.encode = encode
        self.decode = decode
    }

    /// JSON text with sorted keys, and dates in milliseconds since 1970, as GRDB stores `Codable` properties of records.
    public static var json: CollectionCoding {
        json(
            encoder: {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
                encoder.dateEncodingStrategy = .millisecondsSince1970
                return encoder
            },
            decoder: {
                let decoder = JSONDecoder()
                decoder.dateDecodingStrategy = .millisecondsSince1970
                return decoder
            }
        )
    }

    /// JSON text by coders of your own. The encoder should sort keys, so that equal values have equal encodings.
    public static func json(
        encoder: @escaping @Sendable () -> JSONEncoder,
        decoder: @escaping @Sendable () -> JSONDecoder
    ) -> CollectionCoding {
        CollectionCoding(isJSON: true) { value in
            String(decoding: try encoder().encode(value), as: UTF8.self).databaseValue
        } decode: { stored in
            try decoder().decode(Value.self, from: Self.data(stored))
        }
    }

    /// Binary property lists. SQL cannot read their contents.
    public static var propertyList: CollectionCoding {
        CollectionCoding { value in
            let encoder = PropertyListEncoder()
            encoder.outputFormat = .binary
            return try encoder.encode(value).databaseValue
        } decode: { stored in
            try PropertyListDecoder().decode(Value.self, from: Self.data(stored))
        }
    }

    private static func data(_ stored: DatabaseValue) throws -> Data {
        switch stored.storage {
        case .blob(let data): return data
        case .string(let text): return Data(text.utf8)
        case .null, .int64, .double:
            let context = DecodingError.Context(
                codingPath: [],
                debugDescription: "stored as \(stored), not as text or a blob"
            )
            throw DecodingError.dataCorrupted(context)
        }
    }
}
