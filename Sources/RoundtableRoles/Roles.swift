import GRDB
import RoundtableCore
import RoundtableGate
import RoundtableKernel
import Synchronization

/// The claims of one open database to roles, until they have left the tables.
final class Roles: DatabaseCompanion {
    private struct Open {
        let claim: RoleClaim
        /// nil as long as the claim waits.
        var loss: RoleLoss?
    }
    private let open = Mutex<[Int64: Open]>([:])
    private let database = Mutex<WeakDatabase?>(nil)

    private struct WeakDatabase: Sendable {
        weak let database: SharedDatabase?
    }

    /// How long closing waits to give roles up. If that fails, others notice that the participant has left.
    private static let closingTimeout: Nanoseconds = 1_000_000_000

    func attach(to database: SharedDatabase) {
        self.database.withLock { $0 = WeakDatabase(database: database) }
        // Called on the writer's queue, with each slot that the participant gets.
        database.seat.follow { [weak self, weak database] _ in
            if let self, let database { self.showSlot(of: database) }
        }
    }

    func add(_ claim: RoleClaim) { open.withLock { $0[claim.id] = Open(claim: claim) } }

    func has(_ id: Int64) -> Bool { open.withLock { $0[id] != nil } }

    /// A term has begun.
    func follow(_ claim: RoleClaim, _ loss: RoleLoss) {
        let isClosed = open.withLock { open in
            open[claim.id]?.loss = loss
            return open[claim.id] == nil
        }
        if isClosed { loss.declare() }
    }

    /// Writes the owner word of another slot into the claims of terms. Those that wait do it themselves.
    private func showSlot(of database: SharedDatabase) {
        let owner = database.seat.participant?.owner
        let claims = open.withLock { $0.values.filter { $0.loss != nil }.map(\.claim) }
        if claims.isEmpty { return }
        Task {
            // If this fails, others cannot see that the participant lives, and take the role when their patience is over.
            try await database.write { db in
                for claim in claims { try RoleTable.update(owner, of: claim.id, db) }
            }
        }
    }

    // MARK: Leaving

    /// Removes a claim in the background, and tries again until it succeeds or the database is closed.
    func leave(_ claim: RoleClaim, _ database: SharedDatabase) {
        Task {
            var backoff = Backoff(.milliseconds(50), upTo: .seconds(10))
            while has(claim.id) {
                do {
                    return try await remove(claim, database, whileSuspended: .wait)
                } catch {
                    if Self.isFinal(error) { return forget(claim.id) }
                }
                try await Task.sleep(for: .nanoseconds(Int64(backoff.next())))
            }
        }
    }

    /// Removes a claim, and otherwise leaves it to the background. The calling task may be cancelled.
    func leaveNow(_ claim: RoleClaim, _ database: SharedDatabase) async {
        guard has(claim.id) else { return }
        let isRemoved = await Task {
            do {
                try await remove(claim, database, whileSuspended: .fail)
                return true
            } catch {
                return false
            }
        }.value
        if !isRemoved { leave(claim, database) }
    }

    private func remove(
        _ claim: RoleClaim,
        _ database: SharedDatabase,
        whileSuspended: WhileSuspended
    ) async throws {
        try await database.write(whileSuspended: whileSuspended) { db in
            try RoleTable.leave(claim.id, of: claim.role, db, RoleJudge(database.seat.participant?.block))
        }
        forget(claim.id)
    }

    private func forget(_ id: Int64) { open.withLock { $0[id] = nil } }

    /// Whether the database cannot be written any more.
    private static func isFinal(_ error: any Error) -> Bool {
        switch error {
        case let error as DatabaseError: error.resultCode == .SQLITE_MISUSE
        default: error is SharedDatabaseError
        }
    }

    // MARK: The companion of the database

    func databaseWillClose(isWithinAccess: Bool) throws {
        let claims = endAll()
        guard !claims.isEmpty, !isWithinAccess, let database = database.withLock({ $0 })?.database else { return }
        var write = database.blockingWrite(nil, .fail)
        write.deadline = MonotonicClock.now.addingSaturating(Self.closingTimeout)
        let judge = RoleJudge(database.seat.participant?.block)
        do {
            _ = try database.attemptUntilDeadline(write) { [weak database] db in
                try database?.transaction(db) {
                    for claim in claims { try RoleTable.leave(claim.id, of: claim.role, db, judge) }
                }
            }
        } catch {
            // The database is suspended, locked or lost. Others notice that the participant has left.
        }
    }

    func databaseIsClosing() { _ = endAll() }

    func databaseLostFile() { _ = endAll() }

    private func endAll() -> [RoleClaim] {
        let all = open.withLock { open in
            defer { open = [:] }
            return Array(open.values)
        }
        for one in all { one.loss?.declare() }
        return all.map(\.claim)
    }
}

/// The roles of each database.
package final class RolesFeature: DatabaseFeature {
    private let roles = Roles()

    package init(_ opening: inout DatabaseOpening) {}

    package var databaseCompanion: (any DatabaseCompanion)? { roles }

    package func attach(to database: SharedDatabase) { roles.attach(to: database) }

    package func contentWillReplaceOther(_ copy: Database) throws { try RoleTable.removeClaims(copy) }
}
