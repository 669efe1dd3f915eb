import Foundation
import GRDB
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct OpeningBesideOthers {
        private static let rounds = isLongRun ? 100 : 5
        private static let peers = 24
        private static let tools = 24
        private static let busyLoops = 8
        private static let creating = "CREATE TABLE IF NOT EXISTS note(n); INSERT INTO note VALUES (1)"
        private static let reading = "SELECT COUNT(*) AS n FROM sqlite_master"

        /// On a busy machine, processes create a database, open it read-only, look at it and close it at random moments: each opening
        /// waits for the locks of the others, and none fails (rule W9).
        @Test(.long(), .timeLimit(.minutes(isLongRun ? 30 : 5)))
        func onABusyMachine() throws {
            var random = SeededGenerator()
            var openings = 0
            try PeerFleet.run { fleet in
                let peers = try fleet.spawn(Self.peers)
                for _ in 0..<Self.busyLoops { try spawnBusyLoop(fleet) }
                for round in 1...Self.rounds {
                    let url = fleet.database(named: "new-\(round).sqlite")
                    var creators = 0
                    var tools: [ChildProcess] = []
                    for number in 0..<max(Self.peers, Self.tools) {
                        if number < Self.tools {
                            let creates = Int.random(in: 0..<3, using: &random) > 0
                            if creates { creators += 1 }
                            tools.append(try spawnTool(fleet, url, creates: creates))
                        }
                        if number < Self.peers {
                            try open(fleet, peers[number], url, readOnly: .random(using: &random))
                        }
                    }
                    // The first peers close while others still open.
                    for peer in peers.shuffled(using: &random) {
                        let reply = try peer.reply(within: .seconds(90))
                        #expect(reply.outcome != .failed, "round \(round), \(peer): \(reply.message ?? "")")
                        openings += 1
                        if reply.outcome == .done { try peer.call(.close, within: .seconds(90)) }
                    }
                    for tool in tools {
                        let exit = try tool.waitForExit(within: .seconds(90))
                        let text = tool.errorText
                        // A process that only reads may come before the first that creates.
                        let isEarly = text.contains("there is no such file")
                        #expect(exit == .status(0) || isEarly, "round \(round): \(text)")
                        tool.end()
                        openings += 1
                    }
                    let queue = try DatabaseQueue(path: url.path)
                    let notes = try queue.read { db in
                        try db.tableExists("note") ? Int.fetchOne(db, sql: "SELECT COUNT(*) FROM note") : 0
                    }
                    #expect(notes == creators, "round \(round)")
                    try queue.close()
                }
            }
            print("\(openings) openings in \(Self.rounds) rounds")
        }

        private func open(_ fleet: PeerFleet, _ peer: Peer, _ url: URL, readOnly: Bool) throws {
            let opening = fleet.opening(peer, at: url, options: PeerOptions(busyTimeout: 60_000))
            try peer.send(readOnly ? .openReadOnly(opening, waiting: 0) : .open(opening))
        }

        private func spawnTool(_ fleet: PeerFleet, _ url: URL, creates: Bool) throws -> ChildProcess {
            let arguments =
                creates
                ? ["sql", "--timeout", "60", url.path, Self.creating]
                : ["sql", "--timeout", "60", "--read-only", url.path, Self.reading]
            return try fleet.spawn(program: try PeerFleet.program(named: "roundtable"), arguments: arguments)
        }

        /// It ends with the fleet, or when the process of the test has died.
        private func spawnBusyLoop(_ fleet: PeerFleet) throws {
            let loop = "while kill -0 $PPID 2>/dev/null; do :; done"
            _ = try fleet.spawn(program: URL(fileURLWithPath: "/bin/sh"), arguments: ["-c", loop])
        }
    }
}
