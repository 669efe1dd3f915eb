#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// A process that suspends itself before Ctrl-Z stops it, on disks that are slow: what holds a lock then holds it for long.
        @Suite(.serialized) struct SlowSyncs {
            /// Rules F2, F4, K6, K10: stopped at any moment, it holds no exclusive lock, neither of a write nor of the steps of a checkpoint that a
            /// write makes after its commit.
            @Test(
                .enabled(if: SlowSync.compiler != nil, "needs a C compiler, for the library that delays syncs"),
                .timeLimit(.minutes(20)),
                arguments: [0, 10, 30]
            )
            func stoppedWithoutALock(milliseconds: Int) throws {
                var random = SeededGenerator(for: "stoppedWithoutALock(milliseconds: \(milliseconds))")
                let freezes = isLongRun ? 700 : 20
                try PeerFleet.run { fleet in
                    var options = PeerOptions(checkpointing: .automatic(threshold: Self.threshold))
                    options.suspendsOnTerminalStop = true
                    let environment = try SlowSync.environment(fleet, milliseconds: milliseconds)
                    let writer = try fleet.spawn("writer", environment: environment)
                    try writer.call(.open(fleet.opening(writer, options: options)))
                    try writer.call(.write(rows: 1))
                    try expectSlowSyncs(milliseconds, writer)
                    try expectThatLocksAreSeen(fleet, writer)
                    let block = try ControlBlock.open(forDatabaseAt: fleet.database.path, writable: false)
                    let before = block.value(of: .checkpointsByWriters)
                    try writer.send(.writeLoop(WriteLoad(seconds: 3600, rows: 4)))
                    var convictions: [String] = []
                    // Where syncs are fast, the checkpointer is seldom overtaken; on a busy machine also where they are slow.
                    func hasHappened() -> Bool { milliseconds == 0 || block.value(of: .checkpointsByWriters) > before }
                    var round = 0
                    while round < freezes || !hasHappened() && round < 20 * freezes {
                        round += 1
                        try fleet.waitForProgress(of: [writer], commits: 1)
                        usleep(.random(in: 0...40_000, using: &random))
                        try writer.process.stopByTerminal()
                        let locks = try fleet.exclusiveLocks(of: writer.process)
                        if !locks.isEmpty { convictions.append("freeze \(round): \(locks)") }
                        writer.process.resume()
                    }
                    let steps = block.value(of: .checkpointsByWriters) - before
                    print(
                        "syncs of \(milliseconds) ms: \(round) freezes, \(convictions.count) with a lock, \(steps) steps by the writer"
                    )
                    #expect(convictions == [])
                    #expect(hasHappened(), "nothing of what is tested has happened")
                    // What was inside at the end of the grace was rolled back, and the writer got the error.
                    let report = try writer.stopLoop()
                    #expect(report.errors.allSatisfy { $0.contains("the database was suspended") }, "\(report.errors)")
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [writer])
                }
            }

            /// So small that the writer overtakes the checkpointer again and again.
            private static let threshold = 200

            private func expectSlowSyncs(_ milliseconds: Int, _ writer: Peer) throws {
                let began = ContinuousClock.now
                try writer.call(.checkpoint(.passive))
                #expect(ContinuousClock.now - began >= .milliseconds(milliseconds), "syncs are not delayed")
            }

            /// A judge who sees nothing would acquit.
            private func expectThatLocksAreSeen(_ fleet: PeerFleet, _ writer: Peer) throws {
                try writer.call(.holdTransaction)
                let locks = try fleet.exclusiveLocks(of: writer.process)
                #expect(locks == ["-shm 120...120"])
                try writer.call(.release(commit: true))
            }
        }
    }
#endif
