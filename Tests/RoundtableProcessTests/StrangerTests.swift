import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct Strangers {
        private static let shell = URL(fileURLWithPath: "/usr/bin/sqlite3")
        private static var hasShell: Bool { FileManager.default.isExecutableFile(atPath: shell.path) }

        /// The `sqlite3` shell, which takes no turns, writes at the same time: no error on our side, and all rows of both
        /// (rules G1, T11).
        @Test(.timeLimit(.minutes(1)), .enabled(if: hasShell, "/usr/bin/sqlite3 is not installed"))
        func shellWritesToo() throws {
            try PeerFleet.run { fleet in
                let peers = try fleet.spawnOpen(2)
                for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                let rows = 3000
                try fleet.waitForProgress(of: peers)
                let script = fleet.folder.appendingPathComponent("script.sql")
                let statements = (1...rows).map { "INSERT INTO entry (author, n, part) VALUES ('shell', \($0), 0);" }
                try ([".timeout 20000"] + statements).joined(separator: "\n")
                    .write(to: script, atomically: true, encoding: .utf8)
                let shell = try fleet.spawn(
                    program: Self.shell,
                    arguments: ["-bail", fleet.database.path, ".read \(script.path)"]
                )
                #expect(try shell.waitForExit(within: .seconds(50)) == .status(0), "\(shell.errorText)")
                for peer in peers { try peer.stopLoop().expectNoErrors(peer) }
                let ledger = try Ledger(of: fleet.database)
                ledger.expectEverything(acknowledgedBy: peers)
                #expect(ledger.entries["shell"] == rows)
            }
        }

        /// A plain GRDB pool beside ours: no error on our side (rule G1).
        @Test(.timeLimit(.minutes(1)))
        func poolWritesToo() throws {
            try PeerFleet.run { fleet in
                let peers = try fleet.spawnOpen(2)
                let pool = try fleet.spawn("pool")
                try pool.call(.openPool(fleet.opening(pool)))
                let reports = try fleet.writeAtOnce(peers + [pool], WriteLoad(seconds: 2, think: 1))
                for (peer, report) in zip(peers, reports) { report.expectNoErrors(peer) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }

        /// A stranger that holds the write lock is named by program and pid (rule T11).
        @Test(.timeLimit(.minutes(1)))
        func strangerIsNamed() throws {
            try PeerFleet.run { fleet in
                let peer = try fleet.spawnOpen("app", options: PeerOptions(busyTimeout: 300))
                let pool = try fleet.spawn("pool")
                try pool.call(.openPool(fleet.opening(pool)))
                try pool.call(.holdTransaction)
                let reply = try peer.attempt(.write(rows: 1))
                #expect((reply.code ?? 0) & 0xFF == 5)
                #expect(reply.message?.contains("'roundtable-peer' (pid \(pool.pid)) holds the write lock") == true)
                try pool.call(.release(commit: false))
                try peer.call(.write(rows: 1))
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }

        /// A stranger that locks the database (`PRAGMA locking_mode = EXCLUSIVE`) prevents all participants from opening it, and is named.
        @Test(.timeLimit(.minutes(1)), .enabled(if: hasShell, "/usr/bin/sqlite3 is not installed"))
        func exclusiveStrangerIsNamed() throws {
            try PeerFleet.run { fleet in
                let peer = try fleet.spawnOpen("app", options: PeerOptions(busyTimeout: 300, setupTimeout: 300))
                try peer.call(.write(rows: 1))
                try peer.call(.close)
                let shell = ProgramSession(try fleet.spawn(program: Self.shell, arguments: [fleet.database.path]))
                try shell.send("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT; SELECT 'ready';")
                while try shell.receive() != "ready" {}
                let opening = fleet.opening(peer, options: PeerOptions(busyTimeout: 300, setupTimeout: 300))
                for command in [PeerCommand.open(opening), .openReadOnly(opening, waiting: 0)] {
                    let reply = try peer.attempt(command)
                    #expect((reply.code ?? 0) & 0xFF == 5)
                    let expected = "is locked: 'sqlite3' (pid \(shell.process.pid)) holds the write lock"
                    #expect(reply.message?.contains(expected) == true, "\(reply.message ?? "")")
                }
                try shell.send(".exit")
                _ = try shell.process.waitForExit(within: .seconds(10))
                try peer.call(.open(opening))
                try peer.call(.write(rows: 1))
            }
        }

        #if os(Linux)
            /// A program reads a database with a rollback journal. Another connection of this process waits for that read to
            /// end, and locks out new readers meanwhile. The error names the program, because all wait for its read.
            @Test(.timeLimit(.minutes(1)), .enabled(if: hasShell, "/usr/bin/sqlite3 is not installed"))
            func aReaderThatAWriterWaitsForIsNamed() throws {
                try PeerFleet.run { fleet in
                    let url = fleet.database
                    try makeDatabase(at: url, PeerSchema())
                    let shell = ProgramSession(try fleet.spawn(program: Self.shell, arguments: [url.path]))
                    try shell.send("BEGIN; SELECT 'reading' FROM entry;")
                    #expect(try shell.receive() == "reading")
                    var configuration = Configuration()
                    configuration.busyMode = .timeout(60)
                    let writer = try DatabaseQueue(path: url.path, configuration: configuration)
                    let committed = DispatchSemaphore(value: 0)
                    writer.asyncWrite {
                        try $0.execute(sql: PeerSchema.insertEntry, arguments: ["test", 2, 0])
                    } completion: { _, result in
                        #expect(throws: Never.self) { try result.get() }
                        committed.signal()
                    }
                    try eventually("the writer locks out new readers") {
                        do {
                            try DatabaseQueue(path: url.path).read {
                                _ = try Row.fetchOne($0, sql: "SELECT * FROM entry")
                            }
                            return false
                        } catch DatabaseError.SQLITE_BUSY {
                            return true
                        }
                    }
                    var options = SharedDatabase.Options()
                    options.busyTimeout = .milliseconds(300)
                    let error = #expect(throws: DatabaseError.self) {
                        let schema = SharedSchema(PeerSchema().migrator)
                        _ =
                            try SharedDatabase.openReadOnly(at: url, schema: schema, as: "reader", options: options)
                            as SharedDatabase.Availability
                    }
                    let expected = "is locked: 'sqlite3' (pid \(shell.process.pid)) is reading it"
                    #expect(error?.message?.contains(expected) == true, "\(error?.message ?? "")")
                    try shell.send(".exit")
                    committed.wait()
                }
            }
        #endif
    }
}
