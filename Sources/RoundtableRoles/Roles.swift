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
        /// Whether it is to leave the tables.
        var isOver = false
    }
    private let open = Mutex<[Int64: Open]>([:])
    private let database = Mutex<WeakDatabase?>(nil)
    private let stamp = Mutex<UInt64>(0)

    private struct WeakDatabase: Sendable {
        weak var database: SharedDatabase?
    }

    /// The claims of all databases of this process. Other claims that name this process are of nobody.
    private static let live = Mutex<Set<Int64>>([])

    static func isLive(_ id: Int64) -> Bool { live.withLock { $0.contains(id) } }

    /// How long closing waits to give roles up. If that fails, others see that the participant has left, or that it does not answer.
    private static let closingTimeout: Nanoseconds = 1_000_000_000

    /// The stamp of the database file (rule P15); 0: not known. It is computed for the first claim.
    var file: UInt64 {
        let path = database.withLock { $0?.database?.path }
        return stamp.withLock { stamp in
            if stamp == 0, let path { stamp = FileStamps(ofDatabaseAt: path).database }
            return stamp
        }
    }

    func attach(to database: SharedDatabase) {
        self.database.withLock { $0 = WeakDatabase(database: database) }
        // Called on the writer's queue, with each slot that the participant gets.
        database.seat.follow { [weak self, weak database] _ in
            if let self, let database { self.showSlot(of: database) }
        }
    }

    func add(_ claim: RoleClaim) {
        Self.live.withLock { _ = $0.insert(claim.id) }
        open.withLock { $0[claim.id] = Open(claim: claim) }
    }

    /// Whether the claim is not to leave.
    func isWanted(_ id: Int64) -> Bool { open.withLock { $0[id]?.isOver == false } }

    private func isOpen(_ id: Int64) -> Bool { open.withLock { $0[id] != nil } }

    /// A term has begun.
    func follow(_ claim: RoleClaim, _ loss: RoleLoss) {
        let isOver = open.withLock { open in
            open[claim.id]?.loss = loss
            return open[claim.id]?.isOver ?? true
        }
        if isOver { loss.declare(.lost) }
    }

    /// Writes the owner word of another slot into the claims.
    private func showSlot(of database: SharedDatabase) {
        let owner = database.seat.participant?.owner
        let claims = open.withLock { $0.values.map(\.claim) }
        if claims.isEmpty { return }
        Task {
            // If this fails, others cannot see that the participant lives, and take the role when their patience is over.
            try await database.write { db in
                for claim in claims { try RoleTable.update(owner, of: claim.id, db) }
            }
        }
    }

    // MARK: Leaving

    /// Removes a claim in the background, and tries again until it succeeds or the database cannot be written any more.
    func leave(_ claim: RoleClaim, _ database: SharedDatabase) {
        open.withLock { $0[claim.id]?.isOver = true }
        Task { [weak database] in
            var backoff = Backoff(.milliseconds(50), upTo: .seconds(10))
            while isOpen(claim.id), let database {
                do {
                    return try await remove(claim, database, whileSuspended: .wait)
                } catch {
                    guard Self.mayPass(error) else { return forget([claim]) }
                }
                try await Task.sleep(for: .nanoseconds(Int64(backoff.next())))
            }
        }
    }

    /// Removes a claim, and otherwise leaves it to the background. The calling task may be cancelled.
    func leaveNow(_ claim: RoleClaim, _ database: SharedDatabase) async {
        guard isOpen(claim.id) else { return }
        open.withLock { $0[claim.id]?.isOver = true }
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

    private func remove(_ claim: RoleClaim, _ database: SharedDatabase, whileSuspended: WhileSuspended) async throws {
        try await database.write(whileSuspended: whileSuspended) { db in
            try RoleTable.leave(claim.id, of: claim.role, db, RoleJudge(database))
        }
        forget([claim])
    }

    private func forget(_ claims: [RoleClaim]) {
        Self.live.withLock { live in for claim in claims { live.remove(claim.id) } }
        open.withLock { open in for claim in claims { open[claim.id] = nil } }
    }

    /// Whether a write that failed may succeed later.
    private static func mayPass(_ error: any Error) -> Bool {
        switch error {
        case let error as DatabaseError:
            [
                .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOMEM, .SQLITE_INTERRUPT,
                .SQLITE_ABORT,
            ]
            .contains(error.resultCode)
        // The database may become known again. Meanwhile, others see that this participant refuses its writes.
        case SharedDatabaseError.schemaTooNew: true
        default: error is CancellationError
        }
    }

    // MARK: The companion of the database

    func databaseWillRefuseWrites() { giveUp(isWithinAccess: false) }

    func databaseWillClose(isWithinAccess: Bool) throws { giveUp(isWithinAccess: isWithinAccess) }

    /// Ends all terms and waits, and removes their claims if that is possible soon.
    private func giveUp(isWithinAccess: Bool) {
        let claims = endAll()
        guard !claims.isEmpty, !isWithinAccess, let database = database.withLock({ $0 })?.database else { return }
        var write = database.blockingWrite(nil, .fail)
        write.deadline = MonotonicClock.now.addingSaturating(Self.closingTimeout)
        let judge = RoleJudge(database)
        do {
            let refusal = try database.attemptUntilDeadline(write) { [weak database] db in
                try database?.transaction(db) {
                    for claim in claims { try RoleTable.leave(claim.id, of: claim.role, db, judge) }
                }
            }
            if refusal == nil { forget(claims) }
        } catch {
            // The database is suspended, locked or lost. Others see that the participant has left, or that it does not answer.
        }
    }

    func databaseStaysOpen() {
        guard let database = database.withLock({ $0 })?.database else { return }
        for one in open.withLock({ Array($0.values) }) where one.isOver { leave(one.claim, database) }
    }

    func databaseIsClosing() { forget(endAll()) }

    func databaseLostFile() { forget(endAll()) }

    private func endAll() -> [RoleClaim] {
        let all = open.withLock { open in
            for id in open.keys { open[id]?.isOver = true }
            return Array(open.values)
        }
        for one in all { one.loss?.declare(.lost) }
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
