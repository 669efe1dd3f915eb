import Foundation
import Roundtable

/// A key that a test gives to a peer. Tests have no secrets.
package enum PeerEncryption: Codable, Sendable, Equatable {
    /// A raw key in which every byte has this value.
    case rawKey(UInt8)
    case passphrase(String)

    package var encryption: DatabaseEncryption {
        switch self {
        case .rawKey(let byte):
            DatabaseEncryption(key: .rawKey { Data(repeating: byte, count: DatabaseEncryption.Key.rawKeySize) })
        case .passphrase(let text): DatabaseEncryption(key: .passphrase { text })
        }
    }

    package var options: SharedDatabase.Options {
        var options = SharedDatabase.Options()
        options.encryption = encryption
        return options
    }
}

/// The requirement of the tests that encrypt.
package enum SQLCipherRequirement {
    /// Whether this program has SQLCipher. It is also true if the environment demands SQLCipher (`scripts/sqlcipher.sh`): the tests
    /// then fail without it.
    package static var isMet: Bool {
        SQLCipher.version != nil || ProcessInfo.processInfo.environment["ROUNDTABLE_SQLCIPHER"] != nil
    }

    package static let reason = "this program's SQLite is no SQLCipher: run 'make test-sqlcipher'"
}
