import Foundation
import RoundtableCore
import RoundtableKernel

/// The last commits in the change ring, read from outside. Reading takes no place in the control block and no turn.
struct RecentCommits: Sendable, Equatable {
    struct Commit: Sendable, Equatable {
        var sequence: UInt64
        /// nil when the record has none.
        var author: String?
        var pid: Int32
        var time: Date
        var tables: DatabaseChange.Tables
    }

    /// The sequence of the last record whose commit is decided.
    var lastSequence: UInt64
    /// The last commits, the newest first. Commits that wrote only Roundtable's own tables are left out.
    var commits: [Commit]
    /// The number of commits of each participant since an earlier look; nil without one, and when the ring does not have all of them
    /// any more.
    var counts: [OwnerWord: Int]?
}

extension RecentCommits {
    /// - Parameters:
    ///   - path: the path of the database.
    ///   - earlier: the last sequence of an earlier look, after which commits are counted.
    ///   - limit: the most commits to describe.
    /// - returns: nil when the control block cannot be used.
    init?(ofDatabaseAt path: String, countingAfter earlier: UInt64?, describing limit: Int) {
        guard let block = try? ControlBlock.open(forDatabaseAt: path, writable: false) else { return nil }
        let now = (ticks: MonotonicClock.now, date: Date())
        let last = Self.lastDecided(block, at: now.ticks)
        self.init(lastSequence: last, commits: [], counts: Self.counts(block, after: earlier, upTo: last))
        var dictionary = TableDictionary(block)
        var sequence = last
        let end = last - min(last, Self.reach)
        while sequence > end, commits.count < limit {
            defer { sequence -= 1 }
            guard let record = block.record(sequence), record.state == .committed || record.state == .aside else {
                continue
            }
            let tables = Self.tables(record.tables, &dictionary)
            if tables == .some([]) { continue }
            commits.append(
                Commit(
                    sequence: sequence,
                    author: record.author.isEmpty ? nil : record.author,
                    pid: record.owner.pid,
                    // A time in the future counts as now, because the ring may hold garbage.
                    time: now.date.addingTimeInterval(
                        -TimeInterval(now.ticks.subtractingSaturating(record.time)) / 1e9
                    ),
                    tables: tables
                )
            )
        }
    }

    /// How many records before the last one are looked at for commits to describe.
    private static let reach: UInt64 = 256
    /// How long the outcome of a reserved record is waited for. Its owner has died if it takes longer.
    private static let patience: Nanoseconds = 1_000_000_000

    /// The last record before the first one whose commit may still be under way. Its outcome is counted at the next look.
    private static func lastDecided(_ block: ControlBlock, at now: Nanoseconds) -> UInt64 {
        var last = block.lastSequence
        for _ in 0..<Int(min(last, reach)) {
            guard let record = block.record(last), record.state == .reserved,
                now.subtractingSaturating(record.time) < patience
            else { break }
            last -= 1
        }
        return last
    }

    private static func counts(_ block: ControlBlock, after earlier: UInt64?, upTo last: UInt64) -> [OwnerWord: Int]? {
        guard let earlier, earlier <= last, last - earlier <= UInt64(Layout.recordCount) else { return nil }
        var counts: [OwnerWord: Int] = [:]
        var sequence = earlier
        while sequence < last {
            sequence += 1
            guard let record = block.record(sequence) else { return nil }
            switch record.state {
            case .committed, .aside, .unsure: counts[record.owner, default: 0] += 1
            case .void, .reserved: break
            }
        }
        return counts
    }

    /// A number without a name, and a set without tables, stand for any table (rule R6).
    private static func tables(_ set: TableSet, _ dictionary: inout TableDictionary) -> DatabaseChange.Tables {
        guard !set.isUnknown, !set.isEmpty else { return .fullDatabase }
        var names: Set<String> = []
        for number in set.numbers {
            guard let name = dictionary.name(number) else { return .fullDatabase }
            if !InternalTables.isUnreported(name) { names.insert(name) }
        }
        return .some(names)
    }
}
