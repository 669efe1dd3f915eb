import Foundation
import GRDB
import RoundtableKernel
import Synchronization

/// Being the owner: applying what other processes have submitted.
extension SharedDatabase {
    /// Applies what waits in the outbox of this database, and what comes, from now on. ``Options/outbox`` does the same from the opening on.
    ///
    /// Any number of processes may do this at the same time: each command is applied by one of them.
    ///
    /// - returns: what it can be cancelled by. It goes on until then, or until the database is closed, also when this is thrown away.
    /// - throws: ``OutboxError/readOnly(path:)``, ``OutboxError/folderInUse(path:database:)``.
    @discardableResult
    public func drainOutbox(with handlers: OutboxHandlers) throws -> OutboxDrain {
        try checkProcess()
        let drain = try makeDrain(handlers)
        drain.begin()
        return drain
    }

    private func makeDrain(_ handlers: OutboxHandlers) throws -> OutboxDrain {
        guard role == .readWrite else { throw OutboxError.readOnly(path: path) }
        let claim = try OutboxClaim.make(outboxFolder, ofDatabaseAt: path)
        let drain = OutboxDrain(self, handlers: handlers, claim)
        drains.add(drain)
        return drain
    }

    /// What ``Options`` ask for. After opening.
    func beginOutbox(_ options: Options) throws {
        guard let handlers = options.outbox else { return }
        let drain = try makeDrain(handlers)
        if options.drainOnOpen { drain.drainFirst(within: options.drainOnOpenLimit.nanoseconds) }
        drain.begin()
    }

    // MARK: Dead letters

    /// The commands that were set aside, the oldest first.
    ///
    /// - throws: `DatabaseError`; ``OutboxError/newerFormat(path:format:)``.
    @_disfavoredOverload
    public func deadLetters() throws -> [DeadLetter] {
        try read { try Self.deadLetters(in: $0) }
    }

    /// The same, without blocking the thread.
    public func deadLetters() async throws -> [DeadLetter] {
        try await read { try Self.deadLetters(in: $0) }
    }

    /// The same, inside of an access.
    public static func deadLetters(in db: Database) throws -> [DeadLetter] {
        try OutboxTables.exist(db) ? OutboxTables.deadLetters(db) : []
    }

    /// Has a dead letter tried again, by an owner that knows the command: at once if one runs. It has lost its place in the order.
    ///
    /// - throws: ``OutboxError/noSuchDeadLetter(path:id:)``, ``OutboxError/readOnly(path:)``; `DatabaseError`.
    @_disfavoredOverload
    public func retryDeadLetter(_ id: UUID) throws {
        try checkDeadLettersCanChange()
        try explainingNoRoom { try write { try Self.retryDeadLetter(id, $0) } }
        wakeOwner(id)
    }

    /// The same, without blocking the thread.
    public func retryDeadLetter(_ id: UUID) async throws {
        try checkDeadLettersCanChange()
        try await explainingNoRoom { try await write { try Self.retryDeadLetter(id, $0) } }
        wakeOwner(id)
    }

    /// Forgets a dead letter. The command is not applied, also if it is submitted again under its id.
    ///
    /// - throws: ``OutboxError/noSuchDeadLetter(path:id:)``, ``OutboxError/readOnly(path:)``; `DatabaseError`.
    @_disfavoredOverload
    public func dropDeadLetter(_ id: UUID) throws {
        try checkDeadLettersCanChange()
        try explainingNoRoom { try write { try Self.dropDeadLetter(id, $0) } }
        tellDropped(id)
    }

    /// The same, without blocking the thread.
    public func dropDeadLetter(_ id: UUID) async throws {
        try checkDeadLettersCanChange()
        try await explainingNoRoom { try await write { try Self.dropDeadLetter(id, $0) } }
        tellDropped(id)
    }

    private func checkDeadLettersCanChange() throws {
        if role == .readOnly { throw OutboxError.readOnly(path: path) }
    }

    private static func retryDeadLetter(_ id: UUID, _ db: Database) throws {
        guard try OutboxTables.exist(db), try OutboxTables.markForRetry(id, db) else {
            throw OutboxError.noSuchDeadLetter(path: db.filePath, id: id)
        }
    }

    private static func dropDeadLetter(_ id: UUID, _ db: Database) throws {
        guard try OutboxTables.exist(db), try OutboxTables.removeDeadLetter(id, db) else {
            throw OutboxError.noSuchDeadLetter(path: db.filePath, id: id)
        }
        try OutboxTables.record(id, .dropped, at: Date(), db)
    }

    /// A question wakes whoever drains; its answer is for those who ask.
    private func wakeOwner(_ id: UUID) {
        // An owner that starts later looks by itself.
        let question = OutboxQuestion(id: id, folder: outboxFolder)
        question.withdrawAnswer()
        try? question.ask(try outboxFolder.access())
    }

    /// It is dropped, whether they can be told or not: where they cannot, an owner answers who asks again.
    private func tellDropped(_ id: UUID) {
        try? OutboxQuestion(id: id, folder: outboxFolder).answerDropped()
    }

    // MARK: Waiting commands

    /// Decides that a command that waits is not to be applied, and removes it.
    ///
    /// - returns: what was decided about it: ``OutboxOutcome/dropped``, or what an owner has decided first.
    /// - throws: ``OutboxError``; `DatabaseError`.
    package func dropWaiting(_ command: WaitingCommand) throws -> OutboxOutcome {
        try checkDeadLettersCanChange()
        let outcome = try explainingNoRoom {
            try write { db in
                _ = try db.identityOfUnmovedFile()
                try OutboxTables.createIfAbsent(db)
                if let decided = try OutboxTables.outcome(of: command.id, db) { return decided }
                try OutboxTables.record(command.id, .dropped, at: Date(), db)
                return OutboxOutcome.dropped
            }
        }
        do {
            try System.syncFile(at: path + "-wal")
            try outboxFolder.remove(command.fileName, from: .commands)
        } catch let error as SystemError {
            throw OutboxError(error, folder: outboxFolder.path)
        }
        if outcome == .dropped { tellDropped(command.id) }
        return outcome
    }
}

extension Outbox {
    /// What came of a drop without a database.
    package enum DropWithoutDatabase: Sendable {
        case dropped
        /// It did not wait any more.
        case gone
        /// There is a database after all: ``SharedDatabase/dropWaiting(_:)`` records it there.
        case databaseExists
    }

    /// Removes a command that waits for a database that is not there yet, and could not record that it was dropped; and tells those who have asked.
    ///
    /// Whoever drops a command has to know which database it is for: where that is there, it may have been applied, and what was decided is in the
    /// database alone. An owner that makes the database in this moment may apply it all the same.
    ///
    /// - throws: ``OutboxError``; ``SharedDatabaseError``, as opening the database would.
    package func drop(_ command: WaitingCommand, forAbsentDatabaseAt url: URL) throws -> DropWithoutDatabase {
        guard try DatabaseFile(url).size == nil else { return .databaseExists }
        do {
            guard try folder.remove(command.fileName, from: .commands) else { return .gone }
            try folder.sync(.commands)
            try OutboxQuestion(id: command.id, folder: folder).answerDropped()
            return .dropped
        } catch let error as SystemError {
            throw OutboxError(error, folder: folder.path)
        }
    }
}

/// The drains of one database.
final class OutboxDrains: Sendable {
    private struct State {
        var drains: [OutboxDrain] = []
        var isClosed = false
    }
    private let state = Mutex(State())

    func add(_ drain: OutboxDrain) {
        let isClosed = state.withLock { state in
            state.drains.append(drain)
            return state.isClosed
        }
        if isClosed { drain.close() }
    }

    /// The database is closed.
    func cancel() {
        let drains = state.withLock { state in
            state.isClosed = true
            return state.drains
        }
        for drain in drains { drain.close() }
    }

    /// What waits, by all of them.
    func drainNow() throws -> OutboxReport {
        try state.withLock { $0.drains }.reduce(OutboxReport()) { try $0 + $1.drainNow() }
    }

    /// What is done with this kind of command here.
    func handlers(of kind: OutboxCommandKind) -> OutboxHandlers? {
        state.withLock { $0.drains.lazy.map(\.handlers).first { $0.handler(of: kind) != nil } }
    }
}
