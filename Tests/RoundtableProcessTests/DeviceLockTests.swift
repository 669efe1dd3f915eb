#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    private func hasExtendedAttributes() -> Bool {
        (try? PeerFleet.run { _ = try Device($0) }) != nil
    }

    extension ProcessTests {
        /// A device that locks while processes use a database of the strictest class (rule B8).
        @Suite(
            .serialized,
            .enabled(if: PeerFleet.compiler != nil, "needs a C compiler"),
            .enabled(if: hasExtendedAttributes(), "the folder of temporary files has no extended attributes")
        )
        struct DeviceLocks {
            /// Without the rule, the next access to a mapped page ends the process.
            @Test(.timeLimit(.minutes(1))) func withoutTheRule() throws {
                try PeerFleet.run { fleet in
                    let device = try Device(fleet, isUnknown: true)
                    let peer = try fleet.spawn("peer", environment: device.environment)
                    try peer.call(.open(fleet.opening(peer)))
                    try peer.send(.writeLoop(WriteLoad(seconds: 600)))
                    try fleet.waitForProgress(of: [peer])
                    device.toggle()
                    #expect(try peer.process.waitForExit(within: .seconds(30)) == .signal(SIGSEGV))
                }
            }

            /// While the device is locked, the database cannot be read or written, and accesses fail. No process ends because a mapped file cannot be
            /// read, and nothing that was acknowledged is lost, whether the control block stays or is removed.
            @Test(.long(), .timeLimit(.minutes(10))) func noProcessFaults() throws {
                var random = SeededGenerator()
                try PeerFleet.run { fleet in
                    let device = try Device(fleet)
                    let peers = try (1...4).map { number in
                        let peer = try fleet.spawn("peer-\(number)", environment: device.environment)
                        try peer.call(.open(fleet.opening(peer)))
                        return peer
                    }
                    let (writers, observer) = (Array(peers.prefix(3)), peers[3])
                    try observer.call(.observe(Observing(log: fleet.folder.appendingPathComponent("log").path)))
                    for peer in writers { try peer.send(.writeLoop(WriteLoad(seconds: 600))) }
                    #expect(Device.classes.ofFile(fleet.database.path) == .complete)
                    var removals = 0
                    for _ in 0..<500 {
                        try fleet.waitForProgress(of: writers, commits: Int.random(in: 1...10, using: &random))
                        device.toggle()
                        // A lock of the device while a block is made finds it without a name, or with a new one.
                        if Bool.random(using: &random), unlink(fleet.controlBlock.path) == 0 { removals += 1 }
                        usleep(UInt32.random(in: 500...10_000, using: &random))
                        if Bool.random(using: &random), unlink(fleet.controlBlock.path) == 0 { removals += 1 }
                        device.toggle()
                    }
                    let reports = try writers.map { try $0.stopLoop() }
                    for peer in peers { try peer.call(.write(rows: 1)) }
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
                    #expect(removals > 0)
                    // Otherwise the device has not been locked for any process.
                    #expect(reports.contains { $0.errorCount > 0 }, "no access was refused")
                    let figures = "\(reports.map(\.commits)) commits, \(reports.map(\.errorCount)) errors"
                    print("device: \(removals) control blocks removed, \(figures)")
                    for text in Set(reports.flatMap(\.errors)) { print("device: \(text)") }
                }
            }
        }
    }
#endif
