import Foundation

/// The place where the salt of an encrypted database is kept. The salt is 16 random bytes. It is not secret, but without it, the database
/// cannot be read. All processes that open the database must use the same store.
///
/// ``FileSaltStore`` is the default. A store of your own, such as a keychain item that the app and its extensions share, must keep two
/// promises: ``create(_:forDatabaseAt:)`` never replaces a salt, even when several processes call it at the same time; and once it has
/// returned, the salt survives a crash of the machine.
public protocol SaltStore: Sendable {
    /// Loads the salt of a database.
    ///
    /// - returns: nil when there certainly is no salt. A store that does not know, for example because the device is locked, throws an error.
    func load(forDatabaseAt url: URL) throws -> Data?

    /// Stores a salt, unless one is stored already.
    ///
    /// - returns: the salt that is stored now.
    func create(_ salt: Data, forDatabaseAt url: URL) throws -> Data

    /// The name of this store in errors, including its location.
    func name(forDatabaseAt url: URL) -> String
}

extension SaltStore {
    public func name(forDatabaseAt url: URL) -> String { "\(type(of: self))" }
}

/// A salt of the size that SQLCipher requires.
struct Salt: Equatable, Sendable {
    static let size = 16

    let bytes: [UInt8]

    /// Returns nil for another number of bytes.
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
