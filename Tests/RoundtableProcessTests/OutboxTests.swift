import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct OutboxTests {
        /// Senders and the owner are killed at random moments. Every acknowledged command is applied exactly once, in the order of its
        /// sender (rules X3 to X7).
        @Test(.long(), .timeLimit(.minutes(15)))
        func killedSendersAndOwners() throws {
            let (count, last) = isLongRun ? (8, 5000) : (4, 200)
            var random = SeededGenerator()
            try PeerFleet.run(inMemory: true) { fleet in
                let began = ContinuousClock.now
                let senders = (1...count).map { MortalSender($0, fleet, pauseMilliseconds: isLongRun ? 4 : 40) }
                for sender in senders { try sender.live(fleet, through: last) }
                var owners = 1
                var owner = try fleet.spawn("owner-1")
                try owner.send(.ownOutbox(path: fleet.database.path))
                var kills = (senders: 0, owners: 0)
                while senders.contains(where: { $0.acknowledged < last }) {
                    // Every 50 ms on average.
                    usleep(UInt32.random(in: 0..<100_000, using: &random))
                    if Int.random(in: 0..<3, using: &random) == 0 {
                        owner.process.end()
                        owners += 1
                        kills.owners += 1
                        owner = try fleet.spawn("owner-\(owners)")
                        try owner.send(.ownOutbox(path: fleet.database.path))
                    } else {
                        let running = senders.filter { $0.acknowledged < last || $0.peer?.process.isRunning == true }
                        guard let sender = running.randomElement(using: &random) else { break }
                        try sender.live(fleet, through: last)
                        kills.senders += 1
                    }
                }
                let submitted = ContinuousClock.now
                owner.process.end()
                for sender in senders { sender.peer?.process.end() }
                let waiting = try CommandOutbox.contents(forDatabaseAt: fleet.database).waiting.count
                owner = try fleet.spawn("owner-last")
                try owner.call(.ownOutbox(path: fleet.database.path), within: .seconds(120))
                try eventually("everything is applied", within: .seconds(120)) {
                    try CommandOutbox.contents(forDatabaseAt: fleet.database).waiting.isEmpty
                }
                let ended = ContinuousClock.now
                owner.process.end()
                print(
                    """
                    outbox: \(count) senders × \(last), killed \(kills.senders) senders and \(kills.owners) owners, submitted within \
                    \(submitted - began); \(waiting) waited for the last owner, which took \(ended - submitted)
                    """
                )
                #expect(kills.senders >= 10 && kills.owners >= 5, "too few were killed")
                #expect(senders.allSatisfy { $0.acknowledged == last })
                for sender in senders { try fleet.expectOnceInOrder(sender: sender.number, through: last) }
                try fleet.expectNothingSetAside()
                let contents = try CommandOutbox.contents(forDatabaseAt: fleet.database)
                #expect(contents.damaged.isEmpty && contents.unreadable.isEmpty)
            }
        }

        /// After a restart, what waits is applied before the opening returns, or soon after.
        @Test(.timeLimit(.minutes(5)))
        func catchingUp() throws {
            let count = isLongRun ? 10_000 : 2000
            try PeerFleet.run { fleet in
                let sender = try fleet.spawn("sender")
                let progress = fleet.folder.appendingPathComponent("progress").path
                let load = SubmitLoad(
                    path: fleet.database.path,
                    sender: 0,
                    progress: progress,
                    from: 1,
                    through: count,
                    isDurable: false
                )
                let began = ContinuousClock.now
                try sender.call(.submitLoop(load), within: .seconds(120))
                let submitted = ContinuousClock.now
                let owner = try fleet.spawn("owner")
                try owner.call(.ownOutbox(path: fleet.database.path), within: .seconds(60))
                try eventually("all is applied", within: .seconds(60)) {
                    try owner.call(.countApplied).number == count
                }
                let ended = ContinuousClock.now
                print("outbox: submitting \(count) took \(submitted - began), catching up \(ended - submitted)")
                try eventually("the files are removed") {
                    try CommandOutbox.contents(forDatabaseAt: fleet.database).waiting.isEmpty
                }
                owner.process.end()
                try fleet.expectOnceInOrder(sender: 0, through: count)
                try fleet.expectNothingSetAside()
            }
        }

        /// An owner that sleeps costs nothing: no thread of it wakes while no process submits.
        @Test(.timeLimit(.minutes(1)), .enabled(if: ThreadSwitches.isSupported, "needs /proc/PID/task"))
        func anIdleOwnerSleeps() throws {
            try PeerFleet.run { fleet in
                let owner = try fleet.spawn("owner")
                try owner.call(.ownOutbox(path: fleet.database.path))
                let deadline = ContinuousClock.now + .seconds(30)
                while try Self.wakeUps(of: owner, for: 0.5) != 0, ContinuousClock.now < deadline {}
                #expect(try Self.wakeUps(of: owner, for: isLongRun ? 10 : 2) == 0)
                // It was asleep, not dead.
                let progress = fleet.folder.appendingPathComponent("progress").path
                let load = SubmitLoad(
                    path: fleet.database.path,
                    sender: 1,
                    progress: progress,
                    from: 1,
                    through: 1,
                    isDurable: true
                )
                try fleet.spawn("sender").call(.submitLoop(load))
                try eventually("it is applied") { try owner.call(.countApplied).number == 1 }
            }
        }

        private static func wakeUps(of peer: Peer, for seconds: TimeInterval) throws -> Int {
            let before = try ThreadSwitches(of: peer.pid)
            // What is measured is what happens in this time.
            Thread.sleep(forTimeInterval: seconds)
            return try ThreadSwitches(of: peer.pid).count(since: before)
        }
    }
}
