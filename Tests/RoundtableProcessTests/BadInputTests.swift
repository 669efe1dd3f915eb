import Foundation
import RoundtableKernel
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// What cannot be opened gives one clear error, and leaves the folder as it was (rules S6, W5, L2).
    @Suite struct BadInput {
        /// Opens `url` in a new peer; expects an error with all of these texts in it, and no change in the folder.
        private func expectRefusal(
            _ fleet: PeerFleet,
            at url: URL? = nil,
            schema: PeerSchema = PeerSchema(),
            faults: [Fault] = [],
            user: UInt32? = nil,
            code: Int32? = nil,
            saying texts: String...,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let url = url ?? fleet.database
            // The wal-index is SQLite's scratch memory: each reader leaves marks there.
            let ignored = ["-shm"]
            let before = try FolderContents(of: fleet.databaseFolder, ignoring: ignored)
            let peer = try fleet.spawn(user: user)
            try peer.call(.inject(faults))
            let reply = try peer.attempt(.open(fleet.opening(peer, at: url, schema: schema)))
            let message = reply.message ?? ""
            print("refused: \(message)")
            #expect(reply.outcome == .failed, sourceLocation: sourceLocation)
            if let code { #expect((reply.code ?? 0) & 0xFF == code, "\(message)", sourceLocation: sourceLocation) }
            for text in texts + [url.path] {
                #expect(message.contains(text), "'\(text)' in: \(message)", sourceLocation: sourceLocation)
            }
            #expect(!message.contains("\n"), "one line: \(message)", sourceLocation: sourceLocation)
            let after = try FolderContents(of: fleet.databaseFolder, ignoring: ignored)
            #expect(after.differences(from: before) == [], sourceLocation: sourceLocation)
        }

        @Test(.timeLimit(.minutes(1)))
        func folder() throws {
            try PeerFleet.run { fleet in
                let url = fleet.database(named: "folder")
                try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
                try expectRefusal(fleet, at: url, saying: "is a folder")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func missingFolder() throws {
            try PeerFleet.run { fleet in
                let url = fleet.database(named: "missing/shared.sqlite")
                try expectRefusal(fleet, at: url, saying: "does not exist")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func notADatabase() throws {
            try PeerFleet.run { fleet in
                try Data(repeating: 0x41, count: 10_000).write(to: fleet.database)
                // SQLITE_NOTADB.
                try expectRefusal(fleet, code: 26, saying: "is not a SQLite database")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func networkFileSystem() throws {
            try PeerFleet.run { fleet in
                // The magic number of NFS.
                let fault = Fault(.statfs, returning: 0x6969)
                try expectRefusal(fleet, faults: [fault], saying: "on a network file system (NFS)")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func newerSchema() throws {
            try PeerFleet.run { fleet in
                let newer = try fleet.spawn("newer")
                try newer.call(.open(fleet.opening(newer, schema: PeerSchema(migrations: 3))))
                try newer.call(.write(rows: 1))
                try newer.call(.close)
                try expectRefusal(fleet, saying: "is newer than this program", "'v2', 'v3'", "Update this program")
                // Also with the newer one at work.
                try newer.call(.open(fleet.opening(newer, schema: PeerSchema(migrations: 3))))
                let older = try fleet.spawn("older")
                let reply = try older.attempt(.open(fleet.opening(older)))
                #expect(reply.message?.contains("is newer than this program") == true)
                #expect(try newer.call(.count).number == 1)
            }
        }

        /// Nor is the journal mode of a newer database changed.
        @Test(.timeLimit(.minutes(1)))
        func newerSchemaInRollbackJournal() throws {
            try PeerFleet.run { fleet in
                try makeDatabase(at: fleet.database, PeerSchema(migrations: 2))
                try expectRefusal(fleet, saying: "is newer than this program", "'v2'")
            }
        }

        @Test(
            .timeLimit(.minutes(1)),
            .enabled(if: isSuperuser, "only the superuser can start a process as another user"),
            arguments: [false, true]
        )
        func noPermission(exists: Bool) throws {
            try PeerFleet.run { fleet in
                if exists { try makeDatabase(at: fleet.database, PeerSchema(migrations: 1)) }
                chmod(fleet.databaseFolder.path, 0o755)
                // SQLITE_CANTOPEN, or SQLITE_READONLY for a file that is there.
                try expectRefusal(fleet, user: nobody, code: exists ? 8 : 14, saying: exists ? "written" : "permission")
            }
        }

        @Test(
            .timeLimit(.minutes(1)),
            .enabled(if: isSuperuser, "only the superuser can start a process as another user")
        )
        func unreadable() throws {
            try PeerFleet.run { fleet in
                try makeDatabase(at: fleet.database, PeerSchema())
                chmod(fleet.database.path, 0o600)
                try expectRefusal(fleet, user: nobody, code: 14, saying: "permission")
            }
        }

        /// A full disk: an error that says so, no half-made database for the next process, and no row lost that was
        /// acknowledged (rules B1, S5; DESIGN rule 6).
        @Test(.timeLimit(.minutes(1)), .enabled(if: SmallDisk.isPossible, "a small file system cannot be mounted here"))
        func fullDisk() throws {
            try PeerFleet.run { fleet in
                let disk = try SmallDisk(at: fleet.folder.appendingPathComponent("disk"), kibibytes: 512)
                defer { disk.unmount() }
                let url = disk.folder.appendingPathComponent("shared.sqlite")

                // No room from the start.
                try disk.fill()
                let early = try fleet.spawn("early")
                let reply = try early.attempt(.open(fleet.opening(early, at: url)))
                print("full disk: \(reply.message ?? "")")
                #expect(reply.outcome == .failed)
                // SQLITE_FULL.
                #expect((reply.code ?? 0) & 0xFF == 13)
                #expect(reply.message?.contains("full") == true)
                #expect(reply.message?.contains(url.path) == true)

                // There is room again: the next process makes the database. Then it fills the disk.
                disk.empty()
                try early.call(.open(fleet.opening(early, at: url)))
                var full: PeerReply?
                for _ in 0..<10_000 where full == nil {
                    let reply = try early.attempt(.write(rows: 20))
                    if reply.outcome == .failed { full = reply }
                }
                #expect((full?.code ?? 0) & 0xFF == 13, "\(full?.message ?? "no error")")
                #expect(early.acknowledged > 0)
                try early.call(.close)
                try Ledger(of: url).expectEverything(acknowledgedBy: [early])
            }
        }
    }
}

/// A file system in memory, with little room.
private struct SmallDisk {
    let folder: URL

    static var isPossible: Bool {
        guard isSuperuser, FileManager.default.isExecutableFile(atPath: "/usr/bin/mount") else { return false }
        let probe = FileManager.default.temporaryDirectory.appendingPathComponent("roundtable-probe-\(getpid())")
        guard let disk = try? SmallDisk(at: probe, kibibytes: 64) else { return false }
        disk.unmount()
        return true
    }

    init(at folder: URL, kibibytes: Int) throws {
        self.folder = folder
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let options = ["-t", "tmpfs", "-o", "size=\(kibibytes)k,mode=777", "tmpfs", folder.path]
        guard try Self.run("/usr/bin/mount", options) == .status(0) else {
            rmdir(folder.path)
            throw TestKitError("cannot mount \(folder.path)")
        }
    }

    func unmount() {
        _ = try? Self.run("/usr/bin/umount", [folder.path])
        rmdir(folder.path)
    }

    private var filler: URL { folder.appendingPathComponent("filler") }

    func fill() throws {
        let descriptor = open(filler.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { throw TestKitError("open \(filler.path): errno \(errno)") }
        defer { close(descriptor) }
        let page = [UInt8](repeating: 1, count: 4096)
        while write(descriptor, page, page.count) > 0 {}
    }

    func empty() { unlink(filler.path) }

    private static func run(_ program: String, _ arguments: [String]) throws -> ChildProcess.Exit {
        let process = try ChildProcess(
            executable: URL(fileURLWithPath: program),
            arguments: arguments,
            errorOutput: URL(fileURLWithPath: "/dev/null")
        )
        return try process.waitForExit()
    }
}
