import Foundation
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
    /// Processes that only read are at the control block that is in place, however often it is replaced (rules L4, O2).
    @Suite struct ControlBlockRejoin {
        private func expectStatus(_ fleet: PeerFleet, has peers: [Peer], _ what: String) throws {
            try eventually("\(what): status has \(peers.map(\.name))") {
                let shown = try DatabaseStatus(ofDatabaseAt: fleet.database).participants
                return Set(shown.map(\.author)).isSuperset(of: peers.map(\.name))
            }
        }

        /// The reader waits for commits, and does nothing else. A writer that comes makes another block.
        @Test(.timeLimit(.minutes(1)), arguments: [true, false])
        func anObserverIsShownAgain(readOnly: Bool) throws {
            try PeerFleet.run { fleet in
                let founder = try fleet.spawnOpen("founder")
                let observer = try fleet.spawnObserver("reader", readOnly: readOnly)
                // The observer's process is busy with a read, which holds checkpoints back.
                let line = try observer.peer.call(.holdRead).message
                for round in 1...3 {
                    unlink(fleet.controlBlock.path)
                    let writer = try fleet.spawnOpen("writer \(round)")
                    try writer.call(.write(rows: 1))
                    try observer.waitForChange(round)
                    var shown: ParticipantStatus?
                    try eventually("round \(round): status has the reader and its read") {
                        let status = try DatabaseStatus(ofDatabaseAt: fleet.database)
                        shown = status.participants.first { $0.author == "reader" }
                        return shown?.oldestRead != nil
                    }
                    #expect(shown?.pid == observer.peer.pid)
                    #expect(shown?.oldestRead?.callSite == line && line != nil)
                }
                try observer.peer.call(.release(commit: false))
                try founder.call(.write(rows: 1))
                try observer.expectFinalState(rows: 4)
            }
        }

        /// Four write and four read while the block is deleted or replaced all the time, and processes are killed. In the end all that
        /// live are at one block, and no commit was missed.
        @Test(.long(), .timeLimit(.minutes(3)))
        func theBlockIsReplacedAgainAndAgain() throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                var writers = try fleet.spawnOpen(4)
                var observers = try (1...4).map { number in
                    try fleet.spawnObserver("observer \(number)", readOnly: number % 2 == 0)
                }
                for writer in writers { try writer.send(.writeLoop(WriteLoad(seconds: 600, think: 1))) }
                let end = ContinuousClock.now + (isLongRun ? .seconds(60) : .seconds(4))
                var (round, lost) = (0, [Peer]())
                while ContinuousClock.now < end {
                    round += 1
                    let damage: ControlBlockDamage.Damage = [.deleted, .deleted, .emptied, .randomBytes, .otherVersion]
                        .randomElement(using: &random)!
                    try ControlBlockDamage().inflict(damage, on: fleet.controlBlock.path, using: &random)
                    try fleet.waitForProgress(of: writers, commits: .random(in: 1...100, using: &random))
                    if round % 8 == 0 {
                        let index = Int.random(in: 0..<4, using: &random)
                        writers[index].process.end()
                        lost.append(writers[index])
                        writers[index] = try fleet.spawnOpen("writer \(round)")
                        try writers[index].send(.writeLoop(WriteLoad(seconds: 600, think: 1)))
                    }
                    if round % 8 == 4 {
                        let index = Int.random(in: 0..<4, using: &random)
                        observers[index].peer.process.end()
                        observers[index] = try fleet.spawnObserver("observer of \(round)", readOnly: index % 2 == 0)
                    }
                    if round % 16 == 0 {
                        // No place is lost for good.
                        try expectStatus(fleet, has: writers + observers.map(\.peer), "round \(round)")
                    }
                }
                try expectStatus(fleet, has: writers + observers.map(\.peer), "the end")
                for writer in writers { try writer.stopLoop().expectNoErrors(writer) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: writers + lost, dead: lost)
                let rows = try fleet.authors().count
                for observer in observers { try observer.expectFinalState(rows: rows) }
                print("the control block was replaced \(round) times, \(lost.count) writers were killed, \(rows) rows")
            }
        }
    }
}
