#if os(Linux)
    import Foundation
    import GRDB
    import RoundtableCore
    import RoundtableDiagnostics
    import RoundtableFiles
    import RoundtableKernel
    import RoundtableTestSupport
    import Synchronization
    import Testing

    @testable import RoundtableTool
    @testable import RoundtableReplication
    @testable import RoundtableToolSupport

    /// What a user who may write a folder can make a command do that works there as another user, such as the superuser
    /// (`docs/SECURITY.md`). The programs that the commands run are scripts, which play that user at the worst moments.
    @Suite struct SecurityFolderTests {
        let folder: Folder

        init() throws {
            folder = try Folder()
            #expect(chmod(folder.url.path, 0o755) == 0)
            for name in ["data", "outside"] { #expect(mkdir(folder.path(name), 0o755) == 0) }
            try makeDatabase("backup", 7)
            // What a link leads to is a whole database, so that no check refuses it.
            try makeDatabase("outside/secret", 8)
            #expect(chmod(folder.path("outside/secret"), 0o600) == 0)
        }

        func makeDatabase(_ name: String, _ number: Int) throws {
            let queue = try DatabaseQueue(path: folder.path(name))
            try queue.write { db in
                try db.execute(sql: "CREATE TABLE t(x); INSERT INTO t VALUES (?)", arguments: [number])
            }
            try queue.close()
        }

        func status(_ name: String) throws -> FileStatus? { try System.statusOfLink(at: folder.path(name)) }
        func names(in name: String) throws -> Set<String> {
            Set(try FileManager.default.contentsOfDirectory(atPath: folder.path(name)))
        }

        /// - Parameters:
        ///   - secret: what "outside/secret" was before.
        func expectUntouched(_ secret: Data) throws {
            #expect(try names(in: "outside") == ["secret"])
            let found = try #require(try status("outside/secret"))
            #expect(found.st_mode & 0o7777 == 0o600 && found.st_uid == geteuid())
            #expect(FileManager.default.contents(atPath: folder.path("outside/secret")) == secret)
        }

        func install(_ program: String, _ script: String) throws -> String {
            try "#!/bin/sh\n\(script)\n".write(toFile: folder.path(program), atomically: true, encoding: .utf8)
            #expect(chmod(folder.path(program), 0o755) == 0)
            return folder.path(program)
        }

        /// - parameter attack: what happens after Litestream has restored into `$out`.
        func installLitestream(_ attack: String = "") throws -> String {
            try install(
                "litestream",
                """
                case "$*" in version) echo 0.5.17; exit;; replicate*) exit;; esac
                for last; do out=$last; done
                case "$out" in */claim) echo 'Error: no matching backup files available' >&2; exit 1;; esac
                case "$*" in
                    *-dry-run*) echo '{"max_txid":"000000000000001f","files":[{"size":100,"timestamp":"2026-11-23T17:29:21Z"}]}';;
                    *) cp '\(folder.path("backup"))' "$out"
                       cd '\(folder.path("data"))'
                       \(attack)
                       echo '{"time":"x","level":"DEBUG","msg":"restore plan","txid":"000000000000001f","timestamp":"2026-11-23T17:29:21.381Z"}' >&2;;
                esac
                """
            )
        }

        func restore(_ litestream: String, _ arguments: String...) throws -> Tool.Result {
            try Tool.run(
                ["restore", "s3://bucket/db", "data/app.db", "--litestream", litestream] + arguments,
                in: folder
            )
        }

        // MARK: Restoring

        /// The folder in which a database is restored is moved away, and one with a link to another user's file has its name: the file gets
        /// neither another mode nor another owner, and the link does not become the database.
        @Test(arguments: ["symlink", "hard link"])
        func theFolderIsSwapped(kind: String) throws {
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            try makeDatabase("data/app.db", 1)
            #expect(chmod(folder.path("data/app.db"), 0o660) == 0)
            let link = kind == "symlink" ? "ln -s" : "ln"
            let litestream = try installLitestream(
                """
                for d in .app.db-restore.*.new; do
                    mv "$d" stolen; mkdir "$d"; \(link) '\(folder.path("outside/secret"))' "$d/database"
                done
                """
            )
            let result = try restore(litestream, "--replace")
            #expect(result.code == 1)
            #expect(result.errors.contains("another user has moved it away"), "\(result.errors)")
            try expectUntouched(secret)
            // The database is the one that was there, and the restored one is removed with its content.
            #expect(try names(in: "data/stolen").isEmpty)
            #expect(try #require(try status("data/app.db")).st_mode & 0o777 == 0o660)
        }

        /// Litestream writes into the folder that this process has created, and not into what has its name by then.
        @Test func theFolderIsSwappedBeforeLitestreamWrites() throws {
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            let litestream = try installLitestream(
                """
                for d in .app.db-restore.*.new; do mv "$d" stolen; ln -s '\(folder.path("outside"))' "$d"; done
                cp '\(folder.path("backup"))' "$out.again"
                ls stolen > '\(folder.path("seen"))'
                """
            )
            #expect(try restore(litestream).code == 1)
            #expect(try String(contentsOfFile: folder.path("seen"), encoding: .utf8) == "database\ndatabase.again\n")
            try expectUntouched(secret)
        }

        /// Before each call that puts a restored database in its place, and the old one out of it, something is moved away, and a link has its name.
        @Test(arguments: ["staging folder", "app.db", "app.db-wal"])
        func somethingIsSwappedAtEachCall(what: String) throws {
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            var (number, swapped) = (0, 0)
            while true {
                number += 1
                try FileManager.default.removeItem(atPath: folder.path("data"))
                #expect(mkdir(folder.path("data"), 0o755) == 0)
                try makeDatabase("data/app.db", 1)
                #expect(chmod(folder.path("data/app.db"), 0o660) == 0)
                try Data([1]).write(to: folder.url.appendingPathComponent("data/app.db-wal"))
                let target = try RestoreTarget(folder.path("data/app.db")) { _ in }
                let staging = try target.makeStagingFolder()
                // The restored file has the name of the file that is not to be touched.
                try FileManager.default.copyItem(atPath: folder.path("backup"), toPath: "\(staging.path)/secret")
                let isFolder = what == "staging folder"
                let (victim, away) = (isFolder ? staging.path : folder.path("data/\(what)"), folder.path("data/away"))
                let link = folder.path(isFolder ? "outside" : "outside/secret")
                let count = Mutex(0)
                let last = number
                System.withInterposed { _ in
                    let current = count.withLock { count in
                        count += 1
                        return count
                    }
                    guard current == last else { return }
                    if rename(victim, away) == 0 { symlink(link, victim) }
                } _: {
                    do {
                        try target.finish("secret", in: staging)
                        _ = try target.setAside()
                        try target.place("secret", from: staging)
                    } catch {
                        // Each error is right, and so is none.
                    }
                    staging.remove()
                    try? target.removeAbandoned()
                }
                try expectUntouched(secret)
                if try status("data/away") != nil { swapped += 1 }
                if count.withLock({ $0 }) < number { break }
            }
            #expect(swapped >= 5, "\(what) was swapped at \(swapped) of \(number) calls")
        }

        /// A folder with the name of an abandoned one is not removed if another user has planted it, because what is in it could be swapped
        /// meanwhile; nor if it is a private folder of this user's own, to which another user has given that name.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make files of another user"), arguments: [65534, 0])
        func aPlantedFolderStays(owner: UInt32) throws {
            let own = ProcessIdentity.current
            let planted = ".app.db-restore.\(Int32.max - 1)-1-\(own.namespace)-1-1.new"
            #expect(mkdir(folder.path("data/\(planted)"), owner == 0 ? 0o700 : 0o755) == 0)
            try Data().write(to: folder.url.appendingPathComponent("data/\(planted)/file"))
            #expect(chown(folder.path("data/\(planted)"), owner, owner) == 0)
            let result = try restore(try installLitestream())
            #expect(result.code == 0, "\(result.errors)")
            #expect(try names(in: "data") == ["app.db", planted] && names(in: "data/\(planted)") == ["file"])
        }

        /// In the folder of another user, nothing is begun, unless the option says so.
        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to make folders of another user"),
            arguments: [
                (65534, 65534, 0o755, "is the folder of another user, \(FileOwner(user: 65534)), who can"),
                (0, 100, 0o775, "is a folder that other users may write (owner 0, group 100 and mode 775)"),
            ] as [(UInt32, UInt32, mode_t, String)]
        )
        func theFolderOfAnotherUser(owner: UInt32, group: UInt32, mode: mode_t, message: String) throws {
            #expect(chown(folder.path("data"), owner, group) == 0 && chmod(folder.path("data"), mode) == 0)
            let litestream = try installLitestream()
            let rclone = try install("rclone", "echo 'rclone v1.60.1'")
            for arguments in [
                ["restore", "s3://bucket/db", "data/app.db", "--litestream", litestream],
                ["promote", "s3://bucket/db", "data/app.db", "--litestream", litestream],
                ["follow", "s3://bucket/db", "data/app.db", "--litestream", litestream],
                ["outbox", "ship", "data/app.db", "--to", folder.path("store"), "--rclone", rclone, "--once"],
                ["outbox", "collect", "data/app.db", "--from", folder.path("store"), "--rclone", rclone, "--once"],
                ["replicate", "data/app.db", "--to", "s3://bucket/db", "--litestream", litestream],
                ["replace", "data/app.db", "--with", "backup"],
            ] {
                let result = try Tool.run(arguments, in: folder)
                #expect(result.code == 1, "\(arguments)")
                #expect(result.errors.contains(message), "\(arguments): \(result.errors)")
                #expect(result.errors.contains("--into-others-folder"), "\(arguments): \(result.errors)")
                #expect(try names(in: "data").isEmpty, "\(arguments)")
            }
            let result = try restore(litestream, "--into-others-folder")
            #expect(result.code == 0, "\(result.errors)")
            #expect(try names(in: "data") == ["app.db"])
            let restored = try #require(try status("data/app.db"))
            #expect(restored.st_uid == owner && restored.st_gid == group)
        }

        /// The owner of a database can still open it after root has moved it away.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make files of another user"))
        func theReplacedDatabaseStaysItsOwners() throws {
            try makeDatabase("data/app.db", 1)
            for name in ["data", "data/app.db"] { #expect(chown(folder.path(name), 65534, 65533) == 0) }
            #expect(chmod(folder.path("data/app.db"), 0o660) == 0)
            let result = try restore(try installLitestream(), "--replace", "--into-others-folder")
            #expect(result.code == 0, "\(result.errors)")
            let aside = try #require(try names(in: "data").first { $0.hasPrefix("app.db-replaced-") })
            let found = try #require(try status("data/\(aside)"))
            #expect(found.st_uid == 65534 && found.st_gid == 65533 && found.st_mode & 0o7777 == 0o770)
        }

        /// In a folder such as /tmp, a user who creates the database first does not choose who may read what is restored.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make files of another user"))
        func aPlantedDatabase() throws {
            #expect(chmod(folder.path("data"), 0o1777) == 0)
            try makeDatabase("data/app.db", 1)
            #expect(chown(folder.path("data/app.db"), 65534, 65534) == 0)
            let litestream = try installLitestream()
            let result = try restore(litestream, "--replace")
            #expect(result.code == 1)
            let owner = "belongs to another user, \(FileOwner(user: 65534)), who"
            #expect(result.errors.contains(owner), "\(result.errors)")
            #expect(try names(in: "data") == ["app.db"])
            #expect(chown(folder.path("data/app.db"), 0, 0) == 0)
            #expect(try restore(litestream, "--replace").code == 0)
        }

        /// Each call fails once while a database is moved away. All that was there is there again, and nothing else.
        @Test(arguments: [SystemCall.rename, .link, .unlink, .fsync, .open])
        func aDatabaseThatCannotBeMovedComesBack(call: SystemCall) throws {
            let contents = ["app.db": 1, "app.db-wal": 2, "app.db-journal": 3, "app.db-salt": 4, "app.db-coord5": 5]
            var failures = 0
            for skipped in 0..<12 {
                try FileManager.default.removeItem(atPath: folder.path("data"))
                #expect(mkdir(folder.path("data"), 0o755) == 0)
                for (name, byte) in contents {
                    try Data([UInt8(byte)]).write(to: folder.url.appendingPathComponent("data/\(name)"))
                }
                let target = try RestoreTarget(folder.path("data/app.db")) { _ in }
                do {
                    try System.withFaults([Fault(call, errno: EPERM, skipping: skipped, times: 1)]) {
                        _ = try target.setAside()
                    }
                } catch {
                    failures += 1
                    #expect(try names(in: "data") == Set(contents.keys), "\(call) \(skipped): \(error)")
                    for (name, byte) in contents {
                        let path = folder.path("data/\(name)")
                        #expect(FileManager.default.contents(atPath: path) == Data([UInt8(byte)]))
                        #expect(try status("data/\(name)")?.st_nlink == 1)
                    }
                }
            }
            // Without a second name, a journal moves as the other files do.
            #expect(failures > 0 || call == .link, "\(call)")
        }

        /// In a sticky folder, the file of a stranger stays where it is, and does not prevent a database from being replaced.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to become another user"))
        func theFileOfAStrangerStays() throws {
            #expect(chmod(folder.path("data"), 0o1777) == 0)
            try makeDatabase("data/app.db", 1)
            try Data([2]).write(to: folder.url.appendingPathComponent("data/app.db-salt"))
            try Data().write(to: folder.url.appendingPathComponent("data/app.db-coord3"))
            for name in ["app.db", "app.db-salt"] { #expect(chown(folder.path("data/\(name)"), 65534, 65534) == 0) }
            #expect(chown(folder.path("data/app.db-coord3"), 65533, 65533) == 0)
            let path = folder.path("data/app.db")
            let aside = try OtherUser.runBlocking {
                let target = try RestoreTarget(path) { _ in }
                try target.checkMoving()
                #expect(try target.kept() == ["app.db-coord3"])
                return try target.setAside()
            }
            let name = (try #require(aside) as NSString).lastPathComponent
            #expect(try names(in: "data") == [name, "app.db-coord3"])
            #expect(try names(in: "data/\(name)") == ["app.db", "app.db-salt"])
        }

        /// A database is not moved if a stranger's file stays that SQLite would use with the restored one.
        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to become another user"),
            arguments: ["", "-wal", "-shm", "-journal"]
        )
        func theJournalOfAStrangerIsRefused(ending: String) throws {
            #expect(chmod(folder.path("data"), 0o1777) == 0)
            try makeDatabase("data/app.db", 1)
            #expect(chown(folder.path("data/app.db"), 65534, 65534) == 0)
            if !ending.isEmpty { try Data().write(to: folder.url.appendingPathComponent("data/app.db\(ending)")) }
            #expect(chown(folder.path("data/app.db\(ending)"), 65533, 65533) == 0)
            let path = folder.path("data/app.db")
            let error = try OtherUser.runBlocking {
                #expect(throws: ToolError.self) { try RestoreTarget(path) { _ in }.check(isReplacing: true) }
            }
            let text = "data/app.db\(ending): belongs to another user, 65533, and nobody else may move it"
            #expect(error?.description.contains(text) == true, "\(String(describing: error))")
        }

        /// A promotion by the superuser into the replica of another user, who has given the name of the claims to the superuser's private folder.
        /// It begins only if that user is trusted, and does not give the folder away even then.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make folders of another user"))
        func aPromotionGivesNoPrivateFolderAway() throws {
            let (replica, place) = (folder.path("replica"), folder.path("replica/roundtable"))
            #expect(mkdir(replica, 0o755) == 0 && mkdir(place, 0o700) == 0 && chown(replica, 65534, 65534) == 0)
            try Data().write(to: URL(fileURLWithPath: place + "/key"))
            let litestream = try installLitestream()
            for (arguments, message) in [
                ([], "is the folder of another user, "),
                (["--into-others-folder"], "belongs to root, and the replica to another user, 65534"),
            ] as [([String], String)] {
                let result = try Tool.run(
                    ["promote", "file://\(replica)", "data/app.db", "--litestream", litestream] + arguments,
                    in: folder
                )
                #expect(result.code == 1)
                #expect(result.errors.contains(message), "\(result.errors)")
                #expect(try status("replica/roundtable")?.st_uid == 0 && names(in: "replica/roundtable") == ["key"])
                #expect(try status("replica/roundtable/key")?.st_uid == 0)
                #expect(try names(in: "data").isEmpty)
            }
        }

        /// A stranger's link in a folder such as /tmp would decide what is written, and a link in his folder, too. The system follows a link of
        /// the own user, and of the superuser, and so does the tool.
        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to make files of another user"),
            arguments: ["link.db", "link/new.db", "chain.db", "stranger/link.db"]
        )
        func aPlantedLink(path: String) throws {
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            #expect(chmod(folder.path("data"), 0o1777) == 0)
            #expect(mkdir(folder.path("data/stranger"), 0o755) == 0)
            #expect(chown(folder.path("data/stranger"), 65534, 65534) == 0)
            let links = [
                "link.db": folder.path("outside/secret"), "link": "../outside",
                "stranger/link.db": "../../outside/secret",
            ]
            for (name, target) in links {
                #expect(symlink(target, folder.path("data/\(name)")) == 0)
                #expect(lchown(folder.path("data/\(name)"), 65534, 65534) == 0)
            }
            #expect(symlink("link.db", folder.path("data/chain.db")) == 0)
            let litestream = try installLitestream()
            let rclone = try install("rclone", "echo 'rclone v1.60.1'")
            let program = ["--litestream", litestream]
            for arguments in [
                ["restore", "s3://bucket/db", "data/\(path)", "--replace"] + program,
                ["restore", "s3://bucket/db", "data/\(path)"] + program,
                ["promote", "s3://bucket/db", "data/\(path)", "--replace"] + program,
                ["follow", "s3://bucket/db", "data/\(path)"] + program,
                ["replicate", "data/\(path)", "--to", "s3://bucket/db"] + program,
                ["replace", "data/\(path)", "--with", "backup"],
                ["outbox", "ship", "data/\(path)", "--to", folder.path("store"), "--rclone", rclone, "--once"],
            ] {
                let result = try Tool.run(arguments, in: folder)
                #expect(result.code == 1, "\(arguments)")
                let reason =
                    path.hasPrefix("stranger")
                    ? "is the folder of another user" : "is a symbolic link of another user, 65534"
                #expect(result.errors.contains(reason), "\(arguments): \(result.errors)")
                #expect(result.errors.contains("--into-others-folder"), "\(arguments): \(result.errors)")
                try expectUntouched(secret)
            }
        }

        /// Links of this user are followed, to a database that is not there yet and to one that is.
        @Test(arguments: [false, true]) func anOwnLinkIsFollowed(isThere: Bool) throws {
            #expect(chmod(folder.path("data"), 0o1777) == 0)
            if isThere { try makeDatabase("outside/app.db", 1) }
            #expect(symlink("../outside", folder.path("data/folder")) == 0)
            #expect(symlink("folder/app.db", folder.path("data/app.db")) == 0)
            let result = try restore(try installLitestream(), "--replace")
            #expect(result.code == 0, "\(result.errors)")
            #expect(
                try #require(try status("outside/app.db")).isRegularFile
                    && status("data/app.db")?.isSymbolicLink == true
            )
        }

        /// A link that is planted after the path was resolved is not followed.
        @Test func aLinkIsPlantedMeanwhile() throws {
            try makeDatabase("data/victim.db", 1)
            let litestream = try installLitestream("ln -s victim.db app.db")
            let result = try restore(litestream, "--replace")
            #expect(result.code == 1 && result.errors.contains("since the restore has begun"), "\(result.errors)")
            #expect(try names(in: "data") == ["app.db", "victim.db"])
        }

        /// A stranger's report in a folder such as /tmp, which names a follower that lives for ever, prevents no restore. The follower of
        /// another user in a folder that both may write does.
        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to make files of another user"),
            arguments: [(0o1777, 65534, false), (0o1777, 0, true), (0o755, 0, true)] as [(mode_t, UInt32, Bool)]
        )
        func aPlantedReport(mode: mode_t, owner: UInt32, isBelieved: Bool) throws {
            #expect(chmod(folder.path("data"), mode) == 0)
            try makeDatabase("data/app.db", 1)
            var report = ReplicaStatus(state: .starting, since: Date())
            // It lives as long as this test.
            report.identity = .current
            let file = ReplicaStatus.file(besideDatabaseAt: folder.path("data/app.db"))
            try file.write(report)
            #expect(chown(file.url.path, owner, owner) == 0)
            let result = try restore(try installLitestream(), "--replace")
            #expect(result.code == (isBelieved ? 1 : 0), "\(result.errors)")
            #expect(result.errors.contains("is in use by 'follow'") == isBelieved, "\(result.errors)")
        }
    }
#endif
