import Foundation
import GRDB
import Roundtable
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
    @Suite struct CheckpointCrashes {
        /// A process that is killed before, after, or half-way in any call that its checkpoint makes to the system loses nothing that
        /// was committed, and prevents no other process from continuing (rules K, DESIGN rules 4 and 6).
        @Test(.long(oneIn: 32), .timeLimit(.minutes(10)), arguments: CheckpointSweep.Way.allCases)
        func killedAtEveryCall(way: CheckpointSweep.Way) throws {
            // In memory: no power is cut here, and disks are slow.
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                var sweep = try CheckpointSweep(way, in: fleet)
                let calls = try sweep.calls()
                let fates = sweep.fates(at: calls)
                for fate in fates {
                    for company in CheckpointSweep.Company.allCases {
                        do {
                            try sweep.run(fate, company)
                        } catch {
                            let point = calls[fate.call]
                            Issue.record(
                                "\(way), \(company), killed \(fate.moment) call \(fate.call) (\(point)): \(error)"
                            )
                        }
                    }
                }
                let waits = sweep.recoveries.sorted()
                let (median, longest) = (waits[waits.count / 2], waits.last!)
                print(
                    "\(way): \(sweep.deaths) deaths at \(calls.count) calls; then \(median) ms, at most \(longest) ms"
                )
                // Well below the patience (100 ms), but for what else the machine does.
                trial.expect("median of \(way)", median, atMost: 50)
                trial.expect("longest of \(way)", longest, atMost: 1000)
                // The kinds of calls that there are to die at.
                let points = Set(calls)
                #expect(
                    points.isSuperset(of: [.shmLock, .syncWAL, .readWAL, .writeMain, .syncMain]),
                    "\(points)"
                )
                if way == .cutting { #expect(calls.count { $0 == .truncateWAL } > 1, "all of it in one piece") }
                #expect(sweep.deaths == 2 * fates.count)
            }
        }

        /// The same sweep finds a checkpoint that is wrong in one place: it counts pages before it has copied them, which has an effect only
        /// on a process that dies in between.
        @Test(.timeLimit(.minutes(2)), arguments: [CheckpointSweep.Way.passive, .background])
        func countingTooEarlyIsFound(way: CheckpointSweep.Way) throws {
            try PeerFleet.run(inMemory: true) { fleet in
                var sweep = try CheckpointSweep(way, in: fleet)
                let sound = CheckpointFate(call: 1, of: .writeMain, moment: .after)
                try sweep.run(sound, .withOthers)
                let broken = CheckpointFate(call: 1, of: .writeMain, moment: .after, countsTooEarly: true)
                let damage = #expect(throws: CheckpointSweep.Damage.self) { try sweep.run(broken, .withOthers) }
                print("\(way), counting too early: \(damage?.description ?? "not found")")
            }
        }

        /// A process is killed in any call of a checkpoint while others write: these continue to write, and one of them checkpoints within
        /// a second (rules K2, K3).
        @Test(.timeLimit(.minutes(5)))
        func otherParticipantsContinue() throws {
            var random = SeededGenerator()
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let options = PeerOptions(checkpointing: .automatic(threshold: CheckpointSweep.threshold))
                let others = try fleet.spawnOpen(2, options: options)
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 600, think: 1))) }
                try fleet.waitForProgress(of: others)
                var victims: [Peer] = []
                var delays: [Double] = []
                for _ in 0..<(isLongRun ? 200 : 25) {
                    let victim = try fleet.spawn()
                    victims.append(victim)
                    try victim.call(.watchCheckpoints())
                    try victim.call(.open(fleet.opening(victim, options: options)))
                    let moment = [CheckpointFate.Moment.before, .halfway, .after].randomElement(using: &random)!
                    let fate = CheckpointFate(call: .random(in: 0..<60, using: &random), moment: moment)
                    try victim.call(.watchCheckpoints(fate))
                    try victim.send(.writeLoop(WriteLoad(seconds: 60, rows: 20)))
                    let exit = try victim.process.waitForExit(within: .seconds(20))
                    #expect(exit == .signal(SIGKILL), "\(fate): \(exit)\n\(victim.process.errorText)")
                    victim.process.end()
                    let block = try ControlBlock.open(forDatabaseAt: fleet.database.path, writable: false)
                    let steps = { block.value(of: .checkpoints) + block.value(of: .walRestarts) }
                    let (stepsBefore, commitsBefore) = (steps(), others.map(\.acknowledged))
                    let start = ContinuousClock.now
                    try eventually("the other participants commit and checkpoint after \(fate)", within: .seconds(20)) {
                        steps() > stepsBefore
                            && zip(others, commitsBefore).allSatisfy { $0.acknowledged >= $1 + 5 }
                    }
                    delays.append((ContinuousClock.now - start) / .milliseconds(1))
                    trial.expect("after \(fate)", delays.last!, atMost: 1000)
                }
                for peer in others { try peer.stopLoop().expectNoErrors(peer) }
                print(
                    "\(victims.count) deaths; then 5 commits of each, and a checkpoint: \(delays.sorted().last!) ms at most"
                )
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers, dead: victims)
            }
        }

        /// A process that is frozen in the middle of a checkpoint holds the CKPT lock: other participants write, and the WAL grows (rule K3).
        /// Once it is dead or resumed, the WAL is short again within two seconds, and nothing is wrong.
        @Test(.timeLimit(.minutes(2)), arguments: [SIGKILL, SIGCONT])
        func frozenInTheMiddle(then signal: Int32) throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let threshold = 100
                let options = PeerOptions(checkpointing: .automatic(threshold: threshold))
                let others = try fleet.spawnOpen(2, options: options)
                let victim = try fleet.spawn("victim")
                try victim.call(.watchCheckpoints())
                try victim.call(.open(fleet.opening(victim, options: options)))
                try victim.call(.watchCheckpoints(CheckpointFate(call: 2, of: .writeMain, moment: .stoppedBefore)))
                // One transaction, of more than T frames and fewer than 2T: the step is made in the background, after it, and the
                // victim is never frozen with SQLite's WRITE lock, which would stop all writers.
                try victim.send(.write(rows: 18_000))
                try eventually("it is frozen") { ProcessTable.entry(victim.pid)?.isStopped == true }
                let frames = { try DatabaseStatus(ofDatabaseAt: fleet.database).wal?.committedFrames ?? -1 }
                let framesOfVictim = try frames()
                #expect((threshold..<2 * threshold).contains(framesOfVictim))
                for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 600, think: 1))) }
                try eventually("the WAL grows", within: .seconds(20)) { try frames() > 8 * threshold }
                try fleet.waitForProgress(of: others)

                let start = ContinuousClock.now
                victim.process.signal(signal)
                try eventually("the WAL is short again", within: .seconds(20)) {
                    try (0...4 * threshold).contains(frames())
                }
                let took = ContinuousClock.now - start
                print("frozen, then signal \(signal): the WAL is short after \(took)")
                trial.expect("the WAL is short", took / .milliseconds(1), atMost: 2000)
                try fleet.waitForProgress(of: others)
                for peer in others { try peer.stopLoop().expectNoErrors(peer) }
                if signal == SIGCONT { #expect(try victim.reply().outcome == .done) }
                let dead = signal == SIGKILL ? [victim] : []
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers, dead: dead)
            }
        }
    }
}
