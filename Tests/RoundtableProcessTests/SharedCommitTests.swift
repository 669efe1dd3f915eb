import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Processes with many tasks that write at the same time, and share commits (rules M).
    @Suite(.serialized) struct SharedCommitsBetweenProcesses {
        /// Writes throw, end their transaction, leave a foreign key open, or are cancelled, all at random, in four processes that are killed
        /// at random (rules M2 to M5, M9). What was acknowledged is there, what failed is not, and nothing is there twice.
        @Test(.long(), .timeLimit(.minutes(30))) func failuresAndKillsAtRandom() throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                let (tasks, target) = (32, isLongRun ? 100_000 : 6000)
                func start(_ name: String) throws -> Peer {
                    let peer = try fleet.spawnOpen(name)
                    try peer.send(
                        .writeShared(SharedWriteLoad(tasks: tasks, journal: journal(of: name), seed: random.next()))
                    )
                    return peer
                }
                func journal(of name: String) -> String { fleet.folder.appendingPathComponent("journal-\(name)").path }
                let creator = try fleet.spawnOpen("creator")
                try creator.call(.execute(sql: SharedWriteLoad.tables))
                try creator.call(.close)
                var names = (1...4).map { "writer-\($0)" }
                var living = try names.map(start)
                var kills = 0
                func acknowledged() throws -> Int {
                    try names.reduce(0) { count, name in
                        count + (try SharedWriteJournal.read(journal(of: name))).count { $0.outcome == .acknowledged }
                    }
                }
                // A fast machine reaches the target before any process is killed.
                while try acknowledged() < target || kills < Self.fewestKills {
                    usleep(.random(in: 0...200_000, using: &random))
                    let victim = living.remove(at: .random(in: living.indices, using: &random))
                    try victim.process.killAndReap()
                    kills += 1
                    names.append("writer-\(kills + 4)")
                    living.append(try start(names.last!))
                }
                for peer in living {
                    try peer.send(.stop)
                    let reply = try peer.reply(within: .seconds(60))
                    #expect(reply.outcome == .done, "\(reply.message ?? "")")
                }
                let rows = try DatabaseQueue(path: fleet.database.path).read { db in
                    let rows = try Row.fetchCursor(
                        db,
                        sql: "SELECT author, n, COUNT(*) FROM sharedWrite GROUP BY author, n"
                    )
                    var counts: [String: [Int: Int]] = [:]
                    while let row = try rows.next() { counts[row[0], default: [:]][row[1]] = row[2] }
                    return counts
                }
                var totals = (acknowledged: 0, failed: 0)
                for name in names {
                    let counts = rows[name] ?? [:]
                    #expect(counts.values.allSatisfy { $0 == 1 }, "\(name): a write is there twice")
                    var reported: Set<Int> = []
                    for (outcome, number) in try SharedWriteJournal.read(journal(of: name)) {
                        reported.insert(number)
                        switch outcome {
                        case .acknowledged:
                            totals.acknowledged += 1
                            if counts[number] != 1 {
                                Issue.record("\(name): write \(number) was acknowledged, and is lost")
                            }
                        case .wrong: Issue.record("\(name): write \(number) had another outcome than it must have")
                        case .failed:
                            totals.failed += 1
                            if counts[number] != nil { Issue.record("\(name): write \(number) failed, and is there") }
                        }
                    }
                    // For the other writes, no caller received an outcome, because the process was killed before.
                    #expect(counts.keys.count { !reported.contains($0) } <= tasks)
                }
                print("\(totals.acknowledged) acknowledged, \(totals.failed) failed, \(kills) kills")
                // Without this, nothing was tested.
                #expect(totals.acknowledged >= target && totals.failed > target / 50)
            }
        }

        private static let fewestKills = 4
    }
}
