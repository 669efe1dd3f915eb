import GRDB

/// What a campaign has left in the database, found by SQL alone.
struct RolesResult: CustomStringConvertible {
    /// The longest time without a commit in ms: a freeze within a transaction, of up to 1.5 s, then the patience of 0.5 s, and 2 s for the
    /// scheduler of a busy machine.
    static let longestGap = 4_000

    private(set) var problems: [String] = []
    private let terms: Int
    private let writes: Int
    private let gaps: (median: Int, longest: Int)

    init(_ db: Database) throws {
        struct Write { let generation, worker, time: Int }
        let rows = try Row.fetchAll(db, sql: "SELECT generation, worker, time FROM log ORDER BY id")
            .map { Write(generation: $0["generation"], worker: $0["worker"], time: $0["time"]) }
        writes = rows.count
        terms = Set(rows.map(\.generation)).count
        var overlaps = 0
        var changes: [Int] = []
        var longest = 0
        for (one, next) in zip(rows, rows.dropFirst()) {
            if next.generation < one.generation { overlaps += 1 }
            if next.generation == one.generation, next.worker != one.worker { overlaps += 1 }
            if next.generation > one.generation { changes.append(next.time - one.time) }
            longest = max(longest, next.time - one.time)
        }
        gaps = (changes.sorted().dropFirst(changes.count / 2).first ?? 0, longest)
        if overlaps > 0 { problems.append("two holders: \(overlaps) writes of a term that was over") }
        if longest > Self.longestGap {
            problems.append("late: nobody wrote for \(longest) ms, above \(Self.longestGap) ms")
        }
        let integrity = try String.fetchAll(db, sql: "PRAGMA integrity_check")
        if integrity != ["ok"] { problems.append("corrupt: \(integrity)") }
    }

    var description: String {
        let figures =
            "\(terms) terms with \(writes) writes; a change of hands took \(gaps.median) ms (median), at most \(gaps.longest) ms without a write"
        return problems.isEmpty
            ? "\(figures); no two holders wrote"
            : ([figures] + problems.map { "PROBLEM: \($0)" }).joined(separator: "\n")
    }
}
