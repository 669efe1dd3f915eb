import Foundation
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct Idle {
        /// While nothing is written, no observer wakes up, not once: a participant that writes, one that only reads.
        ///
        /// Dispatch on Linux wakes any process every second that has ever used its pool of threads, as tasks and global queues do. The
        /// peers use neither, so what is counted is ours.
        @Test(.long(), .timeLimit(.minutes(2)), .enabled(if: ThreadSwitches.isSupported, "needs /proc/PID/task"))
        func noProcessWakesUp() throws {
            try PeerFleet.run { fleet in
                let writer = try fleet.spawnOpen("writer")
                let observers = [
                    try fleet.spawnObserver("app"), try fleet.spawnObserver("widget", readOnly: true),
                ]
                for row in 1...20 {
                    try writer.call(.write(rows: 1))
                    for observer in observers { try observer.waitForValue(row) }
                }
                let peers = [writer] + observers.map(\.peer)
                // After the last write the `-wal` file is looked at for a while (rule N3).
                let deadline = ContinuousClock.now + .seconds(30)
                while try Self.wakeUps(of: peers, for: 1.5) != [0, 0, 0], ContinuousClock.now < deadline {}
                #expect(try Self.wakeUps(of: peers, for: isLongRun ? 10 : 3) == [0, 0, 0])
                // They were asleep, not dead.
                try writer.call(.write(rows: 1))
                for observer in observers { try observer.waitForValue(21) }
            }
        }

        private static func wakeUps(of peers: [Peer], for seconds: TimeInterval) throws -> [Int] {
            let before = try peers.map { try ThreadSwitches(of: $0.pid) }
            // What is measured is what happens in this time.
            Thread.sleep(forTimeInterval: seconds)
            return try zip(peers, before).map { try ThreadSwitches(of: $0.pid).count(since: $1) }
        }
    }
}
