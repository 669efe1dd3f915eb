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
    @Suite struct HistoryBetweenProcesses {
        private static let python = URL(fileURLWithPath: "/usr/bin/env")
        private static let shell = URL(fileURLWithPath: "/usr/bin/sqlite3")

        /// Writes until it is killed, and knows nothing of Roundtable.
        private static let pythonWriter = """
            import sqlite3, sys, time
            db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
            while True:
                db.execute("INSERT INTO entry (author, n, part) "
                    "SELECT 'python', 1 + coalesce(max(n), 0), 0 FROM entry WHERE author = 'python'")
                time.sleep(0.003)
            """
        private static let shellInsert = """
            INSERT INTO entry (author, n, part)
            SELECT 'shell', 1 + coalesce(max(n), 0), 0 FROM entry WHERE author = 'shell';
            """

        /// Consumers and writers, ours and strangers, are killed at random (rules H4, H5, H9 to H11). Every row that was
        /// committed is handed out, in commit order; what was not acknowledged comes again; with the acknowledgement in the
        /// same transaction, each comes once.
        ///
        /// Rows of `entry` are numbered in the order of their commits, and none is deleted: the numbers show what is missing.
        @Test(.long(), .timeLimit(.minutes(10)))
        func killedConsumers() throws {
            let kills = isLongRun ? 1000 : 120
            var random = SeededGenerator()
            try PeerFleet.run(inMemory: true) { fleet in
                try prepare(fleet.database)
                let journal = fleet.folder.appendingPathComponent("journal").path
                var writers = try (0..<2).map { try startWriter(fleet, "writer-\($0)-0") }
                var stranger = try startPython(fleet)
                var killed = (consumers: 0, writers: 0, strangers: 0)
                var kill = 0
                while killed.consumers < kills {
                    kill += 1
                    switch Int.random(in: 0..<10, using: &random) {
                    case 0:
                        let index = Int.random(in: 0..<2, using: &random)
                        writers[index].process.end()
                        writers[index] = try startWriter(fleet, "writer-\(index)-\(kill)")
                        killed.writers += 1
                    case 1:
                        stranger.end()
                        stranger = try startPython(fleet)
                        killed.strangers += 1
                        let shell = try fleet.spawn(
                            program: Self.shell,
                            arguments: ["-cmd", ".timeout 20000", fleet.database.path, Self.shellInsert]
                        )
                        #expect(try shell.waitForExit() == .status(0), "\(shell.errorText)")
                        shell.end()
                    default:
                        try liveAndDie(fleet, "consumer-\(kill)", journal, &random)
                        killed.consumers += 1
                    }
                }
                for writer in writers { writer.process.end() }
                stranger.end()
                try finish(fleet, journal)
                try verify(fleet, journal, killed: killed)
            }
        }

        private func prepare(_ database: URL) throws {
            let db = try SharedDatabase.open(at: database, schema: PeerSchema().schema, as: "test")
            defer { try? db.close() }
            try db.history.enable(for: "entry")
            try db.write { db in
                try db.execute(sql: "CREATE TABLE mirror (entry INTEGER NOT NULL)")
                var settings = DatabaseHistory.Settings()
                settings.minimumCount = 0
                try DatabaseHistory.setSettings(settings, in: db)
            }
            for name in ["journal", "mirror"] { try db.history.restartConsumer(name) }
        }

        private func startWriter(_ fleet: PeerFleet, _ name: String) throws -> Peer {
            let writer = try fleet.spawnOpen(name)
            try writer.send(.writeLoop(WriteLoad(seconds: 600, think: 3)))
            return writer
        }

        private func startPython(_ fleet: PeerFleet) throws -> ChildProcess {
            try fleet.spawn(
                program: Self.python,
                arguments: ["python3", "-c", Self.pythonWriter, fleet.database.path]
            )
        }

        /// Starts a consumer, and kills it some time after it was handed something.
        private func liveAndDie(
            _ fleet: PeerFleet,
            _ name: String,
            _ journal: String,
            _ random: inout SeededGenerator
        ) throws {
            let consumer = try fleet.spawnOpen(name)
            let size = Self.size(journal)
            try consumer.send(.consumeLoop(ConsumeLoad(journal: journal, limit: 50, milliseconds: 4)))
            try eventually("\(consumer) is handed something") { Self.size(journal) > size + 6 }
            // The random moment: of reading, of handling, of acknowledging.
            usleep(UInt32.random(in: 0..<12_000, using: &random))
            consumer.process.end()
        }

        /// Lets a last consumer do what is left.
        private func finish(_ fleet: PeerFleet, _ journal: String) throws {
            let consumer = try fleet.spawnOpen("last")
            try consumer.send(.consumeLoop(ConsumeLoad(journal: journal, limit: 1000, milliseconds: 0)))
            let db = try SharedDatabase.open(at: fleet.database, schema: PeerSchema().schema, as: "test")
            defer { try? db.close() }
            let entries = try db.read { try Int64.fetchOne($0, sql: "SELECT max(id) FROM entry")! }
            try eventually("everything is handed out", within: .seconds(60)) {
                let hasAll = try ConsumerJournal.read(journal).contains {
                    if case .change(id: entries, _) = $0 { true } else { false }
                }
                let mirrored = try db.read { try Int64.fetchOne($0, sql: "SELECT max(entry) FROM mirror") }
                return hasAll && mirrored == entries
            }
            try consumer.send(.stop)
            for _ in 0..<2 { #expect(try consumer.reply().outcome == .done) }
        }

        private func verify(
            _ fleet: PeerFleet,
            _ journal: String,
            killed: (consumers: Int, writers: Int, strangers: Int)
        ) throws {
            let queue = try DatabaseQueue(path: fleet.database.path)
            defer { try? queue.close() }
            let authors = try queue.read { try String.fetchAll($0, sql: "SELECT author FROM entry ORDER BY id") }
            let (count, last) = try queue.read { db in
                let row = try Row.fetchOne(db, sql: "SELECT count(*), max(id) FROM entry")!
                return (row[0] as Int64, row[1] as Int64)
            }
            #expect(count == last, "the numbers of the rows are not what the test takes them for")
            let mirror = try queue.read { try Int64.fetchAll($0, sql: "SELECT entry FROM mirror ORDER BY rowid") }
            #expect(mirror == Array(1...last), "exactly once, in commit order")

            var handedOut: Int64 = 0
            var acknowledged: Int64 = 0
            var previous: Int64?
            var again = 0
            var cutShort = 0
            for line in try ConsumerJournal.read(journal) {
                switch line {
                case .begin:
                    if handedOut > acknowledged { cutShort += 1 }
                    previous = nil
                case .acknowledged:
                    acknowledged = previous ?? acknowledged
                case .change(let id, let author):
                    if let previous {
                        #expect(id == previous + 1, "after \(previous)")
                    } else {
                        // An acknowledgement may have been committed and not yet noted in the journal.
                        #expect(id > acknowledged && id <= handedOut + 1, "a new life after \(handedOut)")
                    }
                    if id <= handedOut { again += 1 }
                    handedOut = max(handedOut, id)
                    previous = id
                    let writer = authors[Int(id) - 1]
                    #expect(author == (["python", "shell"].contains(writer) ? nil : writer))
                }
            }
            #expect(handedOut == last, "none is missing")
            #expect(cutShort > killed.consumers / 4 && again > 0, "too few kills hit between reading and acknowledging")
            #expect(Set(authors).isSuperset(of: ["python", "shell"]) && authors.contains { $0.hasPrefix("writer") })
            let kept = try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM roundtable_history")! }
            #expect(kept < Int(last), "pruned meanwhile")
            let integrity = try queue.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
            #expect(integrity == "ok")
            print(
                """
                killed: \(killed.consumers) consumers (\(cutShort) between reading and acknowledging), \
                \(killed.writers) writers, \(killed.strangers) strangers; \(last) rows, \(again) handed out again, \
                \(kept) rows of history left
                """
            )
        }

        private static func size(_ path: String) -> Int {
            (try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int) ?? 0
        }
    }
}
