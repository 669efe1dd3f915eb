import GRDB
import RoundtableCore
import RoundtableGate
import RoundtableKernel
import Synchronization

extension SharedDatabase {
    /// A role that one participant at a time has, such as that of the one that synchronizes. See <doc:Jobs#Roles>.
    ///
    /// ```swift
    /// try await db.role("sync").hold { term in
    ///     while let page = try await server.nextPage() {
    ///         try await term.write { db in try page.store(db) }
    ///     }
    /// }
    /// ```
    ///
    /// - parameter name: the name that all processes use: a text without NUL. Names are compared byte by byte.
    public func role(_ name: String) -> NamedRole { NamedRole(name: name, database: self) }
}

/// A role that one participant at a time has. This value names it, and is cheap: it takes nothing.
///
/// The participant that has a role loses it when it ends its term, closes the database, or dies, and, as soon as another participant waits for
/// it, when it is suspended, cannot write because of a newer schema, or does not answer for longer than that one's patience. So a process that
/// is frozen does not keep it. When it goes on, its ``RoleTerm`` tells it, and ``RoleTerm/write(priority:sharesCommit:file:line:_:)`` writes
/// nothing any more.
///
/// Roles are kept in the database, so they need one that is open for writing. Safe to use from any thread.
public struct NamedRole: Sendable {
    package let name: String
    let database: SharedDatabase

    /// Waits until this participant has the role. Participants get it in the order of their priorities, and of their calls.
    ///
    /// - Parameters:
    ///   - priority: how urgent it is among the participants that wait.
    ///   - timeout: how long to wait; nil: until the task is cancelled.
    ///   - patience: how long to wait for a holder whose process lives and does not answer, because it is frozen. At least 0.3 s.
    /// - returns: the term. It ends when it is released, too.
    /// - throws: ``RoleError/timedOut(path:role:holder:)``; `CancellationError`; `DatabaseError`.
    public func acquire(
        priority: SharedDatabase.TurnPriority = .default,
        timeout: Duration? = nil,
        patience: Duration = .seconds(1)
    ) async throws -> RoleTerm {
        let patience = max(patience, .milliseconds(300)).nanoseconds
        let search = RoleSearch(role: self, priority: priority, patience: patience)
        guard let timeout else { return try await search.run() }
        return try await withThrowingTaskGroup(of: RoleTerm?.self) { group in
            group.addTask { try await search.run() }
            group.addTask {
                try await Task.sleep(for: timeout)
                return nil
            }
            defer { group.cancelAll() }
            if let term = try await group.next()! { return term }
            group.cancelAll()
            // The term may have begun at the last moment.
            if let term = try? await group.next()! { return term }
            throw RoleError.timedOut(path: database.path, role: name, holder: try? await holder()?.description)
        }
    }

    /// Waits for the role, and runs `body` while this participant has it. The role is given up when `body` has ended.
    ///
    /// If the participant loses the role meanwhile, the task of `body` is cancelled, and this throws ``RoleError/lost(path:role:holder:)``
    /// when `body` has ended.
    ///
    /// - throws: what `acquire` and `body` throw.
    public func hold<T: Sendable>(
        priority: SharedDatabase.TurnPriority = .default,
        timeout: Duration? = nil,
        patience: Duration = .seconds(1),
        _ body: @escaping @Sendable (RoleTerm) async throws -> T
    ) async throws -> T {
        let term = try await acquire(priority: priority, timeout: timeout, patience: patience)
        let result: Result<T, any Error>
        do {
            result = .success(
                // Of the two tasks, the first has a value, and the second an error or nothing.
                try await withThrowingTaskGroup(of: T?.self) { group in
                    group.addTask { .some(try await body(term)) }
                    group.addTask {
                        guard await term.loss.wait() == .lost else { return nil }
                        throw term.lost(holder: try? await holder()?.description)
                    }
                    defer { group.cancelAll() }
                    while let value = try await group.next() {
                        if let value { return value }
                    }
                    preconditionFailure("the body has returned a value, or thrown")
                }
            )
        } catch {
            result = .failure(error)
        }
        await term.end()
        return try result.get()
    }

    /// The participant that has the role now; nil: none, or one that can be seen to have lost it.
    ///
    /// - throws: `DatabaseError`.
    public func holder() async throws -> SharingProcess? {
        guard let view = try await database.read({ try RoleTable.view(of: name, $0) }), let claim = view.holdersClaim,
            RoleJudge(database).sign(of: claim) != .gone
        else { return nil }
        return SharingProcess(claim.process, author: claim.author)
    }
}

/// One wait for a role.
private struct RoleSearch: Sendable {
    let role: NamedRole
    let priority: SharedDatabase.TurnPriority
    let patience: Nanoseconds
    private var database: SharedDatabase { role.database }

    func run() async throws -> RoleTerm {
        let claim = RoleClaim(role.name, priority, of: database)
        let roles = database.companion(Roles.self)
        roles.add(claim)
        do {
            let generation = try await wait(claim)
            // `close()` has given the claim up meanwhile.
            guard roles.isWanted(claim.id) else { throw DatabaseError.closed(database.path) }
            return RoleTerm(claim, generation: generation, in: database)
        } catch {
            roles.leave(claim, database)
            throw error
        }
    }

    /// - returns: the generation of the term.
    private func wait(_ claim: RoleClaim) async throws -> Int64 {
        if let generation = try await file(claim) { return generation }
        let wakes = TaskWakes()
        let isFollowing = Atomic(true)
        let listener = Task { [changes = database.changes(in: Table(RoleTable.roles), Table(RoleTable.claims))] in
            defer {
                isFollowing.store(false, ordering: .sequentiallyConsistent)
                wakes.wake()
            }
            for try await _ in changes { wakes.wake() }
        }
        defer { listener.cancel() }
        var wait = RoleWait(patience: patience)
        var glance: RoleTable.Glance?
        while true {
            try Task.checkCancellation()
            if glance == nil {
                do {
                    glance = try await database.read { try RoleTable.glance(of: role.name, for: claim.id, $0) }
                } catch let error as DatabaseError where error.isSuspension {
                    try await database.gate.waitUntilOpen()
                    continue
                }
            }
            guard let seen = glance, seen.isFiled else {
                // The role was given to this claim while its process was frozen, and then taken; or other content is in the database.
                if let generation = try await file(claim) { return generation }
                glance = nil
                continue
            }
            if seen.holder == claim.id { return seen.generation }
            var hasFailed = false
            let judge = RoleJudge(database)
            let sign = seen.holdersClaim.map(judge.sign) ?? .gone
            let ahead = sign.isFree ? try await self.ahead(of: claim, judge) : 0
            let step = wait.look(
                at: MonotonicClock.now,
                holder: seen.holder,
                sign,
                canAsk: judge.block != nil,
                ahead: ahead
            )
            switch step {
            case .wait: break
            case .ask: judge.block.map { wait.asked($0.ask()) }
            case .remind: judge.block?.interruptNews()
            case .take:
                let question = wait.question
                let generation = try await database.write(priority: priority) { [database] db in
                    try RoleTable.take(claim, insteadOf: seen.holder, unanswered: question, db, RoleJudge(database))
                }
                if let generation { return generation }
                wait.failed()
                hasFailed = true
            }
            let next = ContinuousClock.now + .nanoseconds(Int64(RoleWait.interval))
            let isChanged = await wakes.next(until: next)
            // When the database is closed, or a file of it is lost, no change is reported any more, and the next read fails.
            if isChanged || hasFailed || !isFollowing.load(ordering: .sequentiallyConsistent) { glance = nil }
        }
    }

    private func file(_ claim: RoleClaim) async throws -> Int64? {
        try await database.write(priority: priority) { [database] db in
            // A claim that closing has removed is not added again.
            guard database.companion(Roles.self).isWanted(claim.id) else { throw DatabaseError.closed(database.path) }
            var claim = claim
            // The turn may have brought another slot.
            claim.owner = database.seat.participant?.owner
            return try RoleTable.file(claim, db, RoleJudge(database))
        }
    }

    private func ahead(of claim: RoleClaim, _ judge: RoleJudge) async throws -> Int {
        try await database.read { db in
            try RoleTable.view(of: role.name, db).map { judge.ahead(of: claim.id, in: $0) } ?? 0
        }
    }
}
