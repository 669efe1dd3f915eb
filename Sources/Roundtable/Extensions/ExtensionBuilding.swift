import GRDB
import RoundtableKernel

/// How far the building of an extension is.
public struct ExtensionProgress: Sendable, Equatable {
    public var name: String
    /// Rows of the base table that were looked at.
    public var done: Int
    /// How many there were when building began, or more.
    public var total: Int
    public var isComplete: Bool
}

/// How many rows are derived from at once, so that a transaction takes the time that it may: one at least.
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

    /// One of so many rows cannot be derived from: which, smaller steps tell.
    mutating func narrow(_ rows: Int) {
        most = max(1, rows / 2)
        count = min(count, most)
    }
}

extension ExtensionRegistry {
    /// What became of a step.
    struct BuildingStep {
        var progress: ExtensionProgress
        /// What it does not get beyond.
        var obstacle: ExtensionError?
    }

    /// The first one that is not complete.
    func unfinished(_ db: Database, except names: Set<String> = []) throws -> DescribedExtension? {
        let stored = try StoredExtension.fetchAll(db).filter { $0.state == .building && !names.contains($0.name) }
        return extensions.first { one in stored.contains { $0.name == one.name && $0.isOf(one) } }
    }

    /// How many rows there are to derive from; nil when that has been counted. Others need not wait for it: outside of a write transaction.
    func total(of one: DescribedExtension, _ db: Database) throws -> Int? {
        guard let stored = try StoredExtension.fetch(db, one.name), stored.total <= stored.done else { return nil }
        return try Int.fetchOne(db, sql: "SELECT count(*) FROM main.\(try Self.shape(one, db).name.sqlName)")
    }

    /// Derives from some more rows of an extension that is not complete (rule E6). Inside a write transaction.
    ///
    /// - parameter total: of all rows, when they were counted.
    /// - returns: nil when there is nothing to do.
    func build(
        _ one: DescribedExtension,
        _ pace: inout BuildingPace,
        until deadline: Nanoseconds,
        total: Int = 0,
        _ db: Database
    ) throws -> BuildingStep? {
        guard var stored = try StoredExtension.fetch(db, one.name), stored.state == .building, stored.isOf(one) else {
            return nil
        }
        // They were put aside for a migration, by a process that did not live to put them back; or were taken away since.
        if try !ExtensionFollowing.hasTriggers(stored, db) {
            try remake(one, until: deadline, db)
            return try StoredExtension.fetch(db, one.name).map { BuildingStep(progress: ExtensionProgress($0)) }
        }
        stored.total = max(stored.total, total)
        let projection = Projection(one, try Self.shape(one, db))
        let obstacle = try Self.derive(projection, &stored, &pace, until: deadline, db)
        try stored.store(db)
        return BuildingStep(progress: ExtensionProgress(stored), obstacle: obstacle)
    }

    /// Derives until the time is up, or all is done.
    ///
    /// - returns: what cannot be derived from, when that is what comes next.
    static func derive(
        _ projection: Projection,
        _ stored: inout StoredExtension,
        _ pace: inout BuildingPace,
        until deadline: Nanoseconds,
        _ db: Database
    ) throws -> ExtensionError? {
        var now = MonotonicClock.now
        // What is left of the time is not filled up: how long few rows take tells little of how long many do.
        let enough = deadline > now ? now + (deadline - now) / 4 : now
        repeat {
            let count = pace.next(within: deadline > now ? deadline - now : 0)
            var hasMore = true
            do {
                try db.inSavepoint {
                    hasMore = try projection.build(db, count: count)
                    return .commit
                }
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

extension ExtensionProgress {
    init(_ stored: StoredExtension) {
        self.init(
            name: stored.name,
            done: stored.done,
            total: stored.total,
            isComplete: stored.state == .ready
        )
    }
}

extension DatabaseError {
    /// Whether a statement fails because of what it was to write, and will again.
    fileprivate var isOfRows: Bool {
        switch resultCode {
        case .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG, .SQLITE_RANGE: true
        default: false
        }
    }
}
