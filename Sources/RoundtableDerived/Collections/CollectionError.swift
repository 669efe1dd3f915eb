import Foundation
import RoundtableCore

/// An error of a key, value or metadata of a ``KeyValueCollection``. Errors of SQLite are GRDB's `DatabaseError`.
public enum CollectionError: Error, Sendable {
    /// The stored data cannot be decoded as the type. Another version of the program, or another program, may have stored it. Often, it
    /// lacks a property that was added to the type: give new properties a default in `init(from:)`.
    case undecodable(collection: String, key: String, part: Part, reason: String)

    /// The key, value or metadata cannot be stored. Often, it contains NaN or infinity, which JSON does not have.
    case unencodable(collection: String, key: String, part: Part, reason: String)

    public enum Part: String, Sendable {
        case key, value, metadata
    }
}

extension CollectionError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .undecodable(let collection, let key, let part, let reason):
            "collection '\(collection)', key \(key): its \(part.rawValue) cannot be read: \(reason). "
                + (part == .key
                    ? "Declare the collection with the type of keys that it was created with."
                    : "Decode older forms in init(from:), or convert them in a migration.")
        case .unencodable(let collection, let key, let part, let reason):
            "collection '\(collection)', key \(key): its \(part.rawValue) cannot be stored: \(reason)."
        }
    }

    public var errorDescription: String? {
        switch self {
        case .undecodable: "A stored value cannot be read."
        case .unencodable: "A value cannot be stored."
        }
    }
}

extension CollectionError {
    /// Returns the coding path of an error, and its description.
    static func reason(_ error: any Error) -> String {
        let context: DecodingError.Context
        switch error {
        case DecodingError.typeMismatch(_, let found), DecodingError.valueNotFound(_, let found),
            DecodingError.dataCorrupted(let found):
            context = found
        case DecodingError.keyNotFound(let key, let found):
            return "'\((found.codingPath + [key]).map(\.stringValue).joined(separator: "."))' is missing"
        case EncodingError.invalidValue(_, let found):
            return "\(path(found.codingPath))\(found.debugDescription)"
        default: return "\(error)"
        }
        return path(context.codingPath) + context.debugDescription.withoutFullStop
    }

    private static func path(_ keys: [any CodingKey]) -> String {
        keys.isEmpty ? "" : "'\(keys.map(\.stringValue).joined(separator: "."))': "
    }
}
