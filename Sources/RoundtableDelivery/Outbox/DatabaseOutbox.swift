import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableKernel
import Synchronization

/// The outbox of an open database, for its owner, which applies the commands that other processes have submitted. It keeps the database open. See <doc:TheOutbox>.
public struct DatabaseOutbox: Sendable {
    let database: SharedDatabase
    var folder: OutboxFolder { database.outboxFolder }
    private var path: String { database.path }
}

extension SharedDatabase {
    /// The outbox of this database. ``Options/outbox`` says how this participant applies the commands in it.
    public var outbox: DatabaseOutbox { DatabaseOutbox(database: self) }
}

extension DatabaseOutbox {
    /// Applies the waiting commands of this database's outbox, and those that come later. ``SharedDatabase/Options/outbox`` does the same from opening on.
    ///
    /// Any number of processes may do this at the same time: each command is applied by one of them.
    ///
    /// - returns: the drain, which can be cancelled. It runs until then, or until the database is closed, even if this value is discarded.
    /// - throws: ``OutboxError/readOnly(path:)``, ``OutboxError/folderInUse(path:database:)``.
    @discardableResult
    public func drain(with handlers: OutboxHandlers) throws -> OutboxDrain {
        try database.checkProcess()
        let drain = try makeDrain(handlers)
        drain.begin()
        return drain
    }

    func makeDrain(_ handlers: OutboxHandlers) throws -> OutboxDrain {
        guard database.role == .readWrite else { throw OutboxError.readOnly(path: path) }
        let claim = try OutboxClaim.make(folder, ofDatabaseAt: path)
        let drain = OutboxDrain(database, handlers: handlers, claim)
        database.drains.add(drain)
        return drain
    }

    // MARK: Dead letters

    /// The commands that were set aside, the oldest first.
    ///
    /// - throws: `DatabaseError`; ``OutboxError/newerFormat(path:format:)``.
    @_disfavoredOverload
    public func deadLetters() throws -> [DeadLetter] {
        try database.read { try Self.deadLetters(in: $0) }
    }

    /// Returns the dead letters like the synchronous `deadLetters()`, without blocking the thread, with the same results and errors.
    public func deadLetters() async throws -> [DeadLetter] {
        try await database.read { try Self.deadLetters(in: $0) }
    }

    /// Returns the dead letters inside an access, the oldest first.
    ///
    /// - throws: `DatabaseError`; ``OutboxError/newerFormat(path:format:)``.
    public static func deadLetters(in db: Database) throws -> [DeadLetter] {
        try OutboxTables.exist(db) ? OutboxTables.deadLetters(db) : []
    }

    /// Requests a retry of a dead letter. An owner that knows the command tries it, immediately if one runs. The command has lost its
    /// place in the order.
    ///
    /// - throws: ``OutboxError/noSuchDeadLetter(path:id:)``, ``OutboxError/readOnly(path:)``, ``OutboxError/newerFormat(path:format:)``;
    ///   `DatabaseError`.
    @_disfavoredOverload
    public func retry(_ id: UUID) throws {
        try checkDeadLettersCanChange()
        try database.explainingNoRoom { try database.write { try Self.retry(id, $0) } }
        wakeOwner(id)
    }

    /// Requests a retry like the synchronous `retry(_:)`, without blocking the thread, with the same results and errors.
    public func retry(_ id: UUID) async throws {
        try checkDeadLettersCanChange()
        try await database.explainingNoRoom { try await database.write { try Self.retry(id, $0) } }
        wakeOwner(id)
    }

    /// Removes a dead letter. The command is not applied, even if it is submitted again under its id.
    ///
    /// - throws: ``OutboxError/noSuchDeadLetter(path:id:)``, ``OutboxError/readOnly(path:)``, ``OutboxError/newerFormat(path:format:)``;
    ///   `DatabaseError`.
    @_disfavoredOverload
    public func drop(_ id: UUID) throws {
        try checkDeadLettersCanChange()
        try database.explainingNoRoom { try database.write { try Self.drop(id, $0) } }
        answerDropped(id)
    }

    /// Removes a dead letter like the synchronous `drop(_:)`, without blocking the thread, with the same results and errors.
    public func drop(_ id: UUID) async throws {
        try checkDeadLettersCanChange()
        try await database.explainingNoRoom { try await database.write { try Self.drop(id, $0) } }
        answerDropped(id)
    }

    private func checkDeadLettersCanChange() throws {
        if database.role == .readOnly { throw OutboxError.readOnly(path: path) }
    }

    private static func retry(_ id: UUID, _ db: Database) throws {
        guard try OutboxTables.exist(db), try OutboxTables.markForRetry(id, db) else {
            throw OutboxError.noSuchDeadLetter(path: db.filePath, id: id)
        }
    }

    private static func drop(_ id: UUID, _ db: Database) throws {
        guard try OutboxTables.exist(db), try OutboxTables.removeDeadLetter(id, db) else {
            throw OutboxError.noSuchDeadLetter(path: db.filePath, id: id)
        }
        try OutboxTables.record(id, .dropped, at: Date(), db)
    }

    /// Wakes the owner by a question. Its answer is for the processes that ask for the outcome.
    private func wakeOwner(_ id: UUID) {
        // Errors are ignored, because an owner that starts later finds the dead letter by itself.
        let question = OutboxQuestion(id: id, folder: folder)
        question.withdrawAnswer()
        try? question.ask(try folder.access())
    }

    /// Answers that the command was dropped. Errors are ignored, because an owner answers a process that asks again.
    private func answerDropped(_ id: UUID) {
        try? OutboxQuestion(id: id, folder: folder).answerDropped()
    }

    // MARK: Waiting commands

    /// Decides that a waiting command is not to be applied, and removes it.
    ///
    /// - returns: the outcome of the command: ``OutboxOutcome/dropped``, or what an owner has decided first.
    /// - throws: ``OutboxError``; `DatabaseError`.
    package func dropWaiting(_ command: WaitingCommand) throws -> OutboxOutcome {
        try checkDeadLettersCanChange()
        let outcome = try database.explainingNoRoom {
            try database.write { db in
                _ = try database.identityOfFile()
                try OutboxTables.createIfAbsent(db)
                if let decided = try OutboxTables.outcome(of: command.id, db) { return decided }
                try OutboxTables.record(command.id, .dropped, at: Date(), db)
                return OutboxOutcome.dropped
            }
        }
        try folder.translating {
            try System.syncFile(at: path + "-wal")
            try folder.remove(command.fileName, from: .commands)
        }
        if outcome == .dropped { answerDropped(command.id) }
        return outcome
    }
}

extension CommandOutbox {
    /// The result of dropping a command without a database.
    package enum DropWithoutDatabase: Sendable {
        case dropped
        /// The command does not wait any more.
        case gone
        /// There is a database after all, where ``DatabaseOutbox/dropWaiting(_:)`` records the drop.
        case databaseExists
    }

    /// Removes a command that waits for a database that does not exist yet, and so cannot record the drop. Pending questions are answered.
    ///
    /// The caller has to know which database the command is for. If that database exists, the command may have been applied, and only the
    /// database knows what was decided. An owner that creates the database at this moment may still apply the command.
    ///
    /// - throws: ``OutboxError``; ``SharedDatabaseError``, as opening the database would.
    package func drop(_ command: WaitingCommand, forAbsentDatabaseAt url: URL) throws -> DropWithoutDatabase {
        guard try DatabaseFile(url).size == nil else { return .databaseExists }
        return try folder.translating {
            guard try folder.remove(command.fileName, from: .commands) else { return .gone }
            try folder.sync(.commands)
            try OutboxQuestion(id: command.id, folder: folder).answerDropped()
            return .dropped
        }
    }
}
