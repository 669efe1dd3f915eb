import Foundation
import GRDB
import GRDBSQLite

/// The key's provider and the salt, with which each connection to one database is keyed (rules C4–C6).
struct Keying: Sendable {
    let path: String
    let key: DatabaseEncryption.Key
    let salt: Salt
}

extension Keying {
    /// - parameter mayCreate: whether to create a salt for a database that does not exist yet.
    /// - returns: nil for a database that does not exist and has no salt, if `mayCreate` is false.
    /// - throws: ``EncryptionError``.
    init?(_ encryption: DatabaseEncryption, of file: DatabaseFile, mayCreate: Bool) throws {
        try SQLCipher.check(path: file.path)
        let place = SaltPlace(store: encryption.salt, path: file.path)
        guard let salt = try place.settledSalt(mayCreate: mayCreate) else { return nil }
        self.init(path: file.path, key: encryption.key, salt: salt)
    }

    /// The key in the form that SQLCipher takes. Calls the key's provider.
    func keyBytes() throws(EncryptionError) -> Secret {
        switch key.provider {
        case .passphrase(let provide): return try bytes(passphrase: try provided(provide))
        case .rawKey(let provide):
            var key = try provided(provide)
            // This has no effect on bytes that have other owners.
            defer { key.resetBytes(in: key.startIndex..<key.endIndex) }
            return try bytes(rawKey: key)
        }
    }

    private func provided<T>(_ provide: () throws -> T) throws(EncryptionError) -> T {
        do {
            return try provide()
        } catch {
            throw .keyUnavailable(path: path, underlying: error)
        }
    }

    private func bytes(passphrase: String) throws(EncryptionError) -> Secret {
        if passphrase.isEmpty { throw .invalidKey(path: path, reason: "it is empty") }
        if passphrase.utf8.contains(0) { throw .invalidKey(path: path, reason: "it has a zero byte") }
        // SQLCipher takes some passphrases of this form for a raw key.
        if ["x'", "X'"].contains(where: { passphrase.utf8.starts(with: $0.utf8) }),
            passphrase.utf8.last == UInt8(ascii: "'")
        {
            throw .invalidKey(path: path, reason: "a passphrase of the form x'…' is a raw key to SQLCipher: use rawKey")
        }
        let secret = Secret(capacity: passphrase.utf8.count)
        for byte in passphrase.utf8 { secret.append(byte) }
        return secret
    }

    private func bytes(rawKey: Data) throws(EncryptionError) -> Secret {
        guard rawKey.count == DatabaseEncryption.Key.rawKeySize else {
            throw .invalidKey(
                path: path,
                reason: "a raw key has \(DatabaseEncryption.Key.rawKeySize) bytes, and this one \(rawKey.count)"
            )
        }
        let secret = Secret(capacity: 128)
        secret.append("x'")
        for byte in rawKey { secret.append(hexadecimal: byte) }
        for byte in salt.bytes { secret.append(hexadecimal: byte) }
        secret.append("'")
        return secret
    }

    /// The statement that sets the key, for a library that does not export `sqlite3_key_v2`.
    static func statement(_ key: Secret) -> Secret {
        let secret = Secret(capacity: 32 + 2 * key.count)
        secret.append("PRAGMA key = '")
        key.withBytes { bytes in
            for byte in bytes {
                if byte == UInt8(ascii: "'") { secret.append(byte) }
                secret.append(byte)
            }
        }
        secret.append("'")
        return secret
    }

    /// The statements that follow the key, before anything reads the file. They set the format of version 4, whatever SQLCipher's current
    /// version is, and prevent temporary files, which are not encrypted.
    var settings: String {
        """
        PRAGMA cipher_compatibility = 4; PRAGMA cipher_plaintext_header_size = 32; \
        PRAGMA cipher_salt = "x'\(salt.hexadecimal)'"; PRAGMA temp_store = MEMORY
        """
    }
}

/// The salt store of one database.
private struct SaltPlace {
    let store: any SaltStore
    let path: String
    private var url: URL { URL(fileURLWithPath: path) }
    private var name: String { store.name(forDatabaseAt: url) }

    // Rule C5: An opener loads the salt. If there is none and the database is absent or empty, a read-write opener creates it, and a
    // read-only one answers *not created*. Otherwise it loads once more; still none is an error.

    /// Loads the salt, or creates it (rule C5).
    func settledSalt(mayCreate: Bool) throws -> Salt? {
        if let salt = try load() {
            if mayCreate, try isAbsentOrEmpty() { try settle() }
            return salt
        }
        if try isAbsentOrEmpty() {
            if !mayCreate { return nil }
            return try checked { try store.create(Data(Salt.random().bytes), forDatabaseAt: url) }
        }
        // Another process may have created the salt and the database since.
        if let salt = try load() { return salt }
        switch try DatabaseHeader.look(at: path) {
        case .plain: throw EncryptionError.databaseIsPlain(path: path)
        case .encrypted: throw EncryptionError.missingSalt(path: path, store: name)
        case .unknown: throw EncryptionError.unknownHeader(path: path)
        }
    }

    private func isAbsentOrEmpty() throws -> Bool { try DatabaseFile(url).isAbsentOrEmpty }

    private func load() throws -> Salt? { try checked { try store.load(forDatabaseAt: url) } }

    private func settle() throws {
        guard store is FileSaltStore else { return }
        do {
            try FileSaltStore.settle(url)
        } catch {
            throw EncryptionError.saltUnavailable(path: path, store: name, underlying: error)
        }
    }

    private func checked(_ body: () throws -> Data?) throws -> Salt? {
        do {
            guard let data = try body() else { return nil }
            if let salt = Salt(data) { return salt }
            throw SaltFileError("it has \(data.count) bytes, and not \(Salt.size)")
        } catch let error as SaltFileError {
            throw EncryptionError.damagedSalt(path: path, store: name, reason: error.description)
        } catch {
            throw EncryptionError.saltUnavailable(path: path, store: name, underlying: error)
        }
    }
}
