import Foundation
import GRDB
import RoundtableGate
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// A second database that is attached to the first one and takes its turns, in several processes that write both (rule W14).
    @Suite struct TurnsOfAnotherDatabase {
        private func open(_ count: Int, _ fleet: PeerFleet, _ environment: [String: String] = [:]) throws -> [Peer] {
            var options = PeerOptions()
            if !environment.isEmpty { options.suspensionPolicy = .writeLocks }
            let peers = try (0..<count).map { try fleet.spawn("pair\($0)", environment: environment) }
            for peer in peers {
                try peer.send(.pair(.open(fleet.opening(peer, options: options), second: second(fleet))))
            }
            for peer in peers {
                let reply = try peer.reply()
                try #require(reply.outcome == .done, "\(reply.message ?? "")")
            }
            return peers
        }

        private func second(_ fleet: PeerFleet) -> String {
            fleet.databaseFolder.appendingPathComponent("second.sqlite").path
        }

        /// The rows of both databases that the writers of each side have committed, by side.
        private func rows(_ fleet: PeerFleet) throws -> (entries: Int, first: Int, second: Int) {
            let queue = try DatabaseQueue(path: second(fleet))
            let entries = try DatabaseQueue(path: fleet.database.path).read { db in
                try Int.fetchOne(db, sql: "SELECT count(*) FROM entry")!
            }
            return try queue.read { db in
                func count(_ side: String) throws -> Int {
                    try Int.fetchOne(db, sql: "SELECT count(*) FROM note WHERE side = ?", arguments: [side])!
                }
                return (entries, try count("first"), try count("second"))
            }
        }

        /// No write finds a lock, with a process that dies in the middle.
        @Test(.timeLimit(.minutes(5))) func nobodyFindsALock() throws {
            let count = isLongRun ? 10_000 : 300
            try PeerFleet.run { fleet in
                let peers = try open(3, fleet)
                try peers[2].send(.pair(.write(nil)))
                for peer in peers.prefix(2) { try peer.send(.pair(.write(count))) }
                try eventually("the third writes") { try rows(fleet).second > 50 }
                try peers[2].process.killAndReap()
                for peer in peers.prefix(2) {
                    let reply = try peer.reply()
                    #expect(reply.outcome == .done && reply.number == 0, "\(reply.message ?? "") \(reply.number ?? -1)")
                }
                let found = try rows(fleet)
                #expect(found.first >= 2 * count && found.second >= 2 * count, "\(found)")
                // SQLite commits to one file after the other in WAL mode, so the process that was killed may have committed to one alone.
                #expect((0...1).contains(found.entries - found.first), "\(found)")
                print("\(found.first) and \(found.second) writes, and none found a lock")
            }
        }

        #if os(Linux)
            /// Frozen at random moments, with 50 ms of notice, a process holds no lock on either file.
            @Test(.timeLimit(.minutes(2))) func frozen() throws {
                let random = SeededGenerator(for: "frozen()")
                let notice = Duration.milliseconds(50)
                var terms = SuspensionTerms.reporting()
                terms.notice = notice
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    try withPolice(terms) { police in
                        let peers = try open(2, fleet, police.environment)
                        for peer in peers { try peer.send(.pair(.write(nil))) }
                        try eventually("both write") { try rows(fleet).second > 50 }
                        let report = try police.patrol(
                            peers[0].pid,
                            freezes: isLongRun ? 200 : 30,
                            pauses: .zero...(.milliseconds(20)),
                            seed: random.seed
                        )
                        print("two databases: \(report)")
                        report.expectTimelyRelease(notice, in: trial)
                        #expect(report.notified == report.freezes)
                        let before = try rows(fleet)
                        try eventually("both continue") {
                            let now = try rows(fleet)
                            return now.second > before.second + 50 && now.first > before.first + 50
                        }
                        for peer in peers { try peer.process.killAndReap() }
                    }
                }
            }
        #endif
    }
}
