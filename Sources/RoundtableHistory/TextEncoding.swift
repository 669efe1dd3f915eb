import Foundation
import GRDB

/// The encoding of the texts in a database, which its creator has chosen.
enum TextEncoding: String {
    case utf8 = "UTF-8"
    case utf16LittleEndian = "UTF-16le"
    case utf16BigEndian = "UTF-16be"

    init(_ db: Database) throws {
        let name = try String.fetchOne(db.cachedStatement(sql: "PRAGMA encoding"))
        self = name.flatMap(Self.init) ?? .utf8
    }

    /// The text that SQLite makes of these bytes by `CAST(… AS TEXT)`.
    func text(_ bytes: Data) -> String {
        switch self {
        case .utf8: String(decoding: bytes, as: UTF8.self)
        case .utf16LittleEndian: String(decoding: Self.units(bytes, high: 1), as: UTF16.self)
        case .utf16BigEndian: String(decoding: Self.units(bytes, high: 0), as: UTF16.self)
        }
    }

    /// - parameter high: which of two bytes is the higher one.
    private static func units(_ bytes: Data, high: Int) -> [UInt16] {
        let bytes = Array(bytes)
        return stride(from: 0, to: bytes.count - 1, by: 2).map {
            UInt16(bytes[$0 + high]) << 8 | UInt16(bytes[$0 + 1 - high])
        }
    }
}
