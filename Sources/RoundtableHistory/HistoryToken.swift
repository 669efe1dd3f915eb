import Foundation

/// A position in the history of a database: after all changes up to it, before all later ones.
///
/// A token belongs to one history. A database that was deleted and created again has another history: reading with the old token
/// throws ``HistoryError/startOver(reason:token:)``.
///
/// A token can be stored in any form: it is `Codable`, and its `description` can be read back.
public struct HistoryToken: Hashable, Sendable {
    /// Identifies the history. It is random, and created with the history.
    let identity: String
    let sequence: Int64
}

extension HistoryToken: LosslessStringConvertible {
    /// The token as text, such as `3f09a1b2c4d5e6f7-42`.
    public var description: String { "\(identity)-\(sequence)" }

    /// nil when the text is not the `description` of a token.
    public init?(_ description: String) {
        guard
            let dash = description.firstIndex(of: "-"), dash != description.startIndex,
            let sequence = Int64(description[description.index(after: dash)...]), sequence >= 0
        else { return nil }
        // Of the texts of a number, one is that of a token: without a sign, and without zeros before it.
        guard "\(sequence)" == description[description.index(after: dash)...] else { return nil }
        self.init(identity: String(description[..<dash]), sequence: sequence)
    }
}

extension HistoryToken: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let token = HistoryToken(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "'\(text)' is not a history token")
        }
        self = token
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
