import Foundation
import RoundtableKernel

// Rule C4: Salt and name are on the disk (the folder is synced) before a connection to an absent or empty database is opened, also by an
// opener that finds a salt and no database.

/// Keeps the salt in the file `NAME-salt` beside the database `NAME` (rules C2–C4).
///
/// The file belongs to the database like the `-wal` file does: copy, move and restore it together with the database.
public struct FileSaltStore: SaltStore {
    public init() {}

    public func load(forDatabaseAt url: URL) throws -> Data? {
        let path = Self.path(url)
        guard let bytes = try System.contents(ofFileAt: path, limit: Self.fileSize) else { return nil }
        return Data(try Self.salt(ofFileWith: bytes).bytes)
    }

    public func create(_ salt: Data, forDatabaseAt url: URL) throws -> Data {
        guard let salt = Salt(salt) else {
            throw SaltFileError("a salt has \(Salt.size) bytes, and this one \(salt.count)")
        }
        let (folder, name) = (try Self.folder(url), url.lastPathComponent + Self.suffix)
        let unfinished = UnfinishedFile.name(name)
        // The file is synced before it gets its name, and its name is synced before the database is created.
        try folder.makeFile(unfinished, Self.file(salt), access: nil, isDurable: true)
        do {
            try folder.renameFile(unfinished, toUnused: name, in: folder)
        } catch let error as SystemError {
            folder.removeIfPossible(unfinished)
            guard error.isAlreadyThere else { throw error }
        }
        try Self.settle(url)
        guard let stored = try load(forDatabaseAt: url) else {
            throw SaltFileError("it was removed immediately after it was created")
        }
        return stored
    }

    /// Syncs the folder, because the creator of the salt file may have died before it did, and removes files that dead creators left
    /// behind.
    static func settle(_ url: URL) throws {
        let folder = try folder(url)
        try folder.sync()
        _ = try? UnfinishedFile.removeAbandoned(in: folder, url.lastPathComponent + suffix)
    }

    public func name(forDatabaseAt url: URL) -> String { Self.path(url) }

    package static let suffix = "-salt"

    private static func path(_ url: URL) -> String { url.path + suffix }

    private static func folder(_ url: URL) throws -> OpenFolder {
        try OpenFolder(at: url.deletingLastPathComponent().path, followingLinks: true)
    }
}

extension SaltStore where Self == FileSaltStore {
    /// A store that keeps the salt in a file beside the database.
    public static var file: FileSaltStore { FileSaltStore() }
}

// MARK: - The file

extension FileSaltStore {
    private static let magic = Array("RTSALT\r\n".utf8)
    private static let version: UInt32 = 1
    static let fileSize = 40

    static func file(_ salt: Salt) -> [UInt8] {
        var bytes = magic + littleEndian(version) + littleEndian(UInt32(Salt.size)) + salt.bytes
        bytes += littleEndian(Checksum.fnv1a(bytes))
        return bytes
    }

    static func salt(ofFileWith bytes: [UInt8]) throws -> Salt {
        guard bytes.count >= magic.count + 4, bytes.starts(with: magic) else {
            throw SaltFileError("it is not a salt file")
        }
        guard bytes[8..<12].elementsEqual(littleEndian(version)) else {
            throw SaltFileError("its format is newer than this program")
        }
        guard bytes.count == fileSize, bytes[32...].elementsEqual(littleEndian(Checksum.fnv1a(bytes[..<32]))),
            let salt = Salt(bytes[16..<32])
        else { throw SaltFileError("its checksum does not match") }
        return salt
    }

    private static func littleEndian(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value.littleEndian) { Array($0) }
    }
}

/// The error of a salt file that is invalid or was removed.
package struct SaltFileError: Error, CustomStringConvertible {
    package let description: String
    init(_ description: String) { self.description = description }
}
