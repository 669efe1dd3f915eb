import Foundation

/// Where the salt of an encrypted database is kept: 16 random bytes, which are no secret, and without which nobody can read the
/// database. All processes that open it use the same store.
///
/// ``FileSaltStore`` is the default. One of your own, such as a keychain item that is shared by the app and its extensions, keeps two
/// promises: ``create(_:forDatabaseAt:)`` never replaces a salt, also when several processes call it at once; and once it has
/// returned, the salt survives the machine's death.
public protocol SaltStore: Sendable {
    /// - returns: nil when there is none, for certain. A store that cannot tell, say because the device is locked, throws.
    func load(forDatabaseAt url: URL) throws -> Data?

    /// Stores a salt, unless there is one.
    ///
    /// - returns: the one that is stored now.
    func create(_ salt: Data, forDatabaseAt url: URL) throws -> Data

    /// What errors call this store, with what says where it is.
    func name(forDatabaseAt url: URL) -> String
}

extension SaltStore {
    public func name(forDatabaseAt url: URL) -> String { "\(type(of: self))" }
}

/// A salt, of the size that SQLCipher wants.
struct Salt: Equatable, Sendable {
    static let size = 16

    let bytes: [UInt8]

    /// nil for another number of bytes.
    init?(_ bytes: some Sequence<UInt8>) {
        self.bytes = Array(bytes)
        if self.bytes.count != Self.size { return nil }
    }

    static func random() -> Salt {
        var generator = SystemRandomNumberGenerator()
        return Salt((0..<size).map { _ in UInt8.random(in: .min ... .max, using: &generator) })!
    }

    var hexadecimal: String { bytes.map { String($0 >> 4, radix: 16) + String($0 & 0xF, radix: 16) }.joined() }
}
