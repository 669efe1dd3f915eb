import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct DerivedTables {
        /// Derived tables of one process alone: not while another process may write (rule E9).
        @Test(.timeLimit(.minutes(1))) func temporaryOnes() throws {
            try PeerFleet.run { fleet in
                let view = MaterializedView("mine", version: 1, of: "entry", groupedBy: "author")
                var options = SharedDatabase.Options()
                options.temporaryDerivedTables = [view]
                func open(readOnly: Bool = false) throws -> SharedDatabase {
                    let schema = PeerSchema().schema
                    guard readOnly else {
                        return try SharedDatabase.open(at: fleet.database, schema: schema, as: "test", options: options)
                    }
                    let answer = try SharedDatabase.openReadOnly(
                        at: fleet.database,
                        schema: schema,
                        as: "test",
                        options: options
                    )
                    guard case .available(let database) = answer else { throw TestKitError("\(answer)") }
                    return database
                }
                let peer = try fleet.spawnOpen("peer")
                try peer.call(.write(rows: 3))
                func expectRefusal(_ body: () throws -> Void) {
                    let error = #expect(throws: DerivedTableError.self) { try body() }
                    let text = error.map(String.init(describing:)) ?? ""
                    #expect(text.contains("'peer' (pid \(peer.pid)) has the database open for writing"), "\(text)")
                }
                expectRefusal { _ = try open() }
                let reader = try open(readOnly: true)
                #expect(try reader.read { db in try view.count(in: db, group: "peer") } == 3)
                try peer.call(.write(rows: 1))
                #expect(try reader.read { db in try view.count(in: db, group: "peer") } == 4)
                // A participant that only died, and has not left, does not count either.
                try peer.process.killAndReap()
                let writer = try open()
                #expect(try writer.read { db in try view.count(in: db, group: "peer") } == 4)
                let second = try fleet.spawnOpen("second")
                let error = #expect(throws: DerivedTableError.self) {
                    try writer.read { db in try view.count(in: db, group: "peer") }
                }
                let text = error.map(String.init(describing:)) ?? ""
                #expect(text.contains("'second' (pid \(second.pid))"), "\(text)")
                try second.call(.close)
                #expect(try writer.read { db in try view.count(in: db, group: "peer") } == 4)
            }
        }

        /// Programs of three ages open and upgrade in any order, and one is killed meanwhile: each has a clear answer, and what is derived is
        /// never out of step (rules E4 to E6).
        @Test(.long(), .timeLimit(.minutes(10))) func anyOrder() throws {
            var random = SeededGenerator()
            var (kills, halfBuilt, refused) = (0, 0, 0)
            var round = 0
            let rounds = isLongRun ? 100 : 10
            // Until one was killed in the middle, which lasts for some milliseconds on a fast machine.
            while round < rounds || (halfBuilt == 0 && round < 10 * rounds) {
                round += 1
                try PeerFleet.run(inMemory: true) { fleet in
                    let path = fleet.database.path
                    try Self.fill(fleet.database, count: 12_000)
                    var peers: [(peer: Peer, revision: Int)] = []
                    for number in 1...4 {
                        let revision = Int.random(in: 1...3, using: &random)
                        let peer = try fleet.spawn("\(number)")
                        try peer.send(.derivedTables(.open(path: path, revision: revision)))
                        peers.append((peer, revision))
                    }
                    var victim = Int.random(in: peers.indices, using: &random)
                    if Bool.random(using: &random) {
                        // At any moment: opening takes some 100 ms.
                        usleep(.random(in: 0...150_000, using: &random))
                    } else {
                        var (revision, states) = (0, [""])
                        try eventually("something is half built, or all is opened", within: .seconds(60)) {
                            (revision, states) = try Self.state(fleet.database)
                            return states.contains("building") || revision == peers.map(\.revision).max()
                        }
                        victim = peers.firstIndex { $0.revision == revision } ?? victim
                    }
                    try peers.remove(at: victim).peer.process.killAndReap()
                    kills += 1
                    if try Self.state(fleet.database).states.contains("building") { halfBuilt += 1 }
                    var opened: [(peer: Peer, revision: Int)] = []
                    for (peer, revision) in peers {
                        let reply = try peer.reply(within: .seconds(60))
                        if reply.outcome == .done {
                            opened.append((peer, revision))
                        } else {
                            refused += 1
                            let message = reply.message ?? ""
                            #expect(message.contains("this program declares revision \(revision)"), "\(message)")
                            #expect(try Self.state(fleet.database).revision > revision)
                        }
                    }
                    let revision = try Self.state(fleet.database).revision
                    #expect(opened.allSatisfy { $0.revision <= revision })
                    // Processes of an earlier revision that are open continue to write.
                    for (peer, _) in opened {
                        try peer.send(.derivedTables(.write(seed: random.next(), count: 30)))
                    }
                    for (peer, _) in opened {
                        let reply = try peer.reply(within: .seconds(60))
                        #expect(reply.number == 30, "\(reply.message ?? "")")
                    }
                    // The next one finishes what the victim has begun.
                    let last = try fleet.spawn("last")
                    let reply = try last.call(
                        .derivedTables(.open(path: path, revision: revision)),
                        within: .seconds(60)
                    )
                    #expect(reply.outcome == .done, "\(reply.message ?? "")")
                    for peer in fleet.peers { peer.process.end() }
                    let (_, states) = try Self.state(fleet.database)
                    #expect(states.allSatisfy { $0 == "ready" }, "round \(round): \(states)")
                    let queue = try DatabaseQueue(path: path)
                    defer { try? queue.close() }
                    let derivedTables = DerivedTableWorld.set(revision).tables
                    let problems = try queue.read { try DerivedTableWorld.discrepancies(of: derivedTables, $0) }
                    #expect(problems.isEmpty, "round \(round)")
                }
            }
            #expect(halfBuilt > 0, "no process was killed in the middle")
            print(
                "derived tables: \(kills) killed, \(halfBuilt) of them while something was half built; \(refused) were too old"
            )
        }

        /// The changes that views report are the difference of what can be recomputed, while three processes write (rule E3).
        @Test(.long(), .timeLimit(.minutes(20))) func viewChanges() throws {
            var random = SeededGenerator()
            try PeerFleet.run(inMemory: true) { fleet in
                let path = fleet.database.path
                let count = isLongRun ? 3334 : 200
                let peers = try (1...4).map { try fleet.spawn("\($0)") }
                for peer in peers {
                    try peer.call(.derivedTables(.open(path: path, revision: 3)), within: .seconds(60))
                }
                try peers[3].send(.derivedTables(.follow))
                for peer in peers[..<3] { try peer.send(.derivedTables(.write(seed: random.next(), count: count))) }
                for peer in peers[..<3] { #expect(try peer.reply(within: .seconds(900)).number == count) }
                try peers[3].send(.stop)
                let reply = try peers[3].reply(within: .seconds(60))
                #expect(reply.message == nil)
                #expect(reply.number ?? 0 > count / 2)
                print("derived tables: \(3 * count) transactions, \(reply.number ?? 0) changes of views")
                let queue = try DatabaseQueue(path: path)
                defer { try? queue.close() }
                #expect(try queue.read { try DerivedTableWorld.discrepancies($0) } == [])
            }
        }

        private static func fill(_ url: URL, count: Int) throws {
            let queue = try DatabaseQueue(path: url.path)
            defer { try? queue.close() }
            try DerivedTableWorld.migrator().migrate(queue)
            try queue.write { db in
                let statement = try db.makeStatement(sql: "INSERT INTO item (id, box, name, size) VALUES (?, ?, ?, ?)")
                for id in 1...count {
                    try statement.execute(arguments: [id, "b\(id % 5)", "round \(id)", id % 97])
                }
            }
        }

        private static func state(_ url: URL) throws -> (revision: Int, states: [String]) {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            let queue = try DatabaseQueue(path: url.path, configuration: configuration)
            defer { try? queue.close() }
            return try queue.read { db in
                guard try db.tableExists("roundtable_extension_settings") else { return (0, []) }
                return (
                    try Int.fetchOne(db, sql: "SELECT revision FROM roundtable_extension_settings") ?? 0,
                    try String.fetchAll(db, sql: "SELECT state FROM roundtable_extensions")
                )
            }
        }
    }
}
