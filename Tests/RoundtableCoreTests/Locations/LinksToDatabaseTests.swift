import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableDiagnostics
@testable import RoundtableFiles

#if os(Linux)
    /// Names that lead to the database's own files, where files are opened by names that other users have given (rule G5).
    @Suite struct LinksToDatabaseTests {
        /// The locks that /proc/locks shows for a file, from this process.
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
                let contents = try CommandOutbox.contents(forDatabaseAt: world.url)
                #expect(contents.damaged.count == 1 && contents.waiting.count == 1)
                let expected = SnapshotFileError.databaseFile(path: snapshot.url.path, database: db.path)
                #expect(throws: expected) { try snapshot.read() }
                #expect(try locks(target) == before)
            }
            try world.rounds(db, .entries())()
            #expect(try db.texts() == ["own", "x"])
            #expect(world.files().isEmpty && world.files("damaged").count == 1)
        }

        /// The locks also stay when the control block's name is such a link: a process that looks at it, checks whether the block is in place, or
        /// joins, opens nothing of the database's.
        @Test(arguments: [("-shm", false), ("-shm", true), ("", true)])
        func locksStayBesideTheControlBlock(ending: String, isSymbolic: Bool) async throws {
            let world = try OutboxWorld()
            let db = try world.open()
            let observer = try world.open(as: "observer")
            let notifications = Shared(0)
            let observation = try observer.observeChanges(on: DispatchQueue(label: "notified")) { _ in
                notifications.change { $0 += 1 }
            }
            let target = world.url.path + ending
            let block = ControlBlock.path(forDatabaseAt: world.url.path)
            /// Readers come and go meanwhile; these locks stay.
            func expectLocks(writing: Bool) throws {
                let held = try locks(target)
                let ranges = ending == "" ? [] : ["128 128"] + (writing ? ["120 120"] : [])
                #expect(!held.isEmpty)
                for range in ranges { #expect(held.contains { $0.contains(range) }, "\(held)") }
            }
            #expect(unlink(block) == 0)
            #expect((isSymbolic ? symlink(target, block) : link(target, block)) == 0)
            // Observers look at the block's place 4 times a second, and so do writers.
            try await eventually("it is looked at") {
                try db.write { database in
                    try database.execute(sql: "INSERT INTO entry (text) VALUES ('own')")
                    try expectLocks(writing: true)
                    let state = try DatabaseStatus(ofDatabaseAt: world.url).controlBlock.state
                    #expect(state == .unreadable)
                    _ = LockHolder.find(databasePath: world.url.path, seat: nil)
                    _ = FileUsers(databasePath: world.url.path).names(writing: true)
                    try expectLocks(writing: true)
                }
                return db.uncoordinatedReason != nil
            }
            try expectLocks(writing: false)
            let late = try world.open(as: "late")
            #expect(late.uncoordinatedReason != nil)
            let count = notifications.value
            try await late.write { try $0.execute(sql: "INSERT INTO entry (text) VALUES ('late')") }
            try await eventually("it is notified") { notifications.value > count }
            try expectLocks(writing: false)
            observation.cancel()
            // The owner of the link removes it.
            #expect(unlink(block) == 0)
            try await eventually("they share a control block again") {
                try db.write { try $0.execute(sql: "INSERT INTO entry (text) VALUES ('own')") }
                return db.uncoordinatedReason == nil
            }
        }
    }
#endif
