import Foundation
import GRDB
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// The content of another file becomes that of a database that many processes have open (rules S15).
    @Suite struct Replacement {
        private static let pages = 2000

        /// A database of the peers, whose content has a mark in many pages. Its last entry has the number `mark` million.
        private func makeSource(_ fleet: PeerFleet, mark: Int) throws -> URL {
            let url = fleet.folder.appendingPathComponent("source-\(mark).sqlite")
            let queue = try DatabaseQueue(path: url.path)
            try PeerSchema().migrator.migrate(queue)
            try queue.write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE content (mark INTEGER NOT NULL, filler TEXT NOT NULL);
                        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.pages))
                            INSERT INTO content SELECT \(mark), hex(randomblob(1800)) FROM n;
                        INSERT INTO entry (id, author, n, part) VALUES (\(mark * 1_000_000), 'source', \(mark), 0);
                        """
                )
            }
            try queue.close()
            return url
        }

        /// The mark of the content, which must be whole.
        private func mark(_ fleet: PeerFleet) throws -> Int {
            var configuration = Configuration()
            configuration.busyMode = .timeout(10)
            let queue = try DatabaseQueue(path: fleet.database.path, configuration: configuration)
            defer { try? queue.close() }
            return try queue.read { db in
                let marks = try Int.fetchAll(db, sql: "SELECT DISTINCT mark FROM content")
                #expect(marks.count == 1, "content of two sources: \(marks)")
                #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM content") == Self.pages)
                #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
                return marks.first ?? 0
            }
        }

        /// Writers and readers in other processes continue without an error, and all observers are notified.
        @Test(.timeLimit(.minutes(5)))
        func allProcessesContinue() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let replacing = try fleet.spawnOpen("replacing")
                let sources = try (1...4).map { try makeSource(fleet, mark: $0) }
                try replacing.call(.replaceContent(path: sources[0].path))
                let writers = try ["a", "b"].map { try fleet.spawnOpen($0) }
                let observers = [
                    try fleet.spawnObserver("watcher"), try fleet.spawnObserver("reader", readOnly: true),
                ]
                for writer in writers { try writer.send(.writeLoop(WriteLoad(seconds: 250))) }
                for (index, source) in sources.enumerated().dropFirst() {
                    try fleet.waitForProgress(of: writers)
                    try replacing.call(.replaceContent(path: source.path))
                    for observer in observers { try observer.waitForValue((index + 1) * 1_000_000) }
                }
                try fleet.waitForProgress(of: writers)
                for writer in writers { try writer.stopLoop().expectNoErrors(writer) }
                #expect(try mark(fleet) == 4)
                // What is written now is in the file that all see.
                let count = try writers[0].call(.count).number ?? 0
                try writers[0].call(.write(rows: 1))
                #expect(try replacing.call(.count).number == count + 1)
                for observer in observers { #expect(try observer.errors.isEmpty) }
            }
        }

        /// A process that is killed while it replaces leaves the content of before or of after, and prevents no process from writing.
        @Test(.timeLimit(.minutes(10)))
        func killed() throws {
            var random = SeededGenerator()
            try PeerFleet.run(inMemory: true) { fleet in
                let first = try fleet.spawnOpen("first")
                let sources = try (1...2).map { try makeSource(fleet, mark: $0) }
                try first.call(.replaceContent(path: sources[0].path))
                let began = MonotonicClock.now
                try first.call(.replaceContent(path: sources[1].path))
                let whole = MonotonicClock.now - began
                let writers = try (1...3).map { try fleet.spawnOpen("writer \($0)") }
                for writer in writers { try writer.send(.writeLoop(WriteLoad(seconds: 500, think: 1))) }
                var outcomes = (before: 0, after: 0)
                var present = 2
                for round in 0..<(isLongRun ? 200 : 25) {
                    let victim = try fleet.spawnOpen("victim \(round)")
                    let wanted = 3 - present
                    try victim.send(.replaceContent(path: sources[wanted - 1].path))
                    // At any moment, also shortly after the end.
                    usleep(UInt32(UInt64.random(in: 0...whole * 5 / 4, using: &random) / 1000))
                    try victim.process.killAndReap()
                    try fleet.waitForProgress(of: writers, commits: 1)
                    let found = try mark(fleet)
                    #expect(found == present || found == wanted)
                    if found == present { outcomes.before += 1 } else { outcomes.after += 1 }
                    present = found
                }
                print("killed while replacing: \(outcomes), of \(whole / 1_000_000) ms each")
                #expect(outcomes.before > 0, "a test of kills that kills nothing")
                try first.call(.replaceContent(path: sources[0].path))
                #expect(try mark(fleet) == 1)
                for writer in writers { try writer.stopLoop().expectNoErrors(writer) }
            }
        }
    }
}
