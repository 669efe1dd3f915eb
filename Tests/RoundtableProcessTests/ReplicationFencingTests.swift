import Foundation
import Roundtable
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

extension ProcessTests {
    /// Conditions under which a machine must not become, or stay, the writer (rules D3 to D6).
    @Suite(
        .timeLimit(.minutes(5)),
        .enabled(if: Litestream.path != nil, "litestream is not in PATH: run 'make test-replication'")
    )
    struct ReplicationFencing {
        private func expectEnd(_ supervisor: ReplicationProcess, _ text: String) throws {
            #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(1))
            #expect(supervisor.process.errorText.contains(text), "\(supervisor.process.errorText)")
        }

        /// Of two claims of one term, the first upload counts, however late the second one comes (**D3**).
        @Test func theFirstClaimCounts() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let litestream = try #require(RestoreWorld.litestream)
                let store = ClaimStore(litestream, try ReplicaURL(fleet.replica))
                #expect(try store.current() == nil)
                let term = ReplicaTerm.first.next
                let first = TermClaim(term, ofDatabaseAt: "/first")
                try store.upload(first)
                for number in 1...3 {
                    try store.upload(TermClaim(ReplicaTerm.first.next, ofDatabaseAt: "/late-\(number)"))
                    #expect(try store.current() == first)
                    // As one that has looked before the first was there.
                    try store.put(TermClaim(ReplicaTerm.first.next, ofDatabaseAt: "/later-\(number)"))
                    #expect(try store.current() == first)
                }
                let second = TermClaim(term.next, ofDatabaseAt: "/second")
                try store.upload(second)
                #expect(try store.current() == second)
                #expect(try store.current(since: term) == second)
            }
        }

        /// The supervisor looks although Litestream cannot run, because a stranger reads from the WAL (**D5**).
        @Test func fencedWhileLitestreamDoesNotRun() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                try machines[0].writeAndUploadOneRow()
                let (peer, reader) = (try fleet.spawn("peer"), try fleet.spawn("reader"))
                for peer in [peer, reader] { try machines[0].open(peer) }
                try peer.call(.write(rows: 1))
                try reader.call(.holdRead)
                try peer.call(.write(rows: 1))
                try FileManager.default.removeItem(
                    at: machines[0].folder.appendingPathComponent(".app.sqlite-litestream")
                )
                let supervisor = try machines[0].replicate()
                let status = try supervisor.wait(for: .ended)
                #expect(status.problem?.contains("the WAL cannot be emptied") == true)
                #expect(try machines[1].promote() == .status(0))
                try expectEnd(supervisor, "The database is fenced")
                try peer.send(.write(rows: 1))
                #expect(try peer.reply().message?.contains("is fenced") == true)
            }
        }

        /// A fence that cannot be written is reported and tried again, and the supervisor stays until then (**D6**).
        @Test func aFenceThatCannotBeWritten() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                let peer = try fleet.spawn("a")
                try machines[0].open(peer)
                try peer.call(.write(rows: 1))
                let supervisor = try machines[0].replicate()
                try supervisor.wait(for: .replicating)
                // A folder of that name cannot be replaced by the mark, and is none.
                let obstacle = machines[0].database.path + "-fenced"
                try FileManager.default.createDirectory(atPath: obstacle + "/x", withIntermediateDirectories: true)
                #expect(try machines[1].promote() == .status(0))
                let status = try supervisor.wait(for: .failing)
                #expect(status.problem?.contains("cannot be marked as fenced") == true, "\(status)")
                #expect(supervisor.process.isRunning)
                try FileManager.default.removeItem(atPath: obstacle)
                try expectEnd(supervisor, "The database is fenced")
                try peer.send(.write(rows: 1))
                #expect(try peer.reply().message?.contains("is fenced") == true)
            }
        }

        /// Claims that were deleted by another program are uploaded again by the writer, so that the machine before it stays fenced (**D2**).
        @Test func claimsThatAreGoneComeBack() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                try machines[0].writeAndUploadOneRow()
                #expect(try machines[1].promote() == .status(0))
                let supervisor = try machines[1].replicate()
                try supervisor.wait(for: .replicating)
                let claims = fleet.folder.appendingPathComponent("replica/roundtable/claims")
                try FileManager.default.removeItem(at: claims)
                try eventually("the claim is back", within: .seconds(30)) {
                    FileManager.default.fileExists(atPath: claims.path)
                }
                #expect(supervisor.process.isRunning)
                try machines[0].comesBack(as: "returned", instead: machines[1])
            }
        }

        /// A copy of the writer's folder is no second writer (**D4**).
        @Test func aCopyIsRefused() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                try machines[0].writeAndUploadOneRow()
                #expect(try machines[1].promote() == .status(0))
                let copy = try Machine("copy", fleet)
                try FileManager.default.removeItem(at: copy.folder)
                try FileManager.default.copyItem(at: machines[1].folder, to: copy.folder)
                try expectEnd(try copy.replicate(), "or is a copy")
                let supervisor = try machines[1].replicate()
                #expect(try supervisor.wait(for: .replicating).term == 1)
            }
        }

        /// A record that cannot be read is neither that of the writer nor of a stranger: nothing is replicated, and nothing fenced.
        @Test func aDamagedRecord() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                try machines[0].writeAndUploadOneRow()
                #expect(try machines[1].promote() == .status(0))
                let record = URL(fileURLWithPath: machines[1].database.path + "-term")
                try Data(contentsOf: record).prefix(100).write(to: record)
                let supervisor = try machines[1].replicate()
                let status = try supervisor.wait(for: .failing)
                #expect(status.problem?.contains("app.sqlite-term: says which writer's term") == true, "\(status)")
                #expect(status.litestream == nil)
                supervisor.process.signal(SIGTERM)
                _ = try supervisor.process.waitForExit(within: .seconds(60))
                #expect(FenceStatus(ofDatabaseAt: machines[1].database) == nil)
                #expect(try machines[1].promote() == .status(0), "which is the way out")
            }
        }

        /// A follower that has no state yet is not taken the place of its database (**Y8**).
        @Test func aFollowerWithoutAStateIsInTheWay() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machines = try [Machine("a", fleet), Machine("b", fleet)]
                try machines[0].writeAndUploadOneRow()
                let nowhere = try Machine("b", fleet, url: "file://\(fleet.folder.path)/nothing yet")
                let follower = try nowhere.follow(to: machines[1].database)
                let status = try follower.wait(for: .failing)
                #expect(status.problem == "there is no state at the URL yet", "\(status)")
                let promotion = try machines[1].startPromotion()
                #expect(try promotion.waitForExit(within: .seconds(60)) == .status(1))
                #expect(promotion.errorText.contains("is in use by 'follow'"), "\(promotion.errorText)")
                #expect(!FileManager.default.fileExists(atPath: fleet.folder.path + "/replica/roundtable"))
                follower.process.signal(SIGTERM)
                #expect(try follower.process.waitForExit(within: .seconds(30)) == .status(0))
                #expect(try machines[1].promote() == .status(0))
            }
        }
    }
}
