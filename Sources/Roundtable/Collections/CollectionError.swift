import Foundation

/// What can go wrong with a value of a ``KeyValueCollection``. Errors of SQLite are GRDB's `DatabaseError`.
public enum CollectionError: Error, Sendable {
    /// What is stored is no value of the type. Perhaps another version of the program stored it, or another program.
    case undecodable(collection: String, key: String, part: Part, reason: String)

    /// The coding does not store this value.
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

    public var errorDescription: String? { description }
}

extension CollectionError {
    /// The way to what is wrong, and what that is.
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
        // Foundation ends it with a full stop, or does not.
        let description = context.debugDescription
        return "\(path(context.codingPath))\(description.hasSuffix(".") ? String(description.dropLast()) : description)"
    }

    private static func path(_ keys: [any CodingKey]) -> String {
        keys.isEmpty ? "" : "'\(keys.map(\.stringValue).joined(separator: "."))': "
    }
}
