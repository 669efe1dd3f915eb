#if Service
    import Foundation
    import GRDB
    import Roundtable
    import RoundtableCore

    /// What metrics cost: durations of accesses with them and without, in turns.
    enum MeteringCost {
        /// - returns: one line a kind of access: the medians of the rounds, in ns, and the median of the ratios of neighbouring rounds.
        static func measure(_ db: SharedDatabase, rounds: Int, accesses: Int) throws -> [String] {
            guard let meter = db.metering.current?.follower else { return ["the service records no metrics"] }
            defer { db.metering.set(meter) }
            let write: () throws -> Void = {
                try db.write { try $0.cachedStatement(sql: "INSERT INTO entry VALUES ('x')").execute() }
            }
            let read: () throws -> Void = {
                _ = try db.read { try Int.fetchOne($0.cachedStatement(sql: "SELECT max(rowid) FROM entry")) }
            }
            return try [("write", write), ("read", read)].map { name, access in
                func nanoseconds(_ isMeasured: Bool) throws -> Double {
                    db.metering.set(isMeasured ? meter : nil)
                    let time = try ContinuousClock().measure { for _ in 0..<accesses { try access() } }
                    return time / .nanoseconds(1) / Double(accesses)
                }
                // The first round fills caches.
                _ = (try nanoseconds(false), try nanoseconds(true))
                let pairs = try (0..<rounds).map { round in
                    // Each of the two is the first in every other round.
                    if round.isMultiple(of: 2) { return (without: try nanoseconds(false), with: try nanoseconds(true)) }
                    let with = try nanoseconds(true)
                    return (without: try nanoseconds(false), with: with)
                }
                let (without, with) = (median(pairs.map(\.without)), median(pairs.map(\.with)))
                let ratio = String(format: "%.3f", median(pairs.map { $0.with / $0.without }))
                return "\(name): \(Int(without)) ns without metrics, \(Int(with)) ns with them, ratio \(ratio)"
            }
        }

        private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
    }
#endif
