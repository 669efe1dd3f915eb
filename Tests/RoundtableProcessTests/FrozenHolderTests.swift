import Foundation
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    @Suite struct FrozenHolders {
        enum Fate: String, CaseIterable, CustomTestStringConvertible {
            case stopped, killed
            var testDescription: String { rawValue }
        }

        /// A process that has the turn, and no transaction, and freezes or dies, delays the others by their patience, once
        /// (rules G3, T8, T9, P4; DESIGN rule 4).
        ///
        ///     holder                    others
        ///     takes the turn            write
        ///     SIGSTOP or SIGKILL        wait for at most 150 ms
        ///                               write, never delayed by the holder again
        @Test(.timeLimit(.minutes(1)), arguments: Fate.allCases)
        func holderWithoutTransaction(fate: Fate) throws {
            // In memory: see `Fairness`.
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let holder = try fleet.spawnOpen("holder")
                let others = try fleet.spawnOpen(3)
                // The turn is held when the reply comes, and is given away after patience even if no process is frozen: so
                // the holder is stopped right after it has begun.
                try holder.call(.holdTurn)
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 30))) }
                switch fate {
                case .stopped: try holder.process.stop()
                case .killed: try holder.process.killAndReap()
                }
                try fleet.waitForProgress(of: others, commits: 200)
                let reports = try others.map { try $0.stopLoop() }
                for (peer, report) in zip(others, reports) { report.expectNoErrors(peer) }
                let waits = reports.map { Array($0.longestWaits.prefix(3)) }
                print("holder \(fate): waits \(waits) ms")
                for wait in waits {
                    trial.expect("longest wait", wait[0], atMost: 150)
                    trial.expect("second longest wait, delayed more than once", wait[1], atMost: 50)
                }
                // The delay was there at all: one participant had to step over the holder.
                #expect(waits.contains { $0[0] >= (fate == .stopped ? 50 : 1) })
                if fate == .stopped {
                    holder.process.resume()
                    try holder.call(.release(commit: true))
                    try holder.call(.write(rows: 1))
                }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }

        /// Processes that write in bursts are stopped at random moments: whatever the phase of the turn, and whether a
        /// transaction is open or not, the others continue as soon as SQLite lets them (rules T5, T8).
        @Test(.timeLimit(.minutes(1)))
        func writersThatAreStoppedAtRandom() throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                let peers = try fleet.spawnOpen(4, options: PeerOptions(busyTimeout: 20_000))
                for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                for _ in 0..<(isLongRun ? 100 : 10) {
                    let victim = peers.randomElement(using: &random)!
                    usleep(.random(in: 0...20_000, using: &random))
                    try victim.process.stop()
                    usleep(.random(in: 0...300_000, using: &random))
                    victim.process.resume()
                    try fleet.waitForProgress(of: peers)
                }
                for peer in peers { try peer.stopLoop().expectNoErrors(peer) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
            }
        }

        /// A writer that is killed delays the others by less than their patience, also if it was in the queue, and the turn is granted to it
        /// afterwards: another waiter finds it dead (rule T8).
        @Test(.timeLimit(.minutes(1)))
        func writersThatAreKilledInTheQueue() throws {
            var random = SeededGenerator()
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let others = try fleet.spawnOpen(3)
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                var delays: [Double] = []
                for round in 1...(isLongRun ? 100 : 15) {
                    let victim = try fleet.spawnOpen("victim-\(round)")
                    try victim.send(.writeLoop(WriteLoad(seconds: 60)))
                    try fleet.waitForProgress(of: [victim])
                    usleep(.random(in: 0...30_000, using: &random))
                    let killed = ContinuousClock.now
                    try victim.process.killAndReap()
                    try fleet.waitForProgress(of: others)
                    delays.append((ContinuousClock.now - killed) / .milliseconds(1))
                }
                delays.sort()
                print("after a kill: median \(delays[delays.count / 2]), longest \(delays[delays.count - 1]) ms")
                trial.expect("longest delay after a kill", delays[delays.count - 1], atMost: 100)
                for peer in others { try peer.stopLoop().expectNoErrors(peer) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: others)
            }
        }

        /// Several processes that freeze in the queue cost those behind them a patience each at most, once (rules T8, T9).
        ///
        ///     holder                    four, to be frozen       two others
        ///     begins a transaction
        ///                               queue
        ///                               SIGSTOP
        ///                                                        queue behind them
        ///     commits
        ///                               (are stepped over)
        ///                                                        write, never delayed again
        ///                               SIGCONT, write
        @Test(.timeLimit(.minutes(1)))
        func waitersThatAreFrozen() throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let options = PeerOptions(busyTimeout: 20_000)
                let holder = try fleet.spawnOpen("holder")
                let frozen = try fleet.spawnOpen(4, options: options)
                let others = try fleet.spawnOpen(2, options: options)
                func waitForQueue(of count: Int) throws {
                    try eventually("\(count) are in the queue") {
                        try fleet.participants().count { $0.waiting != nil } == count
                    }
                }
                try holder.call(.holdTransaction)
                for peer in frozen { try peer.send(.write(rows: 1)) }
                try waitForQueue(of: 4)
                for peer in frozen { try peer.process.stop() }
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                try waitForQueue(of: 6)

                let released = ContinuousClock.now
                try holder.call(.release(commit: true))
                try fleet.waitForProgress(of: others, commits: 1)
                let delay = (ContinuousClock.now - released) / .milliseconds(1)
                print("behind four frozen waiters: \(delay) ms")
                // Rule T8: 100 ms each, and 50 for each one ahead of the waiter, four at most.
                trial.expect("behind four frozen waiters", delay, atMost: 4 * 300)
                try fleet.waitForProgress(of: others, commits: 200)
                for peer in others {
                    let report = try peer.stopLoop()
                    report.expectNoErrors(peer)
                    trial.expect("second longest wait, delayed more than once", report.longestWaits[1], atMost: 100)
                }
                for peer in frozen { peer.process.resume() }
                for peer in frozen { #expect(try peer.reply().outcome == .done) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }

        /// A process that is frozen inside a transaction has SQLite's lock: the others fail at their timeout, with an error that
        /// says who holds it, since when, where in the code, and that it is stopped. They continue at once when it resumes or
        /// dies (rules T8, T11, G1).
        @Test(.timeLimit(.minutes(1)), arguments: Fate.allCases)
        func holderInsideTransaction(fate: Fate) throws {
            try PeerFleet.runTimed { fleet, trial in
                let holder = try fleet.spawnOpen("sync")
                let others = try fleet.spawnOpen(2, options: PeerOptions(busyTimeout: 600))
                let patient = try fleet.spawnOpen("patient", options: PeerOptions(busyTimeout: 20_000))
                try holder.call(.holdTransaction)
                try holder.process.stop()
                try patient.send(.write(rows: 1))
                for peer in others { try peer.send(.write(rows: 1)) }
                for peer in others {
                    let reply = try peer.reply()
                    let message = reply.message ?? ""
                    #expect(reply.outcome == .failed)
                    #expect((reply.code ?? 0) & 0xFF == 5, "not SQLITE_BUSY: \(message)")
                    #expect(message.contains("database is locked: 'sync' (pid \(holder.pid)) has been writing for"))
                    #expect(message.contains("since roundtable_peer/PeerDatabase.swift:"), "\(message)")
                    // A sandbox does not show that.
                    #expect(message.contains("it is stopped (SIGSTOP)") != AppleConditions.areOn, "\(message)")
                    print("busy: \(message)")
                }
                let resumed = ContinuousClock.now
                switch fate {
                case .stopped:
                    holder.process.resume()
                    try holder.call(.release(commit: true))
                case .killed:
                    try holder.process.killAndReap()
                }
                #expect(try patient.reply().outcome == .done)
                let delay = (ContinuousClock.now - resumed) / .milliseconds(1)
                print("after the holder \(fate == .stopped ? "resumed" : "was killed"): \(delay) ms")
                trial.expect("after the holder", delay, atMost: 150)
                for peer in others { try peer.call(.write(rows: 1)) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }

        /// `kill -9` of any process at any moment loses nothing that was acknowledged, corrupts nothing, and stops no other process
        /// (rules G1, T8, P4; DESIGN rule 6).
        @Test(.long(), .timeLimit(.minutes(3)))
        func writersThatAreKilledAtRandom() throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                var living = try fleet.spawnOpen(6)
                var dead: [Peer] = []
                for peer in living { try peer.send(.writeLoop(WriteLoad(seconds: 120))) }
                for _ in 0..<(isLongRun ? 200 : 25) {
                    usleep(.random(in: 0...50_000, using: &random))
                    let victim = living.remove(at: .random(in: living.indices, using: &random))
                    try victim.process.killAndReap()
                    dead.append(victim)
                    try fleet.waitForProgress(of: living)
                    let successor = try fleet.spawnOpen("successor-\(dead.count)")
                    try successor.send(.writeLoop(WriteLoad(seconds: 120)))
                    living.append(successor)
                }
                try fleet.waitForProgress(of: living)
                for peer in living { try peer.stopLoop().expectNoErrors(peer) }
                let ledger = try Ledger(of: fleet.database)
                ledger.expectEverything(acknowledgedBy: fleet.peers, dead: dead)
                // Without this, no process was killed at work.
                #expect(dead.count { $0.acknowledged > 0 } > dead.count / 2)
            }
        }
    }
}
