#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Glibc
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// Observers of a user who has no inotify instance left (rules N3, N9).
        @Suite struct WatchShortage {
            /// Users that run no other process, not even one of another run of the tests: their instances are counted by themselves.
            private static let users: (short: UInt32, many: UInt32) = {
                let number = UInt32(getpid()) % 7_000
                return (50_000 + number, 57_000 + number)
            }()

            /// All inotify instances that a user may have.
            private final class Hog: Sendable {
                private let descriptors: [Int32]

                init(user: UInt32) async throws {
                    descriptors = try await OtherUser.run(as: user) {
                        var descriptors: [Int32] = []
                        while true {
                            let descriptor = inotify_init1(Int32(IN_CLOEXEC))
                            if descriptor < 0 { return descriptors }
                            descriptors.append(descriptor)
                        }
                    }
                }

                func end() { for descriptor in descriptors { close(descriptor) } }
                var count: Int { descriptors.count }
            }

            private func isWatching(_ observer: Observer, _ fleet: PeerFleet) throws -> Bool {
                guard let wal = try System.identity(ofFileAt: fleet.database.path + "-wal") else { return false }
                // Lines such as `inotify wd:1 ino:f90044 sdev:fe00000 mask:100 …` (proc_pid_fdinfo(5)).
                let folder = "/proc/\(observer.peer.pid)/fdinfo"
                let field = " ino:\(String(wal.inode, radix: 16)) "
                return try FileManager.default.contentsOfDirectory(atPath: folder).contains { name in
                    // A descriptor that was closed meanwhile watches nothing.
                    guard let text = try? String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8) else {
                        return false
                    }
                    return text.split(separator: "\n").contains { $0.hasPrefix("inotify ") && $0.contains(field) }
                }
            }

            /// Commits of participants come at once, by the news word; those of strangers within the pause. Later there are instances again.
            @Test(
                .timeLimit(.minutes(2)),
                .enabled(if: OtherUser.isPossible, "only the superuser can start a process as another user")
            )
            func observersGoWithout() async throws {
                let hog = try await Hog(user: Self.users.short)
                try #require(hog.count > 0)
                try PeerFleet.runTimed { fleet, trial in
                    let writer = try fleet.spawn("writer", user: Self.users.short)
                    try writer.call(.open(fleet.opening(writer)))
                    let observers = [
                        try fleet.spawnObserver("app", user: Self.users.short),
                        try fleet.spawnObserver("widget", readOnly: true, user: Self.users.short),
                    ]
                    var (row, delays) = (0, [Double]())
                    for _ in 0..<50 {
                        row += 1
                        let began = MonotonicClock.now
                        try writer.call(.write(rows: 1))
                        for observer in observers {
                            delays.append(Double(try observer.waitForValue(row, within: .seconds(5)) - began) / 1e6)
                        }
                    }
                    // By the pause, half of them would take 125 ms.
                    trial.expect("median", percentile(0.5, ofSorted: delays.sorted()), atMost: 60)
                    let pool = try fleet.spawn("pool")
                    try pool.call(.openPool(fleet.opening(pool)))
                    for _ in 0..<5 {
                        row += 1
                        try pool.call(.write(rows: 1))
                        for observer in observers { try observer.expectNotification(row, in: trial) }
                    }
                    for observer in observers {
                        #expect(try isWatching(observer, fleet) == false)
                        try observer.expectFinalState(rows: row)
                    }
                }
                // The observer starts without an instance again, and then instances come back.
                try PeerFleet.run { fleet in
                    let observer = try fleet.spawnObserver("app", user: Self.users.short)
                    hog.end()
                    try eventually("it watches the file") { try isWatching(observer, fleet) }
                    let pool = try fleet.spawn("pool")
                    try pool.call(.openPool(fleet.opening(pool)))
                    try pool.call(.write(rows: 1))
                    try observer.waitForValue(1)
                    #expect(try observer.errors == [])
                }
            }

            /// More processes than a user has instances: all are notified of everything.
            @Test(
                .timeLimit(.minutes(10)),
                .enabled(if: OtherUser.isPossible && isLongRun, "starts 300 processes: ROUNDTABLE_LONG=1")
            )
            func threeHundredObservers() throws {
                try PeerFleet.run { fleet in
                    let user = Self.users.many
                    let writer = try fleet.spawn("writer", user: user)
                    try writer.call(.open(fleet.opening(writer)))
                    let observers = try (0..<300).map { index in
                        try fleet.spawnObserver("observer-\(index)", readOnly: index >= 20, user: user)
                    }
                    let pool = try fleet.spawn("pool")
                    try pool.call(.openPool(fleet.opening(pool)))
                    for row in 1...20 {
                        try (row.isMultiple(of: 2) ? pool : writer).call(.write(rows: 1))
                        for observer in observers { try observer.waitForValue(row, within: .seconds(30)) }
                    }
                    for observer in observers { try observer.expectFinalState(rows: 20) }
                    let watching = try observers.count { try isWatching($0, fleet) }
                    print("300 observers of one user: \(watching) with a watch, no errors")
                    #expect(watching < 300, "the limit was not reached: fs.inotify.max_user_instances")
                }
            }
        }
    }
#endif
