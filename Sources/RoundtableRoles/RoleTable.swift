import GRDB
import RoundtableCore
import RoundtableKernel

// Rule P17: A claim is a row of `roundtable_role_claim`: a random `id` of 63 bits, never used again; pid, start time and namespace as in a
// slot; `boot`, the system's identifier of the boot, empty if it has none; `file`, the stamp of the database file (P15), 0 if not known;
// `owner`, the owner word of the claimant's slot, 0 without one, read in the transaction that stores it. `holder` is the `id` of the claim
// that has the role, or NULL. Claims have the role in the order of `priority` (0 first), `place` (one more than the largest of the role),
// `id`. Names are compared byte by byte.

// Rule P18: All changes are write transactions. Who adds a claim takes the role in it if no claim before it can have it, and the holder's
// is missing or *free*. Whoever gives the role to a claim adds 1 to `generation`, stores `since` (ms since 1970), and removes the claim
// that had it, and those that are *gone*: `file` differs, both being known; it names the own process, which does not know its `id`; its
// owner word's slot has a dead owner (P4); or no slot has that word, and `boot` differs or its process is dead. *Free* is one that is gone,
// suspended, or has bit 25 (S9).

// Rule P20: A holder that writes as the holder checks in the same transaction that `holder` is its claim. A holder that was passed over
// finds another `id` there, and must not commit. Nothing else makes a write safe: neither what it has read before, nor the control block.

// Rule P21: A holder that ends, and a participant that closes, removes its claim, and gives the role to the first claim that is not free,
// in one transaction. A participant that gets another slot stores its owner word in its claims. In content that replaces the database's
// (S15) there are no claims, and no holders.

// All functions run inside a transaction of the caller.

/// A participant's wish to have a role: a row of `roundtable_role_claim`.
package struct RoleClaim: Sendable, Equatable {
    package let id: Int64
    package let role: String
    package let priority: Int64
    package let author: String
    package let process: ProcessIdentity
    package let boot: String
    /// The stamp of the database file (rule P15): the claims of a copy mean nothing. 0: not known.
    package let file: UInt64
    /// The owner word of the participant's slot; nil: it has none.
    package var owner: OwnerWord?

    init(_ role: String, _ priority: SharedDatabase.TurnPriority, of database: SharedDatabase) {
        id = Int64.random(in: 1...Int64.max)
        self.role = role
        self.priority = Int64(priority.rawValue)
        author = database.author
        process = .current
        boot = BootClock.bootID
        file = database.companion(Roles.self).file
        owner = database.seat.participant?.owner
    }
}

extension RoleClaim: FetchableRecord {
    package init(row: Row) {
        id = row["id"]
        role = row["role"]
        priority = row["priority"]
        author = row["author"]
        process = ProcessIdentity(row)
        boot = row["boot"]
        file = UInt64(bitPattern: row["file"])
        let word: Int64 = row["owner"]
        owner = word == 0 ? nil : OwnerWord(stored: word)
    }
}

/// A role, and all claims to it, at one moment.
package struct RoleView: Sendable {
    package let generation: Int64
    package let holder: Int64?
    /// When the holder got the role, in ms since 1970.
    package let since: Int64
    /// In the order in which they get the role. The holder's is among them.
    package let claims: [RoleClaim]

    package var holdersClaim: RoleClaim? { claims.first { $0.id == holder } }
    package var waiting: [RoleClaim] { claims.filter { $0.id != holder } }
}

package enum RoleTable {
    package static let roles = "roundtable_role"
    package static let claims = "roundtable_role_claim"

    private static let schema = """
        CREATE TABLE IF NOT EXISTS main.roundtable_role (
            name TEXT PRIMARY KEY NOT NULL,
            generation INTEGER NOT NULL,
            holder INTEGER,
            since INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE IF NOT EXISTS main.roundtable_role_claim (
            id INTEGER PRIMARY KEY,
            role TEXT NOT NULL,
            priority INTEGER NOT NULL,
            place INTEGER NOT NULL,
            author TEXT NOT NULL,
            pid INTEGER NOT NULL,
            start_time INTEGER NOT NULL,
            namespace INTEGER NOT NULL,
            boot TEXT NOT NULL,
            file INTEGER NOT NULL,
            owner INTEGER NOT NULL
        ) STRICT;
        """
    private static let now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

    package static func exist(_ db: Database) throws -> Bool {
        let sql =
            "SELECT count(*) = 2 FROM main.sqlite_master WHERE type = 'table' AND name IN ('\(roles)', '\(claims)')"
        return try Bool.fetchOne(db.cachedStatement(sql: sql)) ?? false
    }

    // MARK: Reading

    /// - returns: nil when nobody has ever claimed the role.
    package static func view(of role: String, _ db: Database) throws -> RoleView? {
        guard try exist(db) else { return nil }
        let sql = "SELECT generation, holder, since FROM main.roundtable_role WHERE name = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [role]) else { return nil }
        let claims = "SELECT * FROM main.roundtable_role_claim WHERE role = ? ORDER BY priority, place, id"
        return RoleView(
            generation: row["generation"],
            holder: row["holder"],
            since: row["since"],
            claims: try RoleClaim.fetchAll(db.cachedStatement(sql: claims), arguments: [role])
        )
    }

    /// What a claim that waits must know after each change. It reads no other claims.
    struct Glance: Sendable {
        let generation: Int64
        let holder: Int64?
        let holdersClaim: RoleClaim?
        /// Whether the claim that waits is in the table.
        let isFiled: Bool
    }

    static func glance(of role: String, for id: Int64, _ db: Database) throws -> Glance? {
        guard try exist(db) else { return nil }
        let sql = "SELECT generation, holder FROM main.roundtable_role WHERE name = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [role]) else { return nil }
        let claim = try db.cachedStatement(sql: "SELECT * FROM main.roundtable_role_claim WHERE id = ? AND role = ?")
        let holder: Int64? = row["holder"]
        return Glance(
            generation: row["generation"],
            holder: holder,
            holdersClaim: try RoleClaim.fetchOne(claim, arguments: [holder, role]),
            isFiled: try Row.fetchOne(claim, arguments: [id, role]) != nil
        )
    }

    package static func names(_ db: Database) throws -> [String] {
        guard try exist(db) else { return [] }
        return try String.fetchAll(db, sql: "SELECT name FROM main.roundtable_role ORDER BY name")
    }

    /// Whether the claim with this id holds the role (rule P20).
    static func isHolder(_ id: Int64, of role: String, _ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT * FROM main.roundtable_role WHERE name = ? AND holder = ?)"
        // The table is there, unless the database was erased.
        guard try exist(db) else { return false }
        return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [role, id]) ?? false
    }

    // MARK: Claiming

    /// Adds a claim, and takes the role if it is free and no other claim comes first (rule P18).
    ///
    /// - returns: the generation of the new holder; nil when the claim has to wait.
    static func file(_ claim: RoleClaim, _ db: Database, _ judge: RoleJudge) throws -> Int64? {
        if try !exist(db) { try db.execute(sql: schema) }
        let role = "INSERT OR IGNORE INTO main.roundtable_role (name, generation, since) VALUES (?, 0, \(now))"
        try db.execute(sql: role, arguments: [claim.role])
        let sql = """
            INSERT OR REPLACE INTO main.roundtable_role_claim
                (id, role, priority, place, author, pid, start_time, namespace, boot, file, owner)
            VALUES (?, ?, ?, (SELECT 1 + coalesce(max(place), 0) FROM main.roundtable_role_claim WHERE role = ?), ?, ?, ?, ?, ?, ?, ?)
            """
        try db.execute(
            sql: sql,
            arguments: [claim.id, claim.role, claim.priority, claim.role, claim.author]
                + StatementArguments(claim.process.columns)
                + [claim.boot, Int64(bitPattern: claim.file), claim.owner?.stored ?? 0]
        )
        guard let view = try view(of: claim.role, db), judge.isFree(view), judge.ahead(of: claim.id, in: view) == 0
        else {
            return nil
        }
        return try give(claim.role, to: claim.id, insteadOf: view, db, judge)
    }

    /// Takes the role for a claim, if it is still held by `holder` (rule P19).
    ///
    /// - parameter question: what the holder has not answered; nil: the role is free, which is judged again.
    /// - returns: the generation of the new holder; nil when the role has changed hands, or the holder shows that it lives.
    static func take(
        _ claim: RoleClaim,
        insteadOf holder: Int64?,
        unanswered question: UInt32?,
        _ db: Database,
        _ judge: RoleJudge
    ) throws -> Int64? {
        guard let view = try view(of: claim.role, db), view.holder == holder,
            view.claims.contains(where: { $0.id == claim.id })
        else { return nil }
        guard judge.isFree(view) || question.map({ judge.holder(of: view, leavesUnanswered: $0) }) == true else {
            return nil
        }
        return try give(claim.role, to: claim.id, insteadOf: view, db, judge)
    }

    /// Removes a claim. The role goes to the next one that can have it (rule P21).
    static func leave(_ id: Int64, of role: String, _ db: Database, _ judge: RoleJudge) throws {
        if let view = try view(of: role, db), view.holder == id {
            let next = view.waiting.first { !judge.sign(of: $0).isFree }
            _ = try give(role, to: next?.id, insteadOf: view, db, judge)
        } else if try db.tableExists(claims) {
            // Without the role's row, too: another program may have removed it.
            try remove([id], db)
        }
    }

    /// The participant has another slot.
    static func update(_ owner: OwnerWord?, of id: Int64, _ db: Database) throws {
        guard try exist(db) else { return }
        let sql = "UPDATE main.roundtable_role_claim SET owner = ? WHERE id = ? AND owner <> ?"
        let word = owner?.stored ?? 0
        try db.cachedStatement(sql: sql).execute(arguments: [word, id, word])
    }

    /// Removes all claims, because they are of another file (rule S15).
    static func removeClaims(_ db: Database) throws {
        guard try exist(db) else { return }
        try db.execute(sql: "DELETE FROM main.roundtable_role_claim")
        try db.execute(sql: "UPDATE main.roundtable_role SET holder = NULL")
    }

    /// Gives the role to another claim or to nobody, and removes the claims of the former holder, and of those that are gone.
    private static func give(
        _ role: String,
        to id: Int64?,
        insteadOf view: RoleView,
        _ db: Database,
        _ judge: RoleJudge
    ) throws -> Int64 {
        let generation = view.generation &+ (id == nil ? 0 : 1)
        let sql = "UPDATE main.roundtable_role SET holder = ?, generation = ?, since = \(now) WHERE name = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [id, generation, role])
        try remove(
            view.claims.filter { $0.id != id && ($0.id == view.holder || judge.sign(of: $0) == .gone) }.map(\.id),
            db
        )
        return generation
    }

    private static func remove(_ ids: [Int64], _ db: Database) throws {
        for id in ids {
            try db.cachedStatement(sql: "DELETE FROM main.roundtable_role_claim WHERE id = ?").execute(arguments: [id])
        }
    }
}
