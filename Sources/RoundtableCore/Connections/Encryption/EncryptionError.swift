import Foundation
import GRDBSQLite

/// The reason why a database cannot be opened with the requested ``DatabaseEncryption``, or not without an encryption. The database was not
/// touched.
public enum EncryptionError: Error, Sendable {
    /// The SQLite library of this program cannot encrypt. It would have ignored the key and written plain text. If two SQLites are linked,
    /// the system's may be the one that is called: `otool -L` or `ldd` shows the libraries.
    case noSQLCipher(path: String, sqliteVersion: String)
    /// The library is a version of SQLCipher that is too old to leave the header plain.
    case oldSQLCipher(path: String, version: String)
    /// The key is wrong for this database, or the salt is wrong, or the file is damaged. SQLCipher does not distinguish these cases.
    ///
    /// Typical causes: the app was reinstalled, and the keychain kept an old key or lost it; the database was copied without its `-salt`
    /// file; or one process uses a passphrase and another one a raw key.
    case wrongKey(path: String)
    /// The database exists, and its salt does not.
    case missingSalt(path: String, store: String)
    /// The store returned data that is not a salt. A salt never changes, so it can be restored from any copy.
    case damagedSalt(path: String, store: String, reason: String)
    /// The salt store failed. A keychain does so before the device was unlocked for the first time since it was started.
    case saltUnavailable(path: String, store: String, underlying: any Error)
    /// The database is not encrypted, and a key was given. Usually, a version of the app without encryption has created it: convert it
    /// once.
    case databaseIsPlain(path: String)
    /// The database is encrypted, and no key was given.
    case databaseIsEncrypted(path: String)
    /// The file does not begin like a SQLite database. Either it is no database, or its header is encrypted too, which is SQLCipher's
    /// default.
    case unknownHeader(path: String)
    /// The key's provider failed. A typical cause is a keychain item without `AfterFirstUnlock` that is read in the background.
    case keyUnavailable(path: String, underlying: any Error)
    /// The key's provider returned a value that cannot be a key.
    case invalidKey(path: String, reason: String)
    /// SQLCipher refused to set the key: it may lack its provider of cryptography, or memory. With `SQLITE_MISUSE`, no key could be given
    /// to it, for example because another library has called `sqlite3_reset_auto_extension`.
    case keyRefused(path: String, code: Int32)
}

extension EncryptionError: CustomStringConvertible, LocalizedError {
    public var description: String {
        switch self {
        case .noSQLCipher(let path, let version):
            """
            \(path): cannot be encrypted: this program is linked with SQLite \(version), which is not SQLCipher and would write plain text. \
            Nothing was written. Link SQLCipher 4 instead.
            """
        case .oldSQLCipher(let path, let version):
            """
            \(path): cannot be encrypted: this program is linked with SQLCipher \(version), which cannot leave the header plain. Nothing was \
            written. Link SQLCipher 4 or later.
            """
        case .wrongKey(let path):
            """
            \(path): the key is wrong for this database. (The same error occurs if its salt was replaced, or if the file is damaged.) Nothing \
            was changed. Check where the key comes from.
            """
        case .missingSalt(let path, let store):
            """
            \(path): the database exists, but its salt does not (\(store)): without the salt, the database cannot be read, even with the right \
            key. Nothing was changed. Restore the salt from where the database came from: backups and copies need both.
            """
        case .damagedSalt(let path, let store, let reason):
            """
            \(path): its salt is damaged (\(store)): \(reason). Without it, the database cannot be read. Nothing was changed. Restore the salt from a \
            backup, or, if there is no database yet, remove it.
            """
        case .saltUnavailable(let path, let store, let underlying):
            """
            \(path): its salt is not available (\(store)): \(underlying). Nothing was changed. Open the database again when the store can be read.
            """
        case .databaseIsPlain(let path):
            """
            \(path): is not encrypted, and a key was given. Nothing was changed: Roundtable does not encrypt an existing database. Open it \
            without a key, or make an encrypted copy with sqlcipher_export().
            """
        case .databaseIsEncrypted(let path):
            "\(path): is encrypted, and no key was given. Open it with a key (Options.encryption)."
        case .unknownHeader(let path):
            """
            \(path): does not begin like a SQLite database. If SQLCipher has encrypted it with its header, make a copy whose header is \
            plain (cipher_plaintext_header_size = 32) with sqlcipher_export(): iOS ends processes that are suspended with a lock on \
            another file. If not, it is no database.
            """
        case .keyUnavailable(let path, let underlying):
            """
            \(path): its key is not available: \(underlying). The database was not touched. Open the database again when its provider can return \
            the key.
            """
        case .invalidKey(let path, let reason):
            "\(path): the given key is not valid: \(reason). The database was not touched."
        case .keyRefused(let path, SQLITE_MISUSE):
            """
            \(path): SQLite gave no way to set the key of a new connection: sqlite3_auto_extension was refused, or another library has removed \
            what it registers. Nothing was changed. Make sure that SQLCipher is the only SQLite that this program links: the one of Apple's \
            systems refuses automatic extensions.
            """
        case .keyRefused(let path, let code):
            """
            \(path): SQLCipher rejected the key (SQLite's code \(code)). Nothing was changed. Check the kind and the length of the key, and the \
            version of SQLCipher.
            """
        }
    }

    public var errorDescription: String? {
        switch self {
        case .wrongKey, .invalidKey, .keyRefused: "The database cannot be opened with this key."
        case .keyUnavailable, .saltUnavailable: "The key of the database is not available now."
        case .missingSalt, .damagedSalt: "A part of the key of the database is missing or damaged."
        case .noSQLCipher, .oldSQLCipher: "This program cannot encrypt the database."
        case .databaseIsPlain: "The database is not encrypted."
        case .databaseIsEncrypted: "The database is encrypted."
        case .unknownHeader: "The file is no database, or it is encrypted."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .keyUnavailable, .saltUnavailable: "Unlock the device, and try again."
        case .missingSalt, .damagedSalt: "Restore all files of the database from a backup."
        default: nil
        }
    }
}
