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
    /// The participants that apply what waits, unless they are suspended or stopped; nil when the system does not tell who does: it does on Linux
    /// alone, of processes of the same user.
    public var owners: [DatabaseStatus.Writer]?

    enum CodingKeys: String, CodingKey {
        case path, waiting, bytes, oldest, damaged, owners
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

        init(_ db: Database) throws {
            guard try OutboxTables.exist(db) else { return }
            isOwned = true
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
        let names = try System.names(inFolder: folder.commands)
        if names == nil, letters?.count ?? 0 == 0 { return nil }
        path = folder.path
        (waiting, bytes) = (0, 0)
        for name in (names ?? []).compactMap(CommandFileName.init) {
            // What was applied since the folder was listed waits no more.
            guard let status = try System.status(ofFileAt: folder.command(name)) else { continue }
            waiting += 1
            bytes = bytes.addingSaturating(Int(status.st_size))
            let date = Date(timeIntervalSince1970: Double(status.modificationTime) / 1e9)
            oldest = min(oldest ?? date, date)
        }
        damaged = try System.names(inFolder: folder.damaged)?.count ?? 0
        deadLetters = letters?.count
        deadLettersToRetry = letters?.toBeRetried
        owners = try Self.owners(folder, participants)
    }

    /// Owners watch the folder that commands come into.
    private static func owners(
        _ folder: OutboxFolder,
        _ participants: [DatabaseStatus.Participant]
    ) throws -> [DatabaseStatus.Writer]? {
        guard let identity = try System.identity(ofFileAt: folder.commands) else { return [] }
        var owners: [DatabaseStatus.Writer] = []
        for participant in participants where participant.role == .readWrite && participant.liveness != .dead {
            switch ProcessTable.watches(participant.pid, folder: identity) {
            case true?:
                owners.append(.init(pid: participant.pid, name: participant.author, isParticipant: true))
            case false?: break
            case nil: return nil
            }
        }
        return owners
    }
}

extension DatabaseStatus {
    mutating func lookAtOutbox(_ folder: OutboxFolder, _ letters: OutboxStatus.DeadLetters?) {
        do {
            outbox = try OutboxStatus(folder, letters, participants)
            if letters?.isOwned == true, try System.status(ofFileAt: folder.path) == nil {
                unknowns.append("What waits: commands were applied here. \(OutboxFiles.noneBeside(folder.path))")
            }
        } catch {
            unknowns.append("The outbox: \(SystemErrorAdvice.line(error) ?? "\(error).")")
        }
    }
}
