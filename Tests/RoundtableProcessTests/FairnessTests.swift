import Foundation
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct Fairness {
        // All of these are about turns, and run where there is no disk: a checkpoint syncs within a commit, and takes as
        // long as the disk likes.

        /// Turns are shared equally, and no process waits for long (rules T1–T5).
        ///
        /// The bound on the wait is the one that the benchmark proves in a release build. Here it is for all waits but
        /// the longest two of each process, which other programs of the machine may delay; for them it is doubled.
        @Test(.long(), .timeLimit(.minutes(1)), arguments: [2, 8])
        func sharesAreEqual(count: Int) throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let peers = try fleet.spawnOpen(count)
                let reports = try fleet.writeAtOnce(peers, WriteLoad(seconds: 5))
                for (peer, report) in zip(peers, reports) { report.expectNoErrors(peer) }
                let fairness = jainIndex(reports.map(\.commits))
                let longest = reports.map(\.longestWait).max() ?? 0
                let thirdLongest = reports.map { $0.longestWaits[2] }.max() ?? 0
                let commits = reports.map(\.commits)
                print("\(count) writers: Jain \(fairness), longest waits \(longest), \(thirdLongest) ms; \(commits)")
                #expect(fairness >= 0.99, "\(commits)")
                trial.expect("longest wait", longest, atMost: 100)
                trial.expect("third longest wait", thirdLongest, atMost: 50)
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
            }
        }

        /// Beside a writer of long transactions without a pause, a short one waits for at most one of them, and for the
        /// slices of those ahead (rules T3, T4).
        @Test(.long(), .timeLimit(.minutes(1)))
        func longTransactionsDelayByOne() throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let peers = try fleet.spawnOpen(4)
                let long = peers[0]
                let short = Array(peers[1...])
                try long.send(.writeLoop(WriteLoad(seconds: 4, transaction: 20)))
                for peer in short { try peer.send(.writeLoop(WriteLoad(seconds: 4))) }
                let reports = try peers.map { try $0.report() }
                for (peer, report) in zip(peers, reports) { report.expectNoErrors(peer) }
                // One transaction of 20 ms, two slices of 2 ms; two transactions would be 40. The longest two of each may
                // may also be delayed by other programs of the machine.
                let waits = reports[1...].map { Array($0.longestWaits.prefix(3)) }
                print("beside a long writer: waits \(waits) ms, commits \(reports.map(\.commits))")
                for wait in waits {
                    trial.expect("longest wait", wait[0], atMost: 80)
                    trial.expect("third longest wait", wait[2], atMost: 38)
                }
                // The long one is not starved either: about a third of the time is its own.
                #expect(reports[0].commits >= 50)
            }
        }

        /// An interactive writer goes before all background ones, waiting for at most one slice and one transaction; they
        /// continue (rule T3).
        @Test(.long(), .timeLimit(.minutes(1)))
        func interactiveGoesFirst() throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let interactive = try fleet.spawnOpen("interactive", options: PeerOptions(priority: 0))
                let background = try fleet.spawnOpen(7, options: PeerOptions(priority: 2))
                for peer in background { try peer.send(.writeLoop(WriteLoad(seconds: 4))) }
                try interactive.send(.writeLoop(WriteLoad(seconds: 4, think: 5)))
                let reports = try background.map { try $0.report() }
                let own = try interactive.report()
                own.expectNoErrors(interactive)
                for (peer, report) in zip(background, reports) { report.expectNoErrors(peer) }
                let commits = reports.map(\.commits)
                print("interactive: waits \(own.longestWaits) ms, \(own.commits) commits; background \(commits)")
                // A slice is 2 ms, a transaction in a debug build less than 1; waiting for every other's slice would be
                // 14. The rest is for a scheduler with eight processes on two cores.
                trial.expect("longest wait", own.longestWait, atMost: 50)
                trial.expect("fifth longest wait", own.longestWaits[4], atMost: 12)
                #expect(jainIndex(commits) >= 0.9, "\(commits)")
            }
        }

        /// An interactive write of a participant whose writes are background ones goes first, like one of an interactive participant; and a
        /// background write of an interactive participant goes last, but ageing lets it continue (rule T3).
        @Test(.long(), .timeLimit(.minutes(1)))
        func prioritiesOfWrites() throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let urgent = try fleet.spawnOpen("urgent", options: PeerOptions(priority: 2))
                let patient = try fleet.spawnOpen("patient", options: PeerOptions(priority: 0))
                let others = try fleet.spawnOpen(6, options: PeerOptions(priority: 1))
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 4))) }
                try patient.send(.writeLoop(WriteLoad(seconds: 4, priority: 2)))
                try urgent.send(.writeLoop(WriteLoad(seconds: 4, think: 5, priority: 0)))
                let reports = try others.map { try $0.report() }
                let (first, last) = (try urgent.report(), try patient.report())
                first.expectNoErrors(urgent)
                last.expectNoErrors(patient)
                for (peer, report) in zip(others, reports) { report.expectNoErrors(peer) }
                let commits = reports.map(\.commits)
                print(
                    """
                    urgent: waits \(first.longestWaits) ms, \(first.commits) commits; patient: waits \(last.longestWaits) ms, \
                    \(last.commits) commits; others \(commits)
                    """
                )
                trial.expect("longest wait of the urgent writes", first.longestWait, atMost: 50)
                trial.expect("fifth longest wait of the urgent writes", first.longestWaits[4], atMost: 12)
                // Each background write waits for 100 ms until it has the level of the other writes, and then for a round of them.
                trial.expect("fifth longest wait of the patient writes", last.longestWaits[4], atMost: 250)
                #expect(last.commits >= 10, "starved: \(last.commits)")
                #expect(last.commits < (commits.min() ?? 0) / 2, "not behind the others: \(last.commits) of \(commits)")
            }
        }
    }
}
