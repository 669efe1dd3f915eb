import GRDB
import RoundtableCore
import RoundtableGate
import RoundtableKernel
import Synchronization

/// The time in which a participant has a role. ``NamedRole/acquire(priority:timeout:patience:)`` begins it. It ends with ``end()``, when it
/// is released, or when the role is lost. Safe to use from any thread.
public final class RoleTerm: Sendable {
    /// The name of the role.
    package let role: String
    /// The number of this term: larger than those of all earlier terms of this role in this database file. A server that is given it with each
    /// request can refuse those of an earlier holder.
    public let generation: Int64

    private let database: SharedDatabase
    private let claim: RoleClaim
    let loss = RoleLoss()
    private let listener: Task<Void, Never>

    init(_ claim: RoleClaim, generation: Int64, in database: SharedDatabase) {
        (self.claim, self.database, self.generation) = (claim, database, generation)
        role = claim.role
        listener = Task { [loss, database] in
            await Self.follow(claim, database)
            // The term has ended, if the task is cancelled.
            if !Task.isCancelled { loss.declare(.lost) }
        }
        database.companion(Roles.self).follow(claim, loss)
    }

    deinit {
        loss.declare(.ended)
        listener.cancel()
        database.companion(Roles.self).leave(claim, database)
    }

    /// Whether this participant has the role, as far as it knows. It may have lost it at this moment: only a write that is made with
    /// ``write(priority:sharesCommit:file:line:_:)``, or that calls ``check(_:)``, is safe.
    public var isHeld: Bool { loss.isHeld }

    /// Runs `updates` in a transaction if this participant has the role, which is checked within the transaction. No two terms of one role
    /// overlap in what they commit this way.
    ///
    /// - throws: ``RoleError/lost(path:role:holder:)``, before `updates` runs; what `SharedDatabase.write` throws.
    public func write<T: Sendable>(
        priority: SharedDatabase.TurnPriority? = nil,
        sharesCommit: Bool? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: @Sendable (Database) throws -> T
    ) async throws -> T {
        try await database.write(priority: priority, sharesCommit: sharesCommit, file: file, line: line) { db in
            try check(db)
            return try updates(db)
        }
    }

    /// Runs `updates` in a transaction as the async function of the same name does, and blocks the calling thread.
    @_disfavoredOverload
    public func write<T>(
        priority: SharedDatabase.TurnPriority? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ updates: (Database) throws -> T
    ) throws -> T {
        try database.write(priority: priority, file: file, line: line) { db in
            try check(db)
            return try updates(db)
        }
    }

    /// Checks, within a write transaction, that this participant has the role. Then it has the role until that transaction is committed.
    ///
    /// - throws: ``RoleError/lost(path:role:holder:)``; `DatabaseError`.
    public func check(_ db: Database) throws {
        // A term that was ended is over before the table says so.
        if isHeld, try RoleTable.isHolder(claim.id, of: role, db) { return }
        loss.declare(.lost)
        let holder = try RoleTable.view(of: role, db)?.holdersClaim
        throw lost(holder: holder.map { SharingProcess($0.process, author: $0.author).description })
    }

    /// Waits until this participant has lost the role, the term was ended, or the task is cancelled.
    public func waitUntilLost() async { _ = await loss.wait() }

    /// Gives the role up. The next participant that waits has it when this returns.
    ///
    /// While the database is suspended, or cannot be written, this returns at once, and the role is given up as soon as it can be.
    public func end() async {
        loss.declare(.ended)
        listener.cancel()
        await database.companion(Roles.self).leaveNow(claim, database)
    }

    func lost(holder: String?) -> RoleError { .lost(path: database.path, role: role, holder: holder) }

    /// Returns when the claim does not hold the role any more, the database is closed, a file of it is lost, or the task is cancelled.
    private static func follow(_ claim: RoleClaim, _ database: SharedDatabase) async {
        var backoff = Backoff(.milliseconds(50), upTo: .seconds(1))
        while !Task.isCancelled {
            do {
                // The first look is after the observation has begun.
                var changes = database.changes(in: Table(RoleTable.roles)).makeAsyncIterator()
                repeat {
                    guard try await database.read({ try RoleTable.isHolder(claim.id, of: claim.role, $0) }) else {
                        return
                    }
                    backoff.succeeded()
                } while try await changes.next() != nil
                // The database is closed.
                return
            } catch let error as DatabaseError where error.isSuspension {
                try? await database.gate.waitUntilOpen()
            } catch let error as DatabaseError where error.resultCode != .SQLITE_MISUSE {
                // An error of the disk, or of a lock, says nothing of the role.
                try? await Task.sleep(for: .nanoseconds(Int64(backoff.next())))
            } catch {
                return
            }
        }
    }
}

/// Whether a term is over, and those who wait for that.
final class RoleLoss: Sendable {
    enum Fate { case held, ended, lost }

    private let state = Mutex((fate: Fate.held, waiters: [ObjectIdentifier: Latch<Void>]()))

    var isHeld: Bool { state.withLock { $0.fate == .held } }

    /// The first declaration counts.
    func declare(_ fate: Fate) {
        let waiters = state.withLock { state in
            if state.fate == .held { state.fate = fate }
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for waiter in waiters { waiter.set() }
    }

    /// Waits until the term is over, or the task is cancelled.
    ///
    /// - returns: how it was over; `held` if the task was cancelled.
    func wait() async -> Fate {
        let end = Latch<Void>()
        state.withLock { state in
            if state.fate == .held { state.waiters[ObjectIdentifier(end)] = end } else { end.set() }
        }
        await withTaskCancellationHandler {
            await end.value
        } onCancel: {
            end.set()
        }
        return state.withLock { state in
            state.waiters[ObjectIdentifier(end)] = nil
            return state.fate
        }
    }
}
