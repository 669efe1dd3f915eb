import Dispatch
import GRDB
import RoundtableGate
import RoundtableKernel

/// All writes reach the writer connection in this way: through the gate, on its queue, marked as writing, with the turn.
///
/// Generic functions keep the result, and pass on a closure without a result. Generic code is not specialized for types of other
/// modules, so each function that passes the result would request metadata from Swift's runtime.
extension SharedDatabase {
    /// - parameter refuse: called instead of `body` when `body` cannot run.
    func onWriter<T>(
        _ write: Write,
        refuse: (any Error) throws -> T,
        _ body: (Database) throws -> T
    ) rethrows -> T {
        guard isInOwnProcess else { return try refuse(forkedError) }
        var result: T?
        while true {
            switch try attempt(write, { result = try body($0) }) {
            case .done: return result!
            case .failed(let error): return try refuse(error)
            case .turnedBack: break
            }
            guard write.waits else { return try refuse(DatabaseError.suspended(path)) }
            gate.waitUntilOpen()
        }
    }

    /// Runs a write without a transaction. A statement of `updates` throws the refusal, because only `updates` can throw.
    func onWriterWithoutTransaction<T>(_ write: Write, _ updates: (Database) throws -> T) rethrows -> T {
        try onWriter(write, refuse: { try failingAccess($0, updates) }) { try withoutTransaction($0, updates) }
    }

    /// A cancelled task does not wait for its turn.
    func onWriter<T: Sendable>(_ write: Write, _ body: @Sendable (Database) throws -> T) async throws -> T {
        try checkProcess()
        while true {
            let (outcome, result) = try await attempt(write, body)
            if try outcome.isDone { return result! }
            guard write.waits else { throw DatabaseError.suspended(path) }
            try await gate.waitUntilOpen()
        }
    }

    /// Runs `body` with the turn, while no read of this participant runs. Reads continue while it waits for the gate.
    func onWriterAlone<T>(_ write: Write, _ body: (Database) throws -> T) throws -> T {
        try checkProcess()
        var result: T?
        while true {
            if !gate.isClosed, try readers.barrier({ try attempt(write, { result = try body($0) }) }).isDone {
                return result!
            }
            guard write.waits else { throw DatabaseError.suspended(path) }
            gate.waitUntilOpen()
        }
    }

    /// Runs `body` with the turn, while no read of this participant runs. Reads continue while it waits for the gate.
    func onWriterAlone<T: Sendable>(_ write: Write, _ body: @Sendable (Database) throws -> T) async throws -> T {
        try checkProcess()
        while true {
            if !gate.isClosed {
                let (outcome, result) = try await readers.barrier { try await attempt(write, body) }
                if try outcome.isDone { return result! }
            }
            guard write.waits else { throw DatabaseError.suspended(path) }
            try await gate.waitUntilOpen()
        }
    }

    /// Schedules `body` on the writer connection, and returns immediately.
    ///
    /// - Parameters:
    ///   - failed: called when `body` cannot run: after `fork`, when the connection cannot be reopened, or when the database is
    ///     suspended and the write does not wait.
    ///   - body: throws ``NotBegun`` and nothing else.
    func onWriterLater(
        _ write: Write,
        failed: @escaping @Sendable (Database, any Error) -> Void = { _, _ in },
        _ body: @escaping @Sendable (Database) throws -> Void
    ) {
        guard isInOwnProcess else { return failingAccess(forkedError) { failed($0, forkedError) } }
        attemptLater(write, body) { [self] error in
            guard error == nil, write.waits else {
                let error = error ?? DatabaseError.suspended(path)
                return failingAccess(error) { failed($0, error) }
            }
            whenOpen { [self] in onWriterLater(write, failed: failed, body) }
        }
    }

    /// Calls `body` when the gate is open, immediately or on a thread of the system.
    func whenOpen(_ body: @escaping @Sendable () -> Void) {
        let waiter = gate.onChange { DispatchQueue.global().async(execute: body) }
        if !gate.isClosed, gate.cancel(waiter) { body() }
    }

    func onWriterReentrantly<T>(_ write: Write, _ body: (Database) throws -> T) rethrows -> T {
        // The writer already holds the turn here.
        if isInOwnProcess, Access.isWriting(self) { return try writer.queue.unsafeReentrantWrite(body) }
        return try onWriterWithoutTransaction(write, body)
    }

    /// Runs a write transaction. Call it on the writer's queue, with the turn.
    package func transaction<T>(_ db: Database, _ updates: (Database) throws -> T) throws -> T {
        var result: T?
        try transaction(db) { result = try updates(db) }
        return result!
    }

    func transaction(_ db: Database, _ updates: () throws -> Void) throws {
        try writer.transaction(db) {
            try writer.forgetSchemaIfChanged(db)
            try writer.admitWrite()
            writer.prepareCompanions(db)
            try updates()
        }
    }

    /// Prepares a write without a transaction, and runs `body`.
    func withoutTransaction<T>(_ db: Database, _ body: (Database) throws -> T) rethrows -> T {
        // If this check fails, `body` fails for the same reason and reports it.
        writer.prepareOutsideTransaction(db)
        return try body(db)
    }
}

extension SharedDatabase {
    /// A requested write.
    package struct Write {
        let site: CallSite?
        /// Whether the write waits for the gate to open. Otherwise it fails.
        let waits: Bool
        /// When the waits for the connection, the turn and SQLite's lock end; nil: as the busy timeout says.
        let deadline: Nanoseconds?
        let priority: Priority

        enum Priority {
            /// As ``Options/priority`` says.
            case ofParticipant
            case own(TurnPriority)
            /// A group of writes, each of which has a priority of its own (rule M10).
            case ofMembers
        }

        package init(site: CallSite?, waits: Bool, deadline: Nanoseconds? = nil, priority: TurnPriority? = nil) {
            self.init(site: site, waits: waits, deadline: deadline, priority.map { .own($0) } ?? .ofParticipant)
        }

        init(site: CallSite?, waits: Bool, deadline: Nanoseconds? = nil, _ priority: Priority) {
            self.site = site
            self.waits = waits
            self.deadline = deadline
            self.priority = priority
        }
    }

    /// The priority of a write while it waits for the turn; nil for a group, whose members wait by themselves.
    func priority(of write: Write) -> TurnPriority? {
        switch write.priority {
        case .ofParticipant: options.priority
        case .own(let priority): priority
        case .ofMembers: nil
        }
    }

    /// A write begins to wait for the turn (rule T3).
    func beginWaiting(_ write: Write) {
        if let priority = priority(of: write) { waitingPriorities.add(priority, seat) }
    }

    /// A write has the turn, or waits no longer.
    func endWaiting(_ write: Write) {
        if let priority = priority(of: write) { waitingPriorities.remove(priority) }
    }

    /// The write of a blocking function.
    func blockingWrite(
        _ site: CallSite? = nil,
        _ whileSuspended: WhileSuspended? = nil,
        _ priority: TurnPriority? = nil
    ) -> Write {
        Write(site: site, waits: (whileSuspended ?? self.whileSuspended ?? .fail) == .wait, priority: priority)
    }

    /// The write of a function that is async or returns immediately.
    func waitingWrite(
        _ site: CallSite? = nil,
        _ whileSuspended: WhileSuspended? = nil,
        _ priority: TurnPriority? = nil
    ) -> Write {
        Write(site: site, waits: (whileSuspended ?? self.whileSuspended ?? .wait) == .wait, priority: priority)
    }
}
