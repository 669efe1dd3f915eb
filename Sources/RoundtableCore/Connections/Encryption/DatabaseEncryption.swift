import Foundation

/// The encryption of a database by [SQLCipher 4](https://www.zetetic.net/sqlcipher/), which must be linked instead of SQLite.
///
/// ```swift
/// var options = SharedDatabase.Options()
/// options.encryption = DatabaseEncryption(key: .rawKey { try Keychain.databaseKey() })
/// let database = try await SharedDatabase.open(at: url, schema: schema, as: "app", options: options)
/// ```
///
/// All processes must use the same key and salt. The first 32 bytes of the file stay plain text (`cipher_plaintext_header_size`), because
/// iOS terminates a process that is suspended with a lock on any file but a SQLite database. These bytes hold only SQLite's magic string,
/// the page size, and similar values. SQLCipher normally keeps its salt there; Roundtable keeps it in a ``SaltStore`` instead.
///
/// See <doc:EncryptedDatabases> for what is encrypted, and what is not.
public struct DatabaseEncryption: Sendable {
    let key: Key
    let salt: any SaltStore

    /// - Parameters:
    ///   - key: where the key comes from.
    ///   - salt: where the salt is kept. The default is a file beside the database.
    public init(key: Key, salt: any SaltStore = .file) {
        self.key = key
        self.salt = salt
    }

    /// The source of a database's key: a function that is called for each connection that is opened. It may be called on any thread and at
    /// any time, for example when a read needs another connection, or after a suspension.
    ///
    /// It must not use the database, nor wait for a thread that does. If it throws an error, the access that needs the connection throws
    /// ``EncryptionError/keyUnavailable(path:underlying:)``.
    ///
    /// The returned key is passed to SQLCipher, and Roundtable overwrites its copies of it. SQLCipher keeps the derived key as long as the
    /// connection is open. Roundtable cannot overwrite the memory of a `String`, or of `Data` that has other owners.
    public struct Key: Sendable {
        enum Provider: Sendable {
            case passphrase(@Sendable () throws -> String)
            case rawKey(@Sendable () throws -> Data)
        }

        let provider: Provider

        /// A passphrase from which SQLCipher derives the key with 256,000 rounds of PBKDF2. This takes a considerable part of a second for
        /// *each* connection. If no user types in the passphrase, prefer ``rawKey(_:)``.
        public static func passphrase(_ provide: @escaping @Sendable () throws -> String) -> Key {
            Key(provider: .passphrase(provide))
        }

        /// The key itself: ``rawKeySize`` random bytes.
        public static func rawKey(_ provide: @escaping @Sendable () throws -> Data) -> Key {
            Key(provider: .rawKey(provide))
        }

        /// The size of a raw key in bytes: 32.
        public static let rawKeySize = 32
    }
}

// Reflection does not show what a closure has captured. These conformances keep the key out of it, whatever properties are added later.
extension DatabaseEncryption: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "Encryption(\(key), salt: \(salt))" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension DatabaseEncryption.Key: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String {
        switch provider {
        case .passphrase: "passphrase"
        case .rawKey: "raw key"
        }
    }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
