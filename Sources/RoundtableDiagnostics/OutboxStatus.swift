import Foundation
import GRDB
import RoundtableCore
import RoundtableDelivery
import RoundtableFiles
import RoundtableKernel

/// What the outbox of a database holds, seen from outside. `roundtable outbox` shows each command.
public struct OutboxStatus: Codable, Sendable, Equatable {
    /// The path of the folder. It need not exist, because dead letters are in the database.
    public var path: String
    /// The number of command files that wait.
    public var waiting: Int
    /// The size of these files in bytes.
    public var bytes: Int
    /// Since when the oldest of these files has waited; nil when none waits.
    public var oldest: Date?
    /// How many commands were set aside; nil where ``DatabaseStatus/unknowns`` says why.
    public var deadLetters: Int?
    /// The number of dead letters for which a retry was requested; nil where ``deadLetters`` is nil.
    package var deadLettersToRetry: Int?
    /// The number of files that an owner has found damaged and set aside.
    public var damaged: Int
    /// The participants that apply the commands, unless they are suspended or stopped; nil when they are not known.
    public var owners: [SharingProcess]?

    /// Other databases that commands of this folder were applied to, and that still exist.
    package var otherDatabases: [Other] = []
    /// Other folders whose commands were applied to this database, and that still exist. Empty if commands of this folder never were.
    package var otherFolders: [Other] = []

    /// Another database of the same folder, or another folder of the same database.
    package struct Other: Codable, Sendable, Equatable {
        /// The path of that database or folder.
        package var path: String
        /// The owner that applied the commands and recorded this.
        package var owner: String
        /// For a folder, the number of commands that wait there; nil when it cannot be listed, and for a database.
        package var waiting: Int?
        /// The file that says so about a database; nil for a folder, which the database says it about.
        package var record: OutboxOwnership.File?

        enum CodingKeys: CodingKey { case path, owner, waiting }
    }

    enum CodingKeys: String, CodingKey {
        case path, waiting, bytes, oldest, damaged, owners
        case otherDatabases = "other_databases"
        case otherFolders = "other_folders"
        case deadLetters = "dead_letters"
        case deadLettersToRetry = "to_be_retried"
    }

    /// Whether no command waits, no file is damaged, and no dead letter is known.
    public var isEmpty: Bool { waiting == 0 && damaged == 0 && deadLetters ?? 0 == 0 }

    /// How long the oldest command has waited; nil when none waits.
    public func longestWait(at date: Date = Date()) -> Duration? {
        oldest.map { max(.zero, Duration(inSeconds: date.timeIntervalSince($0))) }
    }
}

extension OutboxStatus {
    /// What the database knows of dead letters.
    struct DeadLetters {
        var count = 0
        var toBeRetried = 0
        /// Whether an owner has ever applied commands.
        var isOwned = false
        /// The folders from which commands were applied.
        var ownerships: [OutboxOwnership] = []

        init(_ db: Database, path: String) throws {
            guard try OutboxTables.exist(db) else { return }
            isOwned = true
            if let identity = try System.identity(ofFileAt: path) {
                // A table of another form is ignored.
                ownerships = (try? OutboxTables.ownerships(.init(path: path, identity: identity), db)) ?? []
            }
            // Any program can write any values there. Their sum may not be a number of letters; what is counted is.
            let sql = "SELECT count(*), count(CASE WHEN is_to_be_retried THEN 1 END) FROM main.roundtable_outbox_dead"
            guard let row = try Row.fetchOne(db, sql: sql) else { return }
            count = row[0]
            toBeRetried = row[1]
        }
    }

    /// Reads names and sizes, and no command.
    ///
    /// - Parameters:
    ///   - letters: nil when the database cannot be read.
    ///   - participants: the participants that may apply commands.
    /// - returns: nil when there is neither an outbox nor a dead letter.
    /// - throws: `SystemError`.
    init?(_ folder: OutboxFolder, _ letters: DeadLetters?, _ participants: [ParticipantStatus]) throws {
        let commands = try folder.openIfThere(.commands)
        let names = try commands?.names()
        if names == nil, letters?.count ?? 0 == 0 { return nil }
        path = folder.path
        (waiting, bytes) = (0, 0)
        for name in (names ?? []) where CommandFileName(name) != nil {
            // A command that was applied since the folder was listed does not wait any more.
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

    /// Finds other databases of the folder, and other folders of the database (rule X15).
    fileprivate mutating func findOthers(
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
        otherDatabases = own.others(of: here).map {
            Other(path: $0.database.path, owner: $0.owner.claim, record: $0.file)
        }
        // If no owner has connected the folder with the database, the caller may have named a wrong folder.
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

    /// The participants that apply the commands of a folder. Each shows that folder in the control block (rule X14).
    private static func owners(
        _ folder: OutboxFolder,
        _ participants: [ParticipantStatus]
    ) throws -> [SharingProcess]? {
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
            try outbox?.findOthers(folder, path, ownerships)
        } catch {
            unknowns.append("The outbox: \(SystemErrorAdvice.line(error) ?? DatabaseDiagnosis.sentence("\(error)"))")
        }
    }
}
