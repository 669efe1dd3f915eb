import Foundation
import GRDB
import RoundtableCore
import RoundtableFiles
import RoundtableGate
import RoundtableKernel
import Synchronization

extension SharedDatabase {
    /// The result of performing a command.
    public enum PerformResult: Sendable {
        /// The command is applied: its transaction is committed.
        case applied
        /// The command is stored in the outbox, and an owner of the database applies it.
        case submitted(OutboxSubmission)

        public var isApplied: Bool { if case .applied = self { true } else { false } }
    }

    /// Applies a command now if the turn can be acquired in time, and otherwise submits it to the outbox. For a write to a suspended or
    /// busy database, this is the third way besides waiting and failing.
    ///
    /// The command is submitted, under the name of ``author``, if
    /// - the database is suspended, or becomes so before the command is committed;
    /// - there is no turn within `patience`, or another program holds the lock;
    /// - an earlier command of this author still waits: the order is kept;
    /// - the database is read-only here, or none of its ``Options/outbox`` handlers knows the command;
    /// - another program has migrated the database further than this one knows, so that it must not write (``Options/newerSchemaPolicy``).
    ///
    /// - Parameters:
    ///   - command: what to do.
    ///   - id: the id under which the command is applied once, whether it is performed or submitted.
    ///   - patience: how long to wait for the turn, at least 1 ms. The call waits longer for a handler that has begun.
    ///   - priority: how urgent the command is among the writes that wait for the turn; nil, the default: as ``Options/priority`` says.
    ///   - file: the file of the call, for errors of other processes and for `status`.
    ///   - line: the line of the call.
    /// - throws: what the handler throws, including an ``OutboxRefusal``: nothing is then applied or submitted. `DatabaseError`.
    ///   ``OutboxError`` if the command could not be submitted, or was set aside or dropped before.
    @_disfavoredOverload
    @discardableResult
    public func perform<Command: OutboxCommand>(
        _ command: Command,
        id: UUID = UUID(),
        patience: Duration = .milliseconds(100),
        priority: TurnPriority? = nil,
        file: StaticString = #fileID,
        line: UInt = #line
    ) throws -> PerformResult {
        try checkProcess()
        // The wait is at least 1 ms, because the connection cannot be reached in less time.
        let deadline = MonotonicClock.now.addingSaturating(max(patience.nanoseconds, 1_000_000))
        let outbox = try drains.ownOutbox(of: author)
        let pending = try outbox.file(of: command, id: id)
        if let handlers = drains.handlers(of: pending.kind), role == .readWrite, !gate.isClosed,
            try !outbox.hasWaiting()
        {
            var write = blockingWrite(CallSite(file, line), .fail, priority)
            write.deadline = deadline
            do {
                if try perform(pending, handlers, write) { return .applied }
            } catch {
                let consequence =
                    "\(pending.kind) (\(id)) was neither applied nor submitted: perform it again when there is space."
                throw error.explainingNoRoom(in: path, consequence)
            }
        }
        return .submitted(try outbox.submit(pending))
    }

    /// Performs a command like the synchronous `perform(_:id:patience:priority:file:line:)`, without blocking the thread, with the same results and errors.
    @discardableResult
    public func perform<Command: OutboxCommand>(
        _ command: Command,
        id: UUID = UUID(),
        patience: Duration = .milliseconds(100),
        priority: TurnPriority? = nil,
        file: StaticString = #fileID,
        line: UInt = #line
    ) async throws -> PerformResult {
        try await offThread {
            Result { try self.perform(command, id: id, patience: patience, priority: priority, file: file, line: line) }
        }.get()
    }

    // Rule X13: `perform` applies a command immediately, under X4, if a turn is acquired within its patience, the gate is open, a handler
    // is known, and no command of this sender waits in `commands`; else it submits it. Its own error is thrown, and counts as no attempt.
    // What could not be submitted is not performed either. If it is interrupted and rolled back, the command is submitted with the same id.

    /// Performs a command now (rule X13).
    ///
    /// - returns: false when the command is to be submitted.
    private func perform(_ command: CommandFile, _ handlers: OutboxHandlers, _ write: Write) throws -> Bool {
        let outcome = Mutex<OutboxOutcome?>(nil)
        let hasBegun = Mutex(false)
        do {
            let refusal = try attemptUntilDeadline(write) { db in
                try self.writer.namingObstacles {
                    try self.transaction(db) {
                        hasBegun.withLock { $0 = true }
                        do {
                            let decided = try handlers.perform(command, db)
                            outcome.withLock { $0 = decided }
                        } catch  where self.gate.isAborted {
                            // The handler may have replaced the error of the interruption by one of its own.
                            throw DatabaseError.suspended(self.path)
                        }
                    }
                }
            }
            switch refusal {
            case nil: break
            case .turnedBack: return false
            case .failed(let error): throw error
            }
        } catch let error as DatabaseError where error.isSuspension {
            return false
        } catch SharedDatabaseError.schemaTooNew where !hasBegun.withLock({ $0 }) {
            return false
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY && !hasBegun.withLock({ $0 }) {
            return false
        }
        switch outcome.withLock({ $0 }) {
        case .applied?: return true
        case let other?: throw OutboxError.decidedBefore(path: path, id: command.id, outcome: other)
        case nil: return false
        }
    }
}

extension CommandOutbox {
    /// Whether a command of this sender waits.
    func hasWaiting() throws -> Bool {
        let names = try folder.translating { try folder.names(in: .commands) } ?? []
        let prefix = (CommandFileName.encoded(sender) ?? "") + "."
        return names.contains { $0.utf8.starts(with: prefix.utf8) && CommandFileName($0) != nil }
    }
}

extension OutboxHandlers {
    /// Applies a command inside a transaction, unless it was decided before.
    ///
    /// - returns: the outcome of the command, decided by this call or before.
    /// - throws: what the handler throws.
    func perform(_ command: CommandFile, _ db: Database) throws -> OutboxOutcome {
        try OutboxTables.createIfAbsent(db)
        if let outcome = try OutboxTables.outcome(of: command.id, db) { return outcome }
        guard let handler = handler(of: command.kind) else { return .waiting }
        try handler(db, command, OutboxCommandInfo(command, attempt: 1))
        try OutboxTables.record(command.id, .applied, at: environment.now(), db)
        return .applied
    }
}
