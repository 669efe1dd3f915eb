import Foundation
import Roundtable

/// A key that a test gives to a peer. Tests have no secrets.
package enum PeerEncryption: Codable, Sendable, Equatable {
    /// So many times the same byte.
    case rawKey(UInt8)
    case passphrase(String)

    package var encryption: Encryption {
        switch self {
        case .rawKey(let byte):
            Encryption(key: .rawKey { Data(repeating: byte, count: Encryption.Key.rawKeySize) })
        case .passphrase(let text): Encryption(key: .passphrase { text })
        }
    }

    package var options: SharedDatabase.Options {
        var options = SharedDatabase.Options()
        options.encryption = encryption
        return options
    }
}

/// What the tests that encrypt need.
package enum SQLCipherRequirement {
    /// Whether this program has SQLCipher; or is to have it (`scripts/sqlcipher.sh`), and is to fail without.
    package static var isMet: Bool {
        SQLCipher.version != nil || ProcessInfo.processInfo.environment["ROUNDTABLE_SQLCIPHER"] != nil
    }

    package static let reason = "this program's SQLite is no SQLCipher: run 'make test-sqlcipher'"
}
