import Foundation

/// How a database is encrypted: by [SQLCipher 4](https://www.zetetic.net/sqlcipher/), which must be linked in SQLite's place.
///
/// ```swift
/// var options = SharedDatabase.Options()
/// options.encryption = Encryption(key: .rawKey { try Keychain.databaseKey() })
/// let database = try await SharedDatabase.open(at: url, schema: schema, as: "app", options: options)
/// ```
///
/// All processes say the same. The first 32 bytes of the file stay plain (`cipher_plaintext_header_size`), so that iOS, which ends
/// processes that are suspended with a lock on anything but a SQLite database, takes it for one. They hold nothing but SQLite's
/// mark, the page size and the like. SQLCipher keeps its salt there otherwise; here it is in a ``SaltStore``.
///
/// See <doc:Encryption> for what is encrypted, and what is not.
public struct Encryption: Sendable {
    let key: Key
    let salt: any SaltStore

    /// - Parameters:
    ///   - key: where the key comes from.
    ///   - salt: where the salt is kept. By default in a file beside the database.
    public init(key: Key, salt: any SaltStore = .file) {
        self.key = key
        self.salt = salt
    }

    /// Where the key of a database comes from: a function that is called for each connection that is opened. It may be called on any thread, and
    /// again at any time: when a read needs one more connection, after a suspension.
    ///
    /// It must not use the database, nor wait for somebody who does. What it throws reaches the access that needs the connection, as
    /// ``EncryptionError/keyUnavailable(path:underlying:)``.
    ///
    /// What it returns is given to SQLCipher, and Roundtable's copies of it are overwritten. SQLCipher keeps what it derives as long as the
    /// connection is open, and the memory of a `String`, or of `Data` that somebody else also holds, is not Roundtable's to overwrite.
    public struct Key: Sendable {
        enum Provider: Sendable {
            case passphrase(@Sendable () throws -> String)
            case rawKey(@Sendable () throws -> Data)
        }

        let provider: Provider

        /// A passphrase, of which SQLCipher derives the key: by 256,000 rounds of PBKDF2, a good part of a second for *each* connection. Where nobody types
        /// it in, prefer ``rawKey(_:)``.
        public static func passphrase(_ provide: @escaping @Sendable () throws -> String) -> Key {
            Key(provider: .passphrase(provide))
        }

        /// The key itself, ``rawKeySize`` random bytes.
        public static func rawKey(_ provide: @escaping @Sendable () throws -> Data) -> Key {
            Key(provider: .rawKey(provide))
        }

        /// How many bytes a raw key has: 32.
        public static let rawKeySize = 32
    }
}

// What a closure has captured is not reflected; these make sure of it, whatever is in here one day.
extension Encryption: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "Encryption(\(key), salt: \(salt))" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Encryption.Key: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String {
        switch provider {
        case .passphrase: "passphrase"
        case .rawKey: "raw key"
        }
    }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
