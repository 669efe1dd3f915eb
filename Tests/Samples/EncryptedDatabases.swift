// For iOS.

import Security

enum Keychain {
    static func databaseKey() throws -> Data { Data() }
}

struct KeychainError: Error {
    init(_ status: OSStatus) {}
}
