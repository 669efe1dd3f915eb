import GRDB
import RoundtableCore
import RoundtableKernel
import RoundtableTables

/// The progress of building a derived table.
public struct DerivedTableProgress: Sendable, Equatable {
    public var name: String
    /// The number of base table rows processed so far.
    public var done: Int
    /// The number of base table rows counted when building began. It is never less than `done`.
    public var total: Int
    public var isComplete: Bool
}

/// Chooses the number of rows for the next step, so that a transaction stays within its time limit. A step has at least one row.
struct BuildingPace: Equatable {
    private var count = 4
    private var timePerRow: Double?
    private var most = 50_000

    mutating func next(within time: Nanoseconds) -> Int {
        let fitting = timePerRow.map { Double(time) / max(1, $0) } ?? Double(most)
        count = min(max(1, Int(min(fitting, Double(most)))), count)
        return count
    }

    mutating func took(_ time: Nanoseconds, for rows: Int) {
        timePerRow = Double(time) / Double(rows)
        count = min(rows * 2, most)
    }

    /// Halves the largest step after a step of `rows` rows has failed. Smaller steps isolate the row that fails.
    mutating func narrow(_ rows: Int) {
        most = max(1, rows / 2)
        count = min(count, most)
    }
}

extension DerivedTableRegistry {
    struct BuildingStep {
        var progress: DerivedTableProgress
        /// The error that blocks further building.
        var obstacle: DerivedTableError?
    }

    /// Returns the first declared derived table whose stored state is `building`, except those in `names`.
    func unfinished(_ db: Database, except names: Set<String> = []) throws -> DescribedDerivedTable? {
        let stored = try StoredDerivedTable.fetchAll(db).filter { $0.state == .building && !names.contains($0.name) }
        return derivedTables.first { one in stored.contains { $0.name == one.name && $0.isOf(one) } }
    }

    /// Counts the rows to derive from. Returns nil if they are already counted, or if the derived table is not stored. The caller runs this
    /// outside of a write transaction, so that other writers need not wait for the count.
    func total(of one: DescribedDerivedTable, _ db: Database) throws -> Int? {
        guard let stored = try StoredDerivedTable.fetch(db, one.name), stored.total <= stored.done else { return nil }
        return try Int.fetchOne(db, sql: "SELECT count(*) FROM main.\(try Self.shape(one, db).name.sqlName)")
    }

    // Rule E6: Building continues in transactions of about 10 ms, each within a turn: from the key in `__building` on, the next rows of the
    // base table are derived, unless a trigger has done it, and the key moves on, in one transaction. The last one makes the state `ready`.
    // Every opener whose set has the derived table does this until it is ready, so each row is derived once, and no particular process need
    // survive. A builder first looks whether the triggers are there, and makes the derived table again otherwise (E7).

    /// Derives from the next rows of a derived table that is not complete (rule E6). Must be called inside a write transaction.
    ///
    /// - parameter total: the number of all rows, or 0 if they were not counted.
    /// - returns: nil when there is nothing to do.
    func build(
        _ one: DescribedDerivedTable,
        _ pace: inout BuildingPace,
        until deadline: Nanoseconds,
        total: Int = 0,
        _ db: Database
    ) throws -> BuildingStep? {
        guard var stored = try StoredDerivedTable.fetch(db, one.name), stored.state == .building, stored.isOf(one)
        else {
            return nil
        }
        // The triggers are missing. A process detached them for a migration and died before it restored them, or they were dropped later.
        if try !DerivedTableFollowing.hasTriggers(stored, db) {
            try remake(one, until: deadline, db)
            return try StoredDerivedTable.fetch(db, one.name).map { BuildingStep(progress: DerivedTableProgress($0)) }
        }
        stored.total = max(stored.total, total)
        let projection = Projection(one, try Self.shape(one, db))
        let obstacle = try Self.derive(projection, &stored, &pace, until: deadline, db)
        try stored.store(db)
        return BuildingStep(progress: DerivedTableProgress(stored), obstacle: obstacle)
    }

    /// Derives rows until `deadline` approaches, or until all rows are derived.
    ///
    /// - returns: the error for the next row, if it cannot be derived.
    static func derive(
        _ projection: Projection,
        _ stored: inout StoredDerivedTable,
        _ pace: inout BuildingPace,
        until deadline: Nanoseconds,
        _ db: Database
    ) throws -> DerivedTableError? {
        var now = MonotonicClock.now
        // No step begins after a quarter of the time, because the duration of a small step does not predict that of a large one.
        let enough = deadline > now ? now + (deadline - now) / 4 : now
        repeat {
            let count = pace.next(within: deadline > now ? deadline - now : 0)
            var hasMore = true
            do {
                try db.atomically { hasMore = try projection.build(db, count: count) }
            } catch let error as DatabaseError where error.isOfRows {
                if count > 1 {
                    pace.narrow(count)
                    continue
                }
                let keys = try projection.nextKeys(db, count: count)
                return .notDerived(
                    path: db.filePath,
                    name: stored.name,
                    table: stored.baseTable,
                    after: keys.after,
                    upTo: keys.upTo,
                    reason: "\(error)"
                )
            }
            guard hasMore else {
                stored.done = max(stored.total, stored.done + (try projection.rest(db)))
                try projection.endBuilding(db)
                stored.state = .ready
                stored.total = stored.done
                return nil
            }
            stored.done += count
            stored.total = max(stored.total, stored.done)
            let began = now
            now = MonotonicClock.now
            pace.took(now - began, for: count)
        } while now < enough
        return nil
    }
}

extension DerivedTableProgress {
    init(_ stored: StoredDerivedTable) {
        self.init(
            name: stored.name,
            done: stored.done,
            total: stored.total,
            isComplete: stored.state == .ready
        )
    }
}

extension DatabaseError {
    /// Whether the error comes from the rows themselves, so that a retry would fail again.
    fileprivate var isOfRows: Bool {
        switch resultCode {
        case .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG, .SQLITE_RANGE: true
        default: false
        }
    }
}
