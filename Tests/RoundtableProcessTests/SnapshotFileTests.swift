import Foundation
import Roundtable
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Snapshot files between real processes (rules V1–V6), none of which opens a database.
    @Suite struct SnapshotFiles {
        private func unfinished(in folder: URL) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".new") }
        }

        /// Writers are killed at random moments while readers read all the time: no reader ever reads half a value, and what the dead leave is
        /// removed by the next.
        @Test(.timeLimit(.minutes(5)), arguments: [1, 3])
        func writersAreKilled(count: Int) throws {
            var random = SeededGenerator()
            try PeerFleet.run { fleet in
                let folder = fleet.databaseFolder
                let path = folder.appendingPathComponent("état.snapshot").path
                let readers = try fleet.spawn(2)
                for reader in readers {
                    try reader.send(.snapshotFile(.readLoop(path: path, seconds: 300, isOrdered: count == 1)))
                }
                var abandoned = 0
                var round = 0
                let rounds = isLongRun ? 200 : 20
                // Until enough of them were hit where it matters.
                while round < rounds || (abandoned < 5 && round < 10 * rounds) {
                    round += 1
                    let writers = try fleet.spawn(count)
                    for writer in writers {
                        try writer.send(
                            .snapshotFile(.writeLoop(path: path, seconds: 60, isDurable: round.isMultiple(of: 2)))
                        )
                    }
                    let before = try Self.sequence(path)
                    try eventually("the writers write") { try Self.sequence(path) != before }
                    usleep(.random(in: 0...20_000, using: &random))
                    for writer in writers { try writer.process.killAndReap() }
                    abandoned += try unfinished(in: folder).count
                }
                #expect(abandoned >= 5, "hardly any process was killed in the middle of writing")
                try fleet.spawn().call(.snapshotFile(.write(path: path, number: 7)))
                #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["état.snapshot"])
                for reader in readers {
                    try reader.send(.stop)
                    let reply = try reader.reply()
                    #expect(reply.outcome == .done && reply.message == nil, "\(reply.message ?? "")")
                    #expect(reply.number ?? 0 > 100)
                    _ = try reader.reply()
                }
                print("\(round * count) killed, \(abandoned) of them in the middle of writing")
            }
        }

        private static func sequence(_ path: String) throws -> UInt64 {
            try SnapshotFile<PeerSnapshotValue>(at: URL(fileURLWithPath: path), as: "test").read().info?.sequence ?? 0
        }

        /// Where folders cannot be watched, because the system has no more watches, say, the file is looked at now and then.
        @Test(.timeLimit(.minutes(2))) func aReaderWithoutAWatch() throws {
            try PeerFleet.run { fleet in
                let path = fleet.databaseFolder.appendingPathComponent("state").path
                let log = fleet.folder.appendingPathComponent("values").path
                let (reader, writer) = (try fleet.spawn("widget"), try fleet.spawn("app"))
                try reader.call(.inject([Fault(.inotify, errno: EMFILE), Fault(.kqueue, errno: EMFILE)]))
                try reader.call(.snapshotFile(.follow(path: path, log: log)))
                for number in 1...5 {
                    try writer.call(.snapshotFile(.write(path: path, number: number)))
                    try eventually("the widget is notified of \(number)") { ProgressFile.count(at: log) == number }
                }
                // Once folders can be watched, it is notified at once again.
                try reader.call(.inject([]))
                try writer.call(.snapshotFile(.write(path: path, number: 6)))
                try eventually("the widget is notified of 6") { ProgressFile.count(at: log) == 6 }
            }
        }

        /// A reader of another process wakes when the file is replaced, and only then.
        @Test(.timeLimit(.minutes(2)), .enabled(if: ThreadSwitches.isSupported, "needs /proc/PID/task"))
        func aReaderWakes() throws {
            try PeerFleet.run { fleet in
                let path = fleet.databaseFolder.appendingPathComponent("state").path
                let log = fleet.folder.appendingPathComponent("values").path
                let (reader, writer) = (try fleet.spawn("widget"), try fleet.spawn("app"))
                try reader.call(.snapshotFile(.follow(path: path, log: log)))
                var times: [Duration] = []
                for number in 1...200 {
                    let begun = ContinuousClock.now
                    try writer.call(.snapshotFile(.write(path: path, number: number)))
                    try eventually("the widget is notified of \(number)") { ProgressFile.count(at: log) == number }
                    times.append(ContinuousClock.now - begun)
                }
                print("write → notified, with the test's own 0.5 ms: p50 \(times.sorted()[100])")
                // On Linux, the threads of tasks wake once a second, each. One that asks four times a second would wake more often.
                let seconds: TimeInterval = 3
                try eventually("the widget sleeps", within: .seconds(60)) {
                    let before = try ThreadSwitches(of: reader.pid)
                    // What is measured is what happens in this time.
                    Thread.sleep(forTimeInterval: seconds)
                    return try ThreadSwitches(of: reader.pid).count(since: before) <= 2 * Int(seconds)
                }
                // It was asleep, not dead.
                try writer.call(.snapshotFile(.write(path: path, number: 201)))
                try eventually("the widget is notified") { ProgressFile.count(at: log) == 201 }
            }
        }
    }
}
