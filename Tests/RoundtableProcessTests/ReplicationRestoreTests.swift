import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

extension ProcessTests {
    /// `roundtable restore` with the real Litestream.
    @Suite(
        .enabled(if: RestoreWorld.litestream != nil, "Litestream is not in PATH: `make test-replication` installs it")
    )
    struct ReplicationRestoreTests {
        private let world: RestoreWorld

        init() throws {
            world = try RestoreWorld()
            try world.makeFolder("place")
        }

        // MARK: Points in time

        /// Each row is uploaded by itself, so the state of each is known to the millisecond.
        ///
        ///     row 1   upload 1      row 2   upload 2      row 3 …
        ///              time 1                time 2
        ///                 └── restored: 1 row ──┴── restored: 2 rows
        @Test(.timeLimit(.minutes(1))) func pointInTime() throws {
            let source = try world.open()
            var before: [Int64] = []
            for _ in 1...4 {
                try RestoreWorld.addRow(source)
                before.append(RestoreWorld.now)
                try world.replicate()
                let end = RestoreWorld.now
                try eventually("the clock moves on") { RestoreWorld.now > end + 1 }
            }
            try source.close()
            let newest = try world.restore("place/newest.db")
            #expect(try world.content("place/newest.db").isWhole(upTo: 4))
            #expect(try newest.json["transaction"] as? String != nil)

            var times: [RestoreTime] = []
            for count in 1...4 {
                let limit =
                    count < 4
                    ? RestoreTime(milliseconds: before[count]) : RestoreTime(milliseconds: RestoreWorld.now + 3_600_000)
                let result = try world.restore("place/\(count).db", "--at", limit.text)
                #expect(try world.content("place/\(count).db").isWhole(upTo: count))
                let time = try result.time
                #expect(time.milliseconds >= before[count - 1] && time <= limit)
                times.append(time)
            }
            // Exactly at the time of a state, and a millisecond before.
            _ = try world.restore("place/exact.db", "--at", times[2].text).json
            #expect(try world.content("place/exact.db").isWhole(upTo: 3))
            let earlier = RestoreTime(milliseconds: times[2].milliseconds - 1)
            #expect(try world.restore("place/earlier.db", "--at", earlier.text).time == times[1])
            #expect(try world.content("place/earlier.db").isWhole(upTo: 2))

            let tooEarly = try world.restore("place/none.db", "--at", RestoreTime(milliseconds: before[0] - 5000).text)
            #expect(tooEarly.exit == .status(1))
            #expect(tooEarly.errors.contains("there is no state of "), "\(tooEarly.errors)")
            #expect(try !world.names().contains { $0.contains("none.db") })
        }

        /// While Litestream compacts and forgets, no row is ever restored that is later than the time asked for.
        @Test(.timeLimit(.minutes(1))) func pointsInTimeWhileCompacting() throws {
            var random = SeededGenerator()
            let source = try world.open()
            let replication = try world.startReplicating()
            let start = RestoreWorld.now
            var count = 0
            while RestoreWorld.now < start + 5000 {
                try RestoreWorld.addRow(source)
                count += 1
                usleep(3000)
            }
            let end = RestoreWorld.now
            replication.signal(SIGTERM)
            let ended = try #require(try replication.wait(upTo: 40_000))
            try source.close()
            #expect(
                ended.standardOutput.contains("compaction complete"),
                "\(ended.standardOutput)\(ended.standardError)"
            )
            for round in 1...6 {
                let limit = RestoreTime(milliseconds: Int64.random(in: (start + 1500)...end, using: &random))
                let name = "place/\(round).db"
                let result = try world.restore(name, "--at", limit.text)
                let content = try world.content(name)
                #expect(content.isWhole(upTo: content.numbers.count))
                #expect(content.lastTime <= limit.milliseconds, "a row that is later than \(limit.text)")
                #expect(try result.time <= limit)
            }
            _ = try world.restore("place/newest.db").json
            #expect(try world.content("place/newest.db").isWhole(upTo: count))
        }

        // MARK: What is beside it

        /// A running writer keeps its database, and all it commits.
        @Test(.timeLimit(.minutes(1))) func besideARunningWriter() throws {
            let source = try world.open()
            try RestoreWorld.addRow(source)
            try world.replicate()
            try source.close()
            try PeerFleet.run(ofOneUser: true) { fleet in
                let peer = try fleet.spawnOpen("writer")
                try peer.send(.writeLoop(WriteLoad(seconds: 60)))
                try eventually("it writes") { peer.acknowledged > 10 }
                for arguments in [[], ["--replace"]] {
                    let run = try world.start([fleet.database.path] + arguments)
                    let output = try #require(try run.wait(upTo: 60_000))
                    #expect(output.exit == .status(1))
                    #expect(
                        output.standardError.contains("is in use by 'writer' (pid \(peer.pid))"),
                        "\(output.standardError)"
                    )
                }
                let now = peer.acknowledged
                try eventually("it writes on") { peer.acknowledged > now }
                _ = try peer.stopLoop()
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [peer])
            }
        }

        /// A database that goes back to an earlier state, and is replicated again to the same place: the replica continues from there.
        @Test(.timeLimit(.minutes(1))) func replicatesAgain() throws {
            let source = try world.open("place/app.db")
            try RestoreWorld.addRow(source)
            try world.replicate("place/app.db")
            let time = RestoreTime(milliseconds: RestoreWorld.now)
            try eventually("the clock moves on") { RestoreWorld.now > time.milliseconds + 1 }
            for _ in 2...4 {
                try RestoreWorld.addRow(source)
                try world.replicate("place/app.db")
            }
            // What Litestream has not uploaded yet would be uploaded by its next start, from its folder.
            try RestoreWorld.addRow(source)
            try source.close()
            #expect(try world.names().contains(".app.db-litestream"))

            let result = try world.restore("place/app.db", "--replace", "--at", time.text)
            let aside = try #require(try result.json["replaced"] as? String)
            #expect(FileManager.default.fileExists(atPath: "\(aside)/.app.db-litestream"))
            #expect(try world.names() == ["app.db", (aside as NSString).lastPathComponent])
            #expect(try world.content().isWhole(upTo: 1))

            let again = try world.open("place/app.db")
            try RestoreWorld.addRow(again)
            try world.replicate("place/app.db")
            try RestoreWorld.addRow(again)
            try world.replicate("place/app.db")
            try again.close()
            _ = try world.restore("place/second.db").json
            #expect(try world.content("place/second.db") == world.content("place/app.db"))
            #expect(try world.content("place/second.db").isWhole(upTo: 3))
        }

        /// What Roundtable keeps in the database comes back as it was, and is used on.
        @Test(.timeLimit(.minutes(1))) func roundtablesOwnTables() async throws {
            var migrator = DatabaseMigrator()
            migrator.registerMigration("first") { db in
                try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, box TEXT, size INTEGER)")
            }
            let sums = AggregateTable(
                "sums",
                version: 1,
                of: "item",
                groupedBy: [.init("box")],
                values: [.init("size")]
            )
            let schema = SharedSchema(migrator, derivedTables: DerivedTableSet(revision: 1, [sums]))
            func open(_ name: String) async throws -> SharedDatabase {
                try await SharedDatabase.open(at: URL(fileURLWithPath: world.path(name)), schema: schema, as: "app")
            }
            let db = try await open("source.db")
            try await db.write { db in try db.execute(sql: "INSERT INTO item (box, size) VALUES ('a', 1), ('a', 2)") }
            try world.replicate()
            try db.close()

            let json = try world.restore().json
            #expect(json["wal"] as? Bool == true)
            #expect(json["tables"] as? Int == 1)
            #expect(json["migrations"] as? [String] == ["first"])
            let checks = try #require(json["checks"] as? [String: Any])
            #expect((checks["derived_tables"] as? [[String: Any]])?.map { $0["state"] as? String } == ["ready"])
            #expect((checks["findings"] as? [Any])?.isEmpty == true)
            let restored = try await open("place/app.db")
            try await restored.write { db in try db.execute(sql: "INSERT INTO item (box, size) VALUES ('a', 3)") }
            let count = try await restored.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM item") }
            #expect(count == 3)
            try restored.close()
        }

        @Test(.timeLimit(.minutes(1))) func damagedReplica() throws {
            let source = try world.open()
            try RestoreWorld.addRow(source, filling: 100_000)
            try source.close()
            try world.replicate()
            let files = try FileManager.default.subpathsOfDirectory(atPath: world.path("replica")).filter {
                $0.hasSuffix(".ltx")
            }
            let file = try FileHandle(
                forUpdating: URL(fileURLWithPath: world.path("replica/\(try #require(files.first))"))
            )
            try file.seek(toOffset: 50_000)
            try file.write(contentsOf: Data(repeating: 0x55, count: 1000))
            try file.close()
            let result = try world.restore()
            #expect(result.exit == .status(1))
            #expect(result.errors.contains("\(world.url): the backup is damaged ("), "\(result.errors)")
            #expect(result.errors.count { $0 == "\n" } == 1)
            #expect(try world.names().isEmpty)
            let nothing = try world.restore("place/app.db", "--at", "2020-01-01T00:00:00Z")
            #expect(
                nothing.errors.contains("there is no state of 2020-01-01T00:00:00.000Z or earlier: the first is of 20")
            )
        }

        // MARK: Being ended

        private func makeLargeReplica() throws {
            let source = try world.open()
            for _ in 1...30 { try RestoreWorld.addRow(source, filling: 1_000_000) }
            try source.close()
            try world.replicate()
        }

        /// Killed at random moments, it leaves a temporary folder, which the next run removes, or the whole database.
        @Test(.timeLimit(.minutes(2))) func killedAtRandomMoments() throws {
            var random = SeededGenerator()
            try makeLargeReplica()
            let begun = ContinuousClock.now
            _ = try world.restore("place/measured.db").json
            let time = (ContinuousClock.now - begun) / .milliseconds(1)
            try world.remove("place")
            try world.makeFolder("place")
            var (killed, left) = (0, 0)
            for round in 1...12 {
                let run = try world.start([world.path("place/app.db")])
                // The moments are of the time that an undisturbed run takes.
                if try run.wait(upTo: Int32.random(in: 1...Int32(time), using: &random)) == nil { killed += 1 }
                run.signal(SIGKILL)
                _ = try run.wait(upTo: 60_000)
                let names = try world.names()
                let temporary = names.filter { $0.hasPrefix(".app.db-restore.") && $0.hasSuffix(".new") }
                #expect(names.subtracting(temporary).isSubset(of: ["app.db"]), "round \(round): \(names)")
                if names.contains("app.db") {
                    #expect(try world.content().isWhole(upTo: 30), "round \(round)")
                    try world.remove("place/app.db")
                }
                if !temporary.isEmpty { left += 1 }
            }
            #expect(killed >= 6 && left >= 3, "killed \(killed) times, something was left \(left) times")
            _ = try world.restore().json
            // A litestream whose parent was killed may still have been writing: then its folder is that of a dead process again.
            try eventually("nothing else is there") {
                if try self.world.names() == ["app.db"] { return true }
                _ = try self.world.restore()
                return false
            }
            #expect(try world.content().isWhole(upTo: 30))
        }

        @Test(.timeLimit(.minutes(1)), arguments: [SIGINT, SIGTERM]) func endedBySignal(_ signal: Int32) throws {
            try makeLargeReplica()
            let run = try world.start([world.path("place/app.db")])
            try eventually("Litestream writes") {
                let folders = try self.world.names().filter { $0.hasPrefix(".app.db-restore.") }
                return folders.contains {
                    FileManager.default.fileExists(atPath: self.world.path("place/\($0)/database.tmp"))
                }
            }
            run.signal(signal)
            let output = try #require(try run.wait(upTo: 60_000))
            #expect(output.exit == .status(128 + signal))
            #expect(output.standardError.contains("ended by signal \(signal): nothing was restored"))
            #expect(try world.names().isEmpty)
        }

        #if os(Linux)
            /// Killed before each call that changes names or syncs them, while a database is being replaced whose last row only its WAL
            /// has: there is always the old database, whole, or the new one, and the next run succeeds.
            @Test(
                .timeLimit(.minutes(2)),
                .enabled(if: SlowSync.compiler != nil, "needs a C compiler, for the library that kills")
            )
            func killedAtEachCall() throws {
                let source = try world.open()
                for _ in 1...3 { try RestoreWorld.addRow(source) }
                try source.close()
                try world.replicate()
                let library = try KilledAtCall.library(in: world.folder)
                var kills = 0
                var seen: Set<String> = []
                for call in 1...60 {
                    try makeOldDatabase()
                    let environment = ["LD_PRELOAD": library, KilledAtCall.variable: "\(call)"]
                    let result = try world.restore("place/app.db", "--replace", environment: environment)
                    guard result.exit == .signal(SIGKILL) else {
                        #expect(result.exit == .status(0), "\(result.errors)")
                        break
                    }
                    kills += 1
                    seen.insert(try checkWhatIsLeft(call))
                    _ = try world.restore("place/app.db", "--replace").json
                    #expect(try world.content().isWhole(upTo: 3), "call \(call)")
                    let names = try world.names()
                    #expect(try oldDatabases(names).count == 1, "call \(call): \(names)")
                    #expect(
                        names.allSatisfy { $0 == "app.db" || $0.hasPrefix("app.db-replaced-") },
                        "call \(call): \(names)"
                    )
                }
                #expect(kills >= 10 && seen == ["old", "moved", "new"], "killed \(kills) times: \(seen)")
            }

            /// A database of five rows, of which the WAL has the last.
            private func makeOldDatabase() throws {
                try world.remove("place")
                try world.remove("old")
                try world.makeFolder("place")
                try world.makeFolder("old")
                let old = try world.open("old/app.db")
                for _ in 1...4 { try RestoreWorld.addRow(old) }
                try old.inDatabase { db in try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
                try RestoreWorld.addRow(old)
                for ending in ["", "-wal", "-shm"] {
                    try FileManager.default.copyItem(
                        atPath: world.path("old/app.db" + ending),
                        toPath: world.path("place/app.db" + ending)
                    )
                }
                try old.close()
                try world.makeFolder("place/.app.db-litestream")
            }

            /// The folders that have the old database, whole.
            private func oldDatabases(_ names: Set<String>) throws -> [String] {
                try names.filter { $0.hasPrefix("app.db-replaced-") }.filter { name in
                    let database = "place/\(name)/app.db"
                    return try FileManager.default.fileExists(atPath: world.path(database))
                        && world.content(database).isWhole(upTo: 5)
                }
            }

            /// - returns: which database there is.
            private func checkWhatIsLeft(_ call: Int) throws -> String {
                let names = try world.names()
                guard names.contains("app.db") else {
                    #expect(try oldDatabases(names).count == 1, "call \(call): \(names)")
                    return "moved"
                }
                let content = try world.content()
                if content.isWhole(upTo: 5) { return "old" }
                #expect(content.isWhole(upTo: 3), "call \(call): \(content)")
                #expect(!names.contains("app.db-wal"), "call \(call): \(names)")
                #expect(try oldDatabases(names).count == 1, "call \(call): \(names)")
                return "new"
            }
        #endif
    }
}
