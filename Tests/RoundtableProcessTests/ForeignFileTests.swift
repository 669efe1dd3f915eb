import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// The database was replaced while no process ran, and its `-wal` was left (rule W12g).
    @Suite struct ForeignFiles {
        /// All participants are killed, so that the last one does not empty the WAL.
        private func killedWriters(_ fleet: PeerFleet) throws {
            let peers = try fleet.spawnOpen(2)
            for peer in peers { try peer.call(.write(rows: 10)) }
            for peer in peers { peer.process.end() }
            try #require(try System.status(ofFileAt: fleet.database.path + "-wal")?.st_size ?? 0 > 0)
        }

        /// Puts a backup in the place of the database.
        private func replace(_ fleet: PeerFleet) throws {
            let backup = fleet.database.path + ".backup"
            let queue = try DatabaseQueue(path: backup)
            try PeerSchema().migrator.migrate(queue)
            try queue.close()
            try #require(rename(backup, fleet.database.path) == 0)
        }

        private func rows(_ fleet: PeerFleet) throws -> Int {
            try DatabaseQueue(path: fleet.database.path).read {
                try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") ?? 0
            }
        }

        /// What the dead show prevents the `-wal` from being applied to a file that it does not belong to.
        @Test(.timeLimit(.minutes(2)))
        func theWALOfAnotherDatabase() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                try killedWriters(fleet)
                try replace(fleet)
                let before = try Data(contentsOf: fleet.database)
                let error = #expect(throws: (any Error).self) { try fleet.spawnOpen("early") }
                #expect("\(try #require(error))".contains("belongs to another database file"))
                #expect(try Data(contentsOf: fleet.database) == before)
                for suffix in ["-wal", "-shm"] {
                    try #require(rename(fleet.database.path + suffix, fleet.database.path + ".former" + suffix) == 0)
                }
                let next = try fleet.spawnOpen("next")
                try next.call(.write(rows: 5))
                next.process.end()
                // Its own `-wal`, beside slots of the dead that show the former files.
                let last = try fleet.spawnOpen("last")
                try last.call(.close)
                #expect(try rows(fleet) == 5)
            }
        }

        /// The new `-wal` may have the inode numbers of the removed one, which the slots of the dead still show with the former database.
        @Test(.timeLimit(.minutes(2)))
        func theSameInodes() throws {
            try PeerFleet.run { fleet in
                for round in 1...3 {
                    try killedWriters(fleet)
                    for suffix in ["-wal", "-shm"] {
                        try FileManager.default.removeItem(atPath: fleet.database.path + suffix)
                    }
                    try replace(fleet)
                    let next = try fleet.spawnOpen("next-\(round)")
                    try next.call(.write(rows: 5))
                    let beside = try fleet.spawnOpen("beside-\(round)")
                    for peer in [next, beside] { peer.process.end() }
                    let last = try fleet.spawnOpen("last-\(round)")
                    try last.call(.close)
                    #expect(try rows(fleet) == 5)
                }
            }
        }
    }
}
