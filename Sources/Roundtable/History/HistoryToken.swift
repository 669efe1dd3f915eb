import Foundation

/// A position in the history of a database: after all changes up to it, before all later ones.
///
/// A token belongs to one history. That of a database that was deleted and created anew is another one, and says so: reading
/// with the old token throws ``HistoryError/startOver(reason:token:)``.
///
/// Keep it as you like: it is `Codable`, and its `description` can be read back.
public struct HistoryToken: Hashable, Sendable {
    /// Which history: random, made with it.
    let identity: String
    let sequence: Int64
}

extension HistoryToken: LosslessStringConvertible {
    /// Such as `3f09a1b2c4d5e6f7-42`.
    public var description: String { "\(identity)-\(sequence)" }

    /// nil when the text is not the `description` of a token.
    public init?(_ description: String) {
        guard
            let dash = description.firstIndex(of: "-"), dash != description.startIndex,
            let sequence = Int64(description[description.index(after: dash)...]), sequence >= 0
        else { return nil }
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
