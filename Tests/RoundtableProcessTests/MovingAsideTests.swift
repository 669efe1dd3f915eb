import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// `quarantine` and `erase` in processes that are killed and stopped (rules S16, S17). All processes that go on are in
    /// `roundtable-torture files`.
    @Suite struct MovingAsideBetweenProcesses {
        private func rows(_ path: String) throws -> Int {
            let queue = try DatabaseQueue(path: path)
            defer { try? queue.close() }
            return try queue.read { db in
                #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
                return try Int.fetchOne(db, sql: "SELECT count(*) FROM entry") ?? 0
            }
        }

        /// The databases that were put aside.
        private func aside(_ fleet: PeerFleet) throws -> [String] {
            let name = fleet.database.lastPathComponent
            return try FileManager.default.contentsOfDirectory(atPath: fleet.databaseFolder.path)
                .filter { $0.hasPrefix("\(name)-quarantined-") || $0.hasPrefix(".\(name)-") }
                .map { "\(fleet.databaseFolder.path)/\($0)/\(name)" }
                .filter { FileManager.default.fileExists(atPath: $0) }
        }

        /// A mover that is killed at any moment, while the writer of the database still has it open: each row is in one database, and the next
        /// opening needs nobody's help.
        @Test(.timeLimit(.minutes(5)), arguments: [false, true]) func killed(erasing: Bool) throws {
            var random = SeededGenerator()
            try PeerFleet.run(inMemory: true) { fleet in
                var (written, stayed) = (0, 0)
                // The longest time until a kill follows how long a move takes here, so that some come before and some after.
                var longest: UInt32 = 10_000
                let count = isLongRun ? 200 : 25
                for round in 0..<count {
                    let writer = try fleet.spawnOpen("writer \(round)")
                    let before = try writer.call(.count).number ?? 0
                    try writer.call(.write(rows: 10))
                    written = erasing ? before + 10 : written + 10
                    let victim = try fleet.spawn("victim \(round)")
                    try victim.send(.moveAside(path: fleet.database.path, erasing: erasing))
                    usleep(UInt32.random(in: 0...longest, using: &random))
                    try victim.process.killAndReap()
                    let next = try fleet.spawnOpen("next \(round)")
                    let found = try next.call(.count).number ?? 0
                    let others = try aside(fleet)
                    if erasing {
                        #expect(found == 0 || found == written)
                        #expect(others.isEmpty)
                    } else {
                        #expect(try found + others.map(rows).reduce(0, +) == written)
                    }
                    if found == before + 10 { stayed += 1 }
                    longest = found == before + 10 ? min(longest * 2, 400_000) : max(longest / 2, 500)
                    try next.process.killAndReap()
                    try writer.process.killAndReap()
                }
                print("killed while moving aside: \(stayed) of \(count) before")
                #expect(stayed > 0 && stayed < count, "a test of kills that kills nothing")
            }
        }

        /// A debug build does not erase what a program without Roundtable has open, and names it.
        @Test(.timeLimit(.minutes(1))) func erasureOnSchemaChangeBesideAStranger() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                try fleet.spawnOpen("first").call(.close)
                let script = """
                    import sqlite3, sys
                    db = sqlite3.connect(sys.argv[1])
                    db.execute("SELECT count(*) FROM entry").fetchone()
                    open(sys.argv[1] + ".ready", "w").close()
                    sys.stdin.read()
                    """
                let python = URL(fileURLWithPath: "/usr/bin/env")
                let stranger = try fleet.spawn(
                    program: python,
                    arguments: ["python3", "-c", script, fleet.database.path]
                )
                let deadline = ContinuousClock.now + .seconds(30)
                while !FileManager.default.fileExists(atPath: fleet.database.path + ".ready"),
                    ContinuousClock.now < deadline
                {
                    usleep(1_000)
                }
                var migrator = DatabaseMigrator()
                migrator.eraseDatabaseOnSchemaChange = true
                migrator.registerMigration("other") { try $0.execute(sql: "CREATE TABLE other (a)") }
                let error = #expect(throws: SharedDatabaseError.self) {
                    try SharedDatabase.open(at: fleet.database, schema: SharedSchema(migrator), as: "debug")
                }
                #expect("\(try #require(error))".contains("(pid \(stranger.pid))"))
                stranger.end()
                try SharedDatabase.open(at: fleet.database, schema: SharedSchema(migrator), as: "debug").close()
            }
        }

        /// A participant that is stopped within its turn is waited for, and one that is stopped outside of it is not.
        @Test(.timeLimit(.minutes(1))) func besideStoppedProcesses() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let (stopped, other) = (try fleet.spawnOpen("stopped"), try fleet.spawnOpen("other"))
                try stopped.call(.write(rows: 3))
                try stopped.process.stop()
                let mover = try fleet.spawn("mover")
                let path = try #require(try mover.call(.moveAside(path: fleet.database.path, erasing: false)).message)
                #expect(try rows(path) == 3)
                stopped.process.resume()
                for peer in [stopped, other] {
                    let reply = try peer.attempt(.write(rows: 1))
                    #expect(
                        reply.message?.contains("was removed, or moved away") == true,
                        "\(reply.message ?? "written")"
                    )
                }
                #expect(try rows(path) == 3)
            }
        }
    }
}
