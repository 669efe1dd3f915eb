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
    @Suite struct HistoryTombstones {
        /// Writes until it is killed, and knows nothing of Roundtable.
        private static let python = """
            import sqlite3, sys, time
            db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
            while True:
                db.execute("BEGIN IMMEDIATE")
                for statement in sys.argv[2].split(";"): db.execute(statement)
                db.execute("COMMIT")
                time.sleep(0.002)
            """

        /// A sync engine in a process of its own records the id of each row that is removed, while it and the writers, participants and
        /// strangers, are killed (rules H10, H11, H14a): none is lost, and none is repeated.
        @Test(.long(), .timeLimit(.minutes(10)))
        func killedWritersAndEngines() throws {
            let kills = isLongRun ? 600 : 60
            var random = SeededGenerator()
            try PeerFleet.run(inMemory: true) { fleet in
                try prepare(fleet.database)
                let reader = try SharedDatabase.open(at: fleet.database, schema: PeerSchema().schema, as: "test")
                defer { try? reader.close() }
                func tombstones() throws -> Int {
                    try reader.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM tombstone")! }
                }
                var stranger = try startPython(fleet)
                for kill in 0..<kills {
                    let writer = try fleet.spawnOpen("writer-\(kill)")
                    for _ in 0..<100 { try writer.send(.execute(sql: TombstoneWorld.change)) }
                    let engine = try fleet.spawnOpen("engine-\(kill)")
                    let before = try tombstones()
                    try engine.send(.followDeletions(limit: Int.random(in: 1...100, using: &random)))
                    try eventually("\(engine) records a deletion") { try tombstones() > before }
                    // The random moment: of reading, of writing, of committing.
                    usleep(UInt32.random(in: 0..<10_000, using: &random))
                    if kill % 3 == 0 {
                        stranger.end()
                        stranger = try startPython(fleet)
                    }
                    writer.process.end()
                    engine.process.end()
                }
                stranger.end()
                let last = try fleet.spawnOpen("last")
                try last.send(.followDeletions(limit: 1000))
                try eventually("everything is followed", within: .seconds(60)) {
                    try reader.read { db in
                        try DatabaseHistory.consumers(in: db).allSatisfy { $0.backlog == 0 }
                    }
                }
                try last.send(.stop)
                for _ in 0..<2 { #expect(try last.reply().outcome == .done) }
                try verify(fleet.database, kills: kills)
            }
        }

        private func prepare(_ database: URL) throws {
            let db = try SharedDatabase.open(at: database, schema: PeerSchema().schema, as: "test")
            defer { try? db.close() }
            try db.write { db in
                try db.execute(sql: TombstoneWorld.tables)
                try DatabaseHistory.enable(for: "item", keeping: ["serverID"], in: db)
                var settings = DatabaseHistory.Settings()
                settings.minimumCount = 0
                try DatabaseHistory.setSettings(settings, in: db)
            }
            try db.history.restartConsumer(TombstoneWorld.consumer)
        }

        private func startPython(_ fleet: PeerFleet) throws -> ChildProcess {
            try fleet.spawn(
                program: URL(fileURLWithPath: "/usr/bin/env"),
                arguments: ["python3", "-c", Self.python, fleet.database.path, TombstoneWorld.change]
            )
        }

        private func verify(_ database: URL, kills: Int) throws {
            let queue = try DatabaseQueue(path: database.path)
            defer { try? queue.close() }
            try queue.read { db in
                #expect(try String.fetchAll(db, sql: TombstoneWorld.wrong) == [], "ids that are lost, or repeated")
                let row = try Row.fetchOne(
                    db,
                    sql: """
                        SELECT (SELECT count(*) FROM issued) AS issued, (SELECT count(*) FROM tombstone) AS gone,
                            (SELECT count(*) FROM roundtable_history) AS kept,
                            (SELECT max(sequence) FROM roundtable_history) AS last,
                            (SELECT count(DISTINCT author) FROM roundtable_history) AS authors
                        """
                )!
                let gone: Int = row["gone"]
                #expect(gone > kills && row["kept"] < (row["last"] as Int))
                #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
                print(
                    "killed \(kills) engines and writers: \(row["issued"] as Int) ids, \(gone) gone, \(row["kept"] as Int) rows of history left"
                )
            }
        }
    }
}
