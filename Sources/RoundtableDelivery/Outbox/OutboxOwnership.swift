import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

// Rule X15: An owner records which database it applies the commands of which folder to: in the database, and in a file of `owners`. An
// owner that finds another database's record that holds reports it, and continues. No command says which database it is for. Within a
// process, the second database that is to drain one folder is refused.

/// A record that an owner applies the commands of a folder to a database (rule X15). It is kept in both places: in a file of the folder,
/// for owners of other databases, and in a row of the database, for owners with another folder.
package struct OutboxOwnership: Equatable, Sendable {
    /// The path and the identity of a file. A copy is another file, and so is one that was restored from a backup.
    package struct Place: Equatable, Sendable {
        package let path: String
        package let identity: FileIdentity

        package init(path: String, identity: FileIdentity) {
            self.path = path
            self.identity = identity
        }

        /// Whether the file is at the path now; nil when that cannot be determined.
        package var isThere: Bool? { try? System.identity(ofFileAt: path) == identity }
    }

    package let database: Place
    package let folder: Place
    package let owner: String
    /// The file that says so; nil for a row of a database.
    package internal(set) var file: File?

    /// A file of the folder. Who may write the folder may write any record.
    package struct File: Equatable, Sendable {
        package let path: String
        /// nil if it is not known.
        package let owner: FileOwner?
    }

    // MARK: The file

    private static let magic = [UInt8]("RTOWNR\r\n".utf8)
    private static let format: UInt32 = 1
    private static let headerSize = 64
    static let maximumSize = 64 << 10

    var bytes: [UInt8] {
        let texts = [[UInt8](database.path.utf8), [UInt8](folder.path.utf8), [UInt8](owner.utf8)]
        var writer = ByteWriter()
        writer.append(Self.magic)
        writer.append(Self.format)
        for text in texts { writer.append(UInt32(text.count)) }
        for identity in [database.identity, folder.identity] {
            writer.append(identity.device)
            writer.append(identity.inode)
        }
        writer.append(Checksum.fnv1a(writer.bytes + texts.joined()))
        return writer.bytes + texts.joined()
    }

    /// Decodes a record; nil for anything else.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= Self.headerSize else { return nil }
        var reader = ByteReader(bytes)
        guard reader.bytes(8) == Self.magic, reader.integer(UInt32.self) == Self.format else { return nil }
        let lengths = (0..<3).map { _ in Int(reader.integer(UInt32.self)) }
        let identities = (0..<2).map { _ in
            FileIdentity(device: reader.integer(UInt64.self), inode: reader.integer(UInt64.self))
        }
        guard Self.headerSize + lengths.reduce(0, +) == bytes.count,
            reader.integer(UInt64.self) == Checksum.fnv1a(bytes[..<56] + bytes[Self.headerSize...])
        else { return nil }
        let texts = lengths.map { String(decoding: reader.bytes($0), as: UTF8.self) }
        database = Place(path: texts[0], identity: identities[0])
        folder = Place(path: texts[1], identity: identities[1])
        owner = texts[2]
    }

    package init(database: Place, folder: Place, owner: String) {
        (self.database, self.folder, self.owner) = (database, folder, owner)
    }
}

// MARK: - In the folder

extension OutboxFolder {
    /// The name of a database's file among the owners. Each database has one.
    private func ownership(ofDatabase identity: FileIdentity) -> String {
        "\(String(identity.device, radix: 16))-\(String(identity.inode, radix: 16)).owner"
    }

    /// The records of the folder that is here now. Records of a folder that it is a copy of are left out.
    package func ownerships() throws -> [OutboxOwnership] {
        guard let identity = try System.identity(ofFileAt: path) else { return [] }
        return try ownershipFiles().compactMap { $0.ownership?.folder.identity == identity ? $0.ownership : nil }
    }

    private static func isOwnership(_ name: String) -> Bool {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        return parts.count == 2 && parts[1] == "owner" && numbers.count == 2
            && numbers.allSatisfy { UInt64($0, radix: 16) != nil }
    }

    private func ownershipFiles() throws -> [(name: String, ownership: OutboxOwnership?)] {
        guard let owners = try openIfThere(.owners) else { return [] }
        let names = try owners.names().filter(Self.isOwnership).sorted()
        // Only 100 files are read, so that a folder with many files does not take much time.
        return names.prefix(100).map { name in
            // A link, a folder, or a file that this process may not read counts as no record.
            let limit = OutboxOwnership.maximumSize
            let (bytes, owner) = FileOwner.reading({ try? owners.status(ofFile: name) }) {
                (try? owners.contents(ofFile: name, limit: limit, notOf: databasePath)) ?? nil
            }
            var ownership = bytes.flatMap(OutboxOwnership.init)
            ownership?.file = OutboxOwnership.File(path: owners.file(name), owner: owner)
            return (name, ownership)
        }
    }

    /// Records an ownership in place of an earlier record of the same database, and removes records that do not hold any more (rule X15).
    func record(_ own: OutboxOwnership) throws {
        let files = try ownershipFiles()
        let name = ownership(ofDatabase: own.database.identity)
        if !files.contains(where: { $0.name == name && $0.ownership?.isSame(as: own) == true }) {
            try put(own.bytes, as: name, in: .owners, access: access())
        }
        for file in files where file.name != name {
            guard let other = file.ownership else { continue }
            if other.folder.identity == own.folder.identity, other.database.isThere != false { continue }
            removeIfPossible(file.name, from: .owners)
        }
    }
}

// MARK: - In the database

extension OutboxTables {
    /// The records of the database that is here now. Records of a database that it is a copy of are left out.
    package static func ownerships(_ database: OutboxOwnership.Place, _ db: Database) throws -> [OutboxOwnership] {
        try allOwnerships(database.path, db).filter { $0.database.identity == database.identity }
    }

    private static func allOwnerships(_ path: String, _ db: Database) throws -> [OutboxOwnership] {
        let exists =
            "SELECT EXISTS (SELECT * FROM main.sqlite_master WHERE type = 'table' AND name = 'roundtable_outbox_folders')"
        guard try Bool.fetchOne(db, sql: exists) ?? false else { return [] }
        let rows =
            "SELECT device, inode, path, database_device, database_inode, owner FROM main.roundtable_outbox_folders"
        return try Row.fetchAll(db, sql: rows).compactMap { row in
            // The table may hold values of any type.
            func number(_ index: Int) -> Int64? { Int64.fromDatabaseValue(row[index]) }
            func text(_ index: Int) -> String? { String.fromDatabaseValue(row[index]) }
            guard let device = number(0), let inode = number(1), let folder = text(2),
                let databaseDevice = number(3), let databaseInode = number(4), let owner = text(5)
            else { return nil }
            return OutboxOwnership(
                database: .init(path: path, identity: FileIdentity(databaseDevice, databaseInode)),
                folder: .init(path: folder, identity: FileIdentity(device, inode)),
                owner: owner
            )
        }
    }

    /// Records an ownership in place of an earlier record of the same folder, and removes records that do not hold any more (rule X15).
    static func record(_ own: OutboxOwnership, _ db: Database) throws {
        let all = try allOwnerships(own.database.path, db)
        if all.isEmpty { try db.execute(sql: foldersSchema) }
        if !all.contains(where: own.isSame) {
            try db.execute(
                sql: """
                    INSERT OR REPLACE INTO main.roundtable_outbox_folders (device, inode, path, database_device, database_inode, owner)
                        VALUES (?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    own.folder.identity.columns.device, own.folder.identity.columns.inode, own.folder.path,
                    own.database.identity.columns.device, own.database.identity.columns.inode, own.owner,
                ]
            )
        }
        for other in all where other.folder.identity != own.folder.identity {
            if other.database.identity == own.database.identity, other.folder.isThere != false { continue }
            try db.execute(
                sql: "DELETE FROM main.roundtable_outbox_folders WHERE device = ? AND inode = ?",
                arguments: [other.folder.identity.columns.device, other.folder.identity.columns.inode]
            )
        }
    }

    private static let foldersSchema = """
        CREATE TABLE IF NOT EXISTS main.roundtable_outbox_folders (
            device INTEGER NOT NULL,
            inode INTEGER NOT NULL,
            path TEXT NOT NULL,
            database_device INTEGER NOT NULL,
            database_inode INTEGER NOT NULL,
            owner TEXT NOT NULL,
            PRIMARY KEY (device, inode)
        );
        """
}

extension DatabaseError {
    /// Whether the error concerns a table that another program has changed, and not the database.
    fileprivate var isOfStrayTable: Bool {
        [.SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(resultCode)
    }
}

extension FileIdentity {
    fileprivate init(_ device: Int64, _ inode: Int64) {
        self.init(device: UInt64(bitPattern: device), inode: UInt64(bitPattern: inode))
    }

    fileprivate var columns: (device: Int64, inode: Int64) { (Int64(bitPattern: device), Int64(bitPattern: inode)) }
}

// MARK: - The owner

/// Records to which database an owner applies the commands of a folder, and detects other owners. It is used by one thread at a time.
final class OutboxOwnershipRecorder {
    private let folder: OutboxFolder
    private let author: String
    private var hasFinished = false
    private var hasReported = false
    private var own: OutboxOwnership?
    private var hasRecorded = false

    init(_ folder: OutboxFolder, author: String) {
        self.folder = folder
        self.author = author
    }

    /// Looks for other owners, once. An error of recording the ownership does not keep the owner from applying commands; the next run tries
    /// again.
    ///
    /// - returns: the events to report. They are returned once.
    /// - throws: `DatabaseError`; ``OutboxError``; ``SharedDatabaseError/fileLost(path:_:)``.
    func findOthers(_ database: SharedDatabase) throws -> [OutboxEvent] {
        if hasFinished { return [] }
        let (identity, folders) = try database.read { db -> (FileIdentity?, [OutboxOwnership]) in
            let identity = try database.identityOfFile()
            guard let identity, try OutboxTables.exist(db) else { return (identity, []) }
            do {
                return (identity, try OutboxTables.ownerships(.init(path: database.path, identity: identity), db))
            } catch let error as DatabaseError where error.isOfStrayTable {
                return (identity, [])
            }
        }
        do {
            guard let identity, let folderIdentity = try System.identity(ofFileAt: folder.path) else { return [] }
            let own = OutboxOwnership(
                database: .init(path: database.path, identity: identity),
                folder: .init(path: folder.path, identity: folderIdentity),
                owner: author
            )
            let databases = try folder.ownerships()
            self.own = own
            do {
                try folder.record(own)
                hasFinished = true
            } catch is SystemError {}
            defer { hasReported = true }
            if hasReported { return [] }
            return own.others(of: databases).map {
                .otherDatabase(folder: folder.path, database: $0.database.path, owner: $0.owner)
            }
                + own.others(of: folders).map {
                    .otherFolder(database: database.path, folder: $0.folder.path, owner: $0.owner)
                }
        } catch is SystemError {
            return []
        }
    }

    /// Records the ownership inside a transaction that decides commands.
    func record(_ db: Database) throws {
        guard !hasRecorded, let own else { return }
        do {
            try db.atomically { try OutboxTables.record(own, db) }
        } catch let error as DatabaseError where error.isOfStrayTable {
            // The table of that name is not as Roundtable creates it.
        }
    }

    func hasCommitted() { hasRecorded = own != nil }
}

extension OutboxOwnership {
    /// Whether the database and the folder are the same, whichever owner of the database recorded them.
    fileprivate func isSame(as other: OutboxOwnership) -> Bool { database == other.database && folder == other.folder }

    /// The records of other databases, and of other folders of this database, that still exist.
    package func others(of all: [OutboxOwnership]) -> [OutboxOwnership] {
        all.filter { other in
            if other.database.identity != database.identity { return other.database.isThere == true }
            return other.folder.identity != folder.identity && other.folder.isThere == true
        }
    }
}
