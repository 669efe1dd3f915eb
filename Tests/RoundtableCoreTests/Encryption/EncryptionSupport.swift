import Foundation
import GRDB
import RoundtableUnitSupport
import Synchronization
import Testing

import enum RoundtableTestSupport.PeerEncryption

@testable import Roundtable
@testable import RoundtableCore

/// A folder with a database that is encrypted, or is to be.
final class EncryptedWorld: Sendable {
    let folder: TemporaryFolder
    var url: URL { folder.file("secret.sqlite") }
    var saltFile: URL { folder.file("secret.sqlite-salt") }

    init() throws { folder = try TemporaryFolder() }

    static let key = PeerEncryption.rawKey(7).encryption

    func open(
        _ encryption: DatabaseEncryption? = key,
        as author: String = "app",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.encryption = encryption
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    func openReadOnly(_ encryption: DatabaseEncryption? = key) throws -> SharedDatabase.Availability {
        var options = SharedDatabase.Options()
        options.encryption = encryption
        return try SharedDatabase.openReadOnly(
            at: url,
            schema: SharedSchema(migrator()),
            as: "reader",
            options: options
        )
    }

    /// Makes the database with a player, and closes it.
    func make(_ encryption: DatabaseEncryption? = key, player: String = "Arthur") throws {
        let db = try open(encryption)
        try db.write { db in _ = try Player(name: player).inserted(db) }
        try db.close()
    }

    /// The names of all files. None of them may be open in this process when they are read.
    var files: [String: Data] {
        get throws {
            try FileManager.default.contentsOfDirectory(atPath: folder.url.path).reduce(into: [:]) { files, name in
                files[name] = FileManager.default.contents(atPath: folder.file(name).path)
            }
        }
    }

    /// Checks that opening fails as expected, and leaves everything as it was.
    func expectFailure(
        _ encryption: DatabaseEncryption? = key,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ isExpected: (EncryptionError) -> Bool
    ) throws {
        let before = try files
        func check(_ open: () throws -> Void) {
            #expect(sourceLocation: sourceLocation) {
                try open()
            } throws: { error in
                guard let error = error as? EncryptionError else { return false }
                // The error says what failed and where, and contains no key.
                #expect(error.description.contains(url.path), sourceLocation: sourceLocation)
                #expect(!error.description.contains("07070707"), sourceLocation: sourceLocation)
                return isExpected(error)
            }
        }
        check { try open(encryption).close() }
        check { if case .available(let db) = try openReadOnly(encryption) { try db.close() } }
        let after = try files
        // The wal-index is what SQLite makes of the WAL before it reads anything.
        let changed = Set(before.keys).union(after.keys).filter { before[$0] != after[$0] && !$0.hasSuffix("-shm") }
        #expect(changed.sorted() == [], sourceLocation: sourceLocation)
    }
}

extension SharedDatabase {
    func players() throws -> [String] {
        try read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
    }
    func add(_ name: String) throws { try write { db in _ = try Player(name: name).inserted(db) } }
}

/// The number of requests for a key, and whether it is available.
final class KeyWitness: Sendable {
    struct Locked: Error {}

    private let state = Mutex((count: 0, isLocked: false))
    var count: Int { state.withLock { $0.count } }
    func lock(_ isLocked: Bool) { state.withLock { $0.isLocked = isLocked } }

    var encryption: DatabaseEncryption {
        DatabaseEncryption(
            key: .rawKey {
                try self.state.withLock { state in
                    if state.isLocked { throw Locked() }
                    state.count += 1
                    return Data(repeating: 7, count: 32)
                }
            }
        )
    }
}
