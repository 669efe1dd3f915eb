import Foundation
import GRDB
import RoundtableKernel

/// What the outbox of a database holds, seen from outside. `roundtable outbox` has what each command is.
public struct OutboxStatus: Codable, Sendable, Equatable {
    /// The folder. It need not be there: dead letters are in the database.
    public var path: String
    /// How many files of commands wait.
    public var waiting: Int
    /// Of those files.
    public var bytes: Int
    /// Since when the oldest of them waits; nil when none does.
    public var oldest: Date?
    /// How many commands were set aside; nil where ``DatabaseStatus/unknowns`` says why.
    public var deadLetters: Int?
    /// How many of them somebody wants to have tried again.
    public var deadLettersToRetry: Int?
    /// How many files an owner has found damaged, and moved away.
    public var damaged: Int
    /// The participants that apply what waits, unless they are suspended or stopped; nil when that is not known.
    public var owners: [DatabaseStatus.Writer]?

    /// Databases that commands of this folder were applied to, too, and that are still there.
    public var otherDatabases: [Other] = []
    /// Folders of which commands were applied to this database, too, and that are still there; if there were any of this one.
    public var otherFolders: [Other] = []

    /// What shares a folder with the database, or the database with the folder.
    public struct Other: Codable, Sendable, Equatable {
        /// Where it is.
        public var path: String
        /// Who has left word of it, in applying commands.
        public var owner: String
        /// Of a folder: how many commands wait there; nil when it cannot be listed.
        public var waiting: Int?
    }

    enum CodingKeys: String, CodingKey {
        case path, waiting, bytes, oldest, damaged, owners
        case otherDatabases = "other_databases"
        case otherFolders = "other_folders"
        case deadLetters = "dead_letters"
        case deadLettersToRetry = "to_be_retried"
    }

    /// Whether there is nothing to tell of it.
    public var isEmpty: Bool { waiting == 0 && damaged == 0 && deadLetters ?? 0 == 0 }

    /// How long the oldest command has waited.
    public func longestWait(at date: Date = Date()) -> TimeInterval? {
        oldest.map { max(0, date.timeIntervalSince($0)) }
    }
}

extension OutboxStatus {
    /// What the database knows of dead letters.
    struct DeadLetters {
        var count = 0
        var toBeRetried = 0
        /// Whether an owner has ever applied commands.
        var isOwned = false
        /// Where commands were applied from.
        var ownerships: [OutboxOwnership] = []

        init(_ db: Database, path: String) throws {
            guard try OutboxTables.exist(db) else { return }
            isOwned = true
            if let identity = try System.identity(ofFileAt: path) {
                // A table that is not as we make it tells nothing.
                ownerships = (try? OutboxTables.ownerships(.init(path: path, identity: identity), db)) ?? []
            }
            let sql = "SELECT count(*), total(is_to_be_retried) FROM main.roundtable_outbox_dead"
            guard let row = try Row.fetchOne(db, sql: sql) else { return }
            count = row[0]
            toBeRetried = Int(row[1] as Double)
        }
    }

    /// Looks at names and sizes, and reads no command.
    ///
    /// - Parameters:
    ///   - letters: nil when the database cannot be asked.
    ///   - participants: who may apply commands.
    /// - returns: nil when there is neither an outbox nor a dead letter.
    /// - throws: `SystemError`.
    init?(_ folder: OutboxFolder, _ letters: DeadLetters?, _ participants: [DatabaseStatus.Participant]) throws {
        let commands = try folder.openIfThere(.commands)
        let names = try commands?.names()
        if names == nil, letters?.count ?? 0 == 0 { return nil }
        path = folder.path
        (waiting, bytes) = (0, 0)
        for name in (names ?? []) where CommandFileName(name) != nil {
            // What was applied since the folder was listed waits no more.
            guard let status = try commands?.status(ofFile: name), !status.isSymbolicLink else { continue }
            waiting += 1
            bytes = bytes.addingSaturating(Int(status.st_size))
            let date = Date(timeIntervalSince1970: Double(status.modificationTime) / 1e9)
            oldest = min(oldest ?? date, date)
        }
        damaged = try folder.names(in: .damaged)?.count ?? 0
        deadLetters = letters?.count
        deadLettersToRetry = letters?.toBeRetried
        owners = try Self.owners(folder, participants)
    }

    /// Rule X15.
    fileprivate mutating func lookForOthers(
        _ folder: OutboxFolder,
        _ database: String,
        _ recorded: [OutboxOwnership]
    ) throws {
        guard let databaseIdentity = try System.identity(ofFileAt: database),
            let folderIdentity = try System.identity(ofFileAt: folder.path)
        else { return }
        let own = OutboxOwnership(
            database: .init(path: database, identity: databaseIdentity),
            folder: .init(path: folder.path, identity: folderIdentity),
            owner: ""
        )
        let here = try folder.ownerships()
        otherDatabases = own.others(of: here).map { Other(path: $0.database.path, owner: $0.owner) }
        // Who looks at a folder that nobody owns has but named the wrong one.
        let isOwned =
            here.contains { $0.database.identity == databaseIdentity }
            || recorded.contains { $0.folder.identity == folderIdentity }
        guard isOwned else { return }
        otherFolders = own.others(of: recorded).map { other in
            let commands = try? OpenFolder(at: other.folder.path).folder(OutboxFolder.Part.commands.rawValue)
            let waiting = (try? commands?.names())?.count { CommandFileName($0) != nil }
            return Other(path: other.folder.path, owner: other.owner, waiting: waiting)
        }
    }

    /// Owners say in the control block which folder's commands they apply (rule X14).
    private static func owners(
        _ folder: OutboxFolder,
        _ participants: [DatabaseStatus.Participant]
    ) throws -> [DatabaseStatus.Writer]? {
        guard let identity = try System.identity(ofFileAt: folder.path(of: .commands)) else { return [] }
        return participants.filter { participant in
            participant.role == .readWrite && participant.liveness != .dead
                && participant.commandsFolder == identity.inode
        }.map(\.party)
    }
}

extension DatabaseStatus {
    mutating func lookAtOutbox(_ folder: OutboxFolder, _ letters: OutboxStatus.DeadLetters?) {
        do {
            outbox = try OutboxStatus(folder, letters, participants)
            let ownerships = letters?.ownerships ?? []
            if letters?.isOwned == true, try System.status(ofFileAt: folder.path) == nil {
                let known = ownerships.filter { $0.folder.isThere == true }.map(\.folder.path)
                let hint = known.isEmpty ? "" : " It was in \(known.joined(separator: ", "))."
                unknowns.append("What waits: commands were applied here. \(OutboxFiles.noneBeside(folder.path))\(hint)")
            }
            try outbox?.lookForOthers(folder, path, ownerships)
        } catch {
            unknowns.append("The outbox: \(SystemErrorAdvice.line(error) ?? "\(error).")")
        }
    }
}
