import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// Several processes share a database that SQLCipher encrypts (rules C1–C8).
    @Suite(.serialized, .enabled(if: SQLCipherRequirement.isMet, "\(SQLCipherRequirement.reason)"))
    struct EncryptionBetweenProcesses {
        private static let key = PeerEncryption.rawKey(7)

        private func options(_ key: PeerEncryption = key, policy: SuspensionPolicy? = nil) -> PeerOptions {
            var options = PeerOptions(suspensionPolicy: policy)
            options.encryption = key
            return options
        }

        private func open(_ fleet: PeerFleet) throws -> SharedDatabase {
            let schema = PeerSchema().schema
            return try SharedDatabase.open(at: fleet.database, schema: schema, as: "audit", options: Self.key.options)
        }

        /// The database is whole, and everything that was acknowledged is there.
        private func expectEverything(
            _ fleet: PeerFleet,
            _ peers: [Peer],
            dead: [Peer] = [],
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let db = try open(fleet)
            defer { try? db.close() }
            let (integrity, rows) = try db.read { db in
                (
                    try String.fetchOne(db, sql: "PRAGMA integrity_check"),
                    try Row.fetchAll(db, sql: "SELECT author, COUNT(DISTINCT n) AS n FROM entry GROUP BY author")
                )
            }
            #expect(integrity == "ok", sourceLocation: sourceLocation)
            let found = Dictionary(uniqueKeysWithValues: rows.map { ($0["author"] as String, $0["n"] as Int) })
            for peer in peers {
                let (found, acknowledged) = (found[peer.name] ?? 0, peer.acknowledged)
                let isDead = dead.contains { $0.name == peer.name }
                #expect(
                    found == acknowledged || isDead && found == acknowledged + 1,
                    "\(peer): acknowledged \(acknowledged), found \(found)",
                    sourceLocation: sourceLocation
                )
            }
        }

        /// All agree on one salt, and on one database.
        @Test(.long(), .timeLimit(.minutes(3))) func manyProcessesCreateAtOnce() throws {
            for _ in 1...(isLongRun ? 50 : 5) {
                try PeerFleet.run { fleet in
                    let peers = try fleet.spawn(16)
                    for peer in peers { try peer.send(.open(fleet.opening(peer, options: options()))) }
                    for peer in peers {
                        let reply = try peer.reply(within: .seconds(60))
                        #expect(reply.outcome == .done, "\(peer): \(reply.message ?? "")")
                    }
                    for peer in peers { try peer.call(.write(rows: 1)) }
                    for peer in peers { #expect(try peer.call(.count).number == peers.count) }
                    for peer in peers { try peer.call(.close) }
                    try expectEverything(fleet, peers)
                    let names = try FileManager.default.contentsOfDirectory(atPath: fleet.databaseFolder.path)
                    #expect(names.filter { $0.contains("salt") } == ["shared.sqlite-salt"])
                }
            }
        }

        /// With two keys, one wins, and all other processes get an error.
        @Test(.timeLimit(.minutes(2))) func twoKeysAtOnce() throws {
            for _ in 1...(isLongRun ? 50 : 5) {
                try PeerFleet.run { fleet in
                    let peers = try fleet.spawn(8)
                    for (index, peer) in peers.enumerated() {
                        let key = PeerEncryption.rawKey(UInt8(index % 2))
                        try peer.send(.open(fleet.opening(peer, options: options(key))))
                    }
                    let replies = try peers.map { try $0.reply(within: .seconds(60)) }
                    let winners = Set(replies.indices.filter { replies[$0].outcome == .done }.map { $0 % 2 })
                    #expect(winners.count == 1, "\(replies.map { $0.message ?? "open" })")
                    for (index, reply) in replies.enumerated() {
                        #expect((reply.outcome == .done) == winners.contains(index % 2))
                        if reply.outcome != .done {
                            #expect(reply.message?.contains("the key is wrong for this database") == true, "\(reply)")
                        }
                    }
                }
            }
        }

        /// The process is killed at any moment of creating the database: the next one continues from there (rules C3–C5).
        @Test(.timeLimit(.minutes(3))) func creatorsAreKilled() throws {
            var random = SeededGenerator()
            var (unsalted, salted, created) = (0, 0, 0)
            var round = 0
            let rounds = isLongRun ? 500 : 60
            func hasKilledAtEachStage() -> Bool { unsalted + salted > 0 && created > 0 }
            while round < rounds || (!hasKilledAtEachStage() && round < 10 * rounds) {
                round += 1
                // Later and later, where creating takes longer.
                let latest = UInt32(30_000 * (1 + round / rounds))
                try PeerFleet.run(inMemory: true) { fleet in
                    let victim = try fleet.spawn("victim")
                    try victim.send(
                        .open(fleet.opening(victim, schema: PeerSchema(migrations: 3), options: options()))
                    )
                    usleep(.random(in: 0...latest, using: &random))
                    try victim.process.killAndReap()
                    let names = try FileManager.default.contentsOfDirectory(atPath: fleet.databaseFolder.path)
                    if !names.contains("shared.sqlite-salt") {
                        unsalted += 1
                    } else if !names.contains("shared.sqlite") {
                        salted += 1
                    } else {
                        created += 1
                    }
                    let next = try fleet.spawn("next")
                    let opening = fleet.opening(next, schema: PeerSchema(migrations: 3), options: options())
                    let reply = try next.attempt(.open(opening), within: .seconds(60))
                    #expect(reply.outcome == .done, "round \(round), \(names): \(reply.message ?? "")")
                    try next.call(.write(rows: 1))
                    try next.call(.close)
                    let left = try FileManager.default.contentsOfDirectory(atPath: fleet.databaseFolder.path)
                    if names.contains("shared.sqlite") { return }
                    #expect(!left.contains { $0.hasSuffix(".new") }, "\(left)")
                }
            }
            print("killed before the salt: \(unsalted), before the database: \(salted), later: \(created)")
            #expect(hasKilledAtEachStage())
        }

        /// Readers and writers at work, some of which are killed: WAL, checkpoints, observations.
        @Test(.timeLimit(.minutes(3))) func writersAreKilled() throws {
            try PeerFleet.run { fleet in
                var options = options()
                options.checkpointing = .automatic(threshold: 100)
                var peers = try fleet.spawnOpen(3, options: options)
                let observer = try fleet.spawnOpen("observer", options: options)
                let log = fleet.folder.appendingPathComponent("log").path
                try observer.call(.observe(Observing(log: log)))
                var dead: [Peer] = []
                for round in 1...(isLongRun ? 30 : 4) {
                    for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 60, rows: 5))) }
                    try fleet.waitForProgress(of: peers, commits: 100, within: .seconds(30))
                    let victim = peers.removeLast()
                    try victim.process.killAndReap()
                    dead.append(victim)
                    for peer in peers {
                        let report = try peer.stopLoop()
                        #expect(report.errorCount == 0, "\(report.errors)")
                    }
                    peers.append(try fleet.spawnOpen("later-\(round)", options: options))
                }
                // The observer reads all that there is.
                let count = try observer.call(.count).number
                #expect(try peers[0].call(.count).number == count)
                for peer in peers + [observer] { try peer.call(.close) }
                try expectEverything(fleet, peers + dead, dead: dead)
            }
        }

        #if os(Linux)
            /// A process that is suspended with the database open is not convicted: the header is SQLite's. With SQLCipher's own header, it is.
            @Test(.timeLimit(.minutes(2))) func police() throws {
                var terms = SuspensionTerms.reporting()
                terms.notice = .milliseconds(200)
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    try withPolice(terms) { police in
                        let peer = try fleet.spawn("writer", environment: police.environment)
                        try peer.call(.open(fleet.opening(peer, options: options(policy: .writeLocks))))
                        try peer.call(.write(rows: 1))
                        try peer.send(.writeLoop(WriteLoad(seconds: 300)))
                        let report = try police.patrol(
                            peer.pid,
                            freezes: isLongRun ? 500 : 20,
                            pauses: .zero...(.milliseconds(20)),
                            seed: SeededGenerator(for: "police").seed
                        )
                        print("an encrypted database before the police: \(report)")
                        report.expectTimelyRelease(.milliseconds(200), in: trial)
                        let written = try peer.stopLoop()
                        #expect(written.errorCount == 0 && written.commits > 0, "\(written.errors)")
                        try peer.call(.close)
                        try expectEverything(fleet, [peer])
                    }
                    try withPolice(.reporting()) { police in
                        // An idle connection in WAL mode keeps a lock on the file.
                        let program = try PythonProgram(fleet)
                        let path = fleet.database(named: "opaque.sqlite").path
                        try program.run("import sqlite3; c = sqlite3.connect('\(path)', isolation_level = None)")
                        try program.run("c.execute(\"PRAGMA key = 'secret'\")")
                        try program.run("c.execute('PRAGMA journal_mode = WAL'); c.execute('CREATE TABLE t (x)')")
                        let verdict = try police.freeze(program.pid)
                        #expect(verdict.outcome == .convicted, "\(verdict)")
                        #expect(verdict.convictions.contains { $0.rule == .lockedFile }, "\(verdict)")
                    }
                }
            }
        #endif
    }
}
