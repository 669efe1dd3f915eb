import Foundation
import GRDB
import RoundtableKernel
import Testing

@testable import Roundtable

#if os(Linux)
    /// Names that lead to the database's own files, where files are opened by names that others have given (rule G5).
    @Suite struct LinksToDatabaseTests {
        /// What /proc/locks tells of a file, from this process.
        private func locks(_ path: String) throws -> [String] {
            let inode = try #require(try System.identity(ofFileAt: path)).inode
            return try String(contentsOfFile: "/proc/locks", encoding: .utf8).split(separator: "\n")
                .filter { $0.contains(":\(inode) ") && $0.contains(" \(getpid()) ") }
                .map { $0.split(separator: " ").dropFirst().joined(separator: " ") }.sorted()
        }

        /// (A database with a second name is not opened at all.)
        @Test(arguments: [("", true), ("-shm", true), ("-shm", false)])
        func locksStay(ending: String, isSymbolic: Bool) throws {
            let world = try OutboxWorld()
            let db = try world.open()
            try world.outbox().submit(AddEntry(text: "x"))
            let target = world.url.path + ending
            let name = try #require(CommandFileName(sender: "evil", epoch: 1, stream: 1, number: 1))
            let command = world.commands.appendingPathComponent("\(name)").path
            let snapshot = SnapshotFile<Int>(at: world.folder.file("snapshot"), as: "app")
            for path in [command, snapshot.url.path] {
                #expect((isSymbolic ? symlink(target, path) : link(target, path)) == 0)
            }
            try db.write { database in
                try database.execute(sql: "INSERT INTO entry (text) VALUES ('own')")
                let before = try locks(target)
                #expect(!before.isEmpty)
                let contents = try Outbox.contents(forDatabaseAt: world.url)
                #expect(contents.damaged.count == 1 && contents.waiting.count == 1)
                let expected = SnapshotFileError.databaseFile(path: snapshot.url.path, database: db.path)
                #expect(throws: expected) { try snapshot.read() }
                #expect(try locks(target) == before)
            }
            try world.rounds(db, .entries())()
            #expect(try db.texts() == ["own", "x"])
            #expect(world.files().isEmpty && world.files("damaged").count == 1)
        }
    }
#endif
