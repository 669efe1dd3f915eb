import Foundation
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct Checkpoints {
        /// Two plain connections, one SQLite: a checkpoint that reads the header while everything is backfilled, and counts what is
        /// written after that as backfilled (`CheckpointSchedule.walReset`). With the bug, committed rows are lost; without it,
        /// the same calls leave them where they are.
        @Test(.timeLimit(.minutes(1)))
        func walResetBug() throws {
            let outcome = try #require(try outcomes([.walReset], by: .plain).first)
            #expect(outcome.refusals == 0)
            expectBug(outcome)
        }

        /// TRUNCATE is no protection: beside an open write transaction, SQLite continues as with PASSIVE, and says BUSY at the end.
        @Test(.timeLimit(.minutes(1)))
        func walResetBugUnderTruncate() throws {
            let outcome = try #require(try outcomes([.walResetUnderTruncate], by: .plain).first)
            #expect(outcome.refusals == 1)
            expectBug(outcome)
        }

        private func expectBug(_ outcome: ScheduleOutcome, sourceLocation: SourceLocation = #_sourceLocation) {
            #expect(
                outcome.interventions == 2,
                "a call that this is about was not made: \(outcome.calls)",
                sourceLocation: sourceLocation
            )
            let version = SQLiteVersion.current
            guard version.hasWALResetBug else {
                print("SQLite \(version) does not have the WAL-reset bug: the same calls, all rows, integrity_check ok")
                let wrong: Comment = "SQLite \(version) should not have the WAL-reset bug"
                return #expect(outcome.damage == nil, wrong, sourceLocation: sourceLocation)
            }
            print("SQLite \(version) has the WAL-reset bug: \(outcome.damage ?? "sound")")
            #expect(
                outcome.damage != nil,
                "SQLite \(version) should have the WAL-reset bug. Was it repaired without a new number?",
                sourceLocation: sourceLocation
            )
        }

        /// The same schedule with a `SharedDatabase` that checkpoints: the stranger's commit goes to the end of the WAL, which cannot be restarted
        /// while we checkpoint (rule W7). The checkpoint is made, and releases what it holds: the one after it is made, too.
        @Test(.timeLimit(.minutes(1)))
        func walResetBugPassesUsBy() throws {
            let outcome = try #require(try outcomes([.walReset], by: .shared).first)
            #expect(outcome.interventions == 2, "a call that this is about was not made: \(outcome.calls)")
            #expect(outcome.refusals == 0)
            #expect(outcome.damage == nil)
        }

        /// When another connection has the write lock, our TRUNCATE is interrupted, and does not continue as with PASSIVE (rule K5). That schedule is
        /// dangerous: plain connections are damaged by it.
        ///
        /// SQLite sees the interruption where it begins to copy. A version without the bug finds nothing to copy, by its header, and answers that it
        /// was held up.
        @Test(.timeLimit(.minutes(1)))
        func walResetBugUnderTruncatePassesUsBy() throws {
            let plain = try #require(try outcomes([.walResetUnderLateTruncate], by: .plain).first)
            expectBug(plain)
            let outcome = try #require(try outcomes([.walResetUnderLateTruncate], by: .shared).first)
            #expect(outcome.interventions == 2, "a call that this is about was not made: \(outcome.calls)")
            #expect(outcome.refusals == (SQLiteVersion.current.hasWALResetBug ? 1 : 0))
            #expect(outcome.damage == nil)
        }

        /// While we copy within a turn, no process writes (rule K5).
        @Test(.timeLimit(.minutes(1)))
        func noProcessWritesWhileWeCopyWithinATurn() throws {
            var schedule = CheckpointSchedule.walReset
            schedule.asked = .restart
            let outcome = try #require(try outcomes([schedule], by: .shared).first)
            #expect(outcome.interventions > 0, "a call that this is about was not made: \(outcome.calls)")
            #expect(outcome.refusals > 0, "a stranger could write")
            #expect(outcome.damage == nil)
        }

        /// Whatever other connections do at any call of our checkpoint, no row is lost, no snapshot moves, and the database is whole
        /// (rule W7). The same schedules damage plain connections where SQLite has the bug: so they would damage ours.
        @Test(.long(oneIn: 32), .timeLimit(.minutes(30)))
        func randomSchedules() throws {
            var random = SeededGenerator()
            let count = isLongRun ? 10_000 : 1_000
            let schedules = (0..<count).map { _ in CheckpointSchedule(using: &random) }
            let shared = try outcomes(schedules, by: .shared)
            for (number, outcome) in shared.enumerated() {
                if let damage = outcome.damage { Issue.record("schedule \(number): \(damage)\n\(schedules[number])") }
            }
            let plain = try outcomes(schedules, by: .plain)
            let damaged = plain.filter { $0.damage != nil }
            let version = SQLiteVersion.current
            print("\(count) schedules, SQLite \(version): plain \(Summary(plain)); shared \(Summary(shared))")
            if version.hasWALResetBug {
                #expect(damaged.count >= count / 200, "too few of these schedules hit the bug to show anything")
            } else {
                #expect(damaged.isEmpty, "\(damaged.first?.damage ?? "")")
            }
            #expect(shared.map(\.interventions).reduce(0, +) > count / 2, "too little happens during our checkpoints")
        }

        private func outcomes(_ schedules: [CheckpointSchedule], by kind: Checkpointer) throws -> [ScheduleOutcome] {
            try PeerFleet.run(inMemory: true) { fleet in
                let peer = try fleet.spawn("\(kind)")
                var outcomes: [ScheduleOutcome] = []
                for start in stride(from: 0, to: schedules.count, by: 20) {
                    let some = Array(schedules[start..<min(start + 20, schedules.count)])
                    let reply = try peer.call(.runSchedules(some, by: kind, folder: fleet.databaseFolder.path))
                    outcomes += reply.outcomes ?? []
                }
                #expect(outcomes.count == schedules.count)
                return outcomes
            }
        }
    }
}

private struct Summary: CustomStringConvertible {
    let description: String

    init(_ outcomes: [ScheduleOutcome]) {
        let damaged = outcomes.count { $0.damage != nil }
        let interventions = outcomes.map(\.interventions).reduce(0, +)
        let refusals = outcomes.map(\.refusals).reduce(0, +)
        description = "\(damaged) damaged, \(interventions) interventions, \(refusals) actions refused"
    }
}
