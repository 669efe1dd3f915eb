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

    /// The folders of a follower, of the outbox and of recordings.
    extension SecurityFolderTests {
        // MARK: Following

        /// A folder of another user in the place of the follower's own one is left as it is, and named. So is a private folder of this user's
        /// own, to which another user has given that name.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make files of another user"), arguments: [65534, 0])
        func aPlantedFolderOfAFollower(owner: UInt32) throws {
            #expect(mkdir(folder.path("data/.app.db-following"), owner == 0 ? 0o700 : 0o755) == 0)
            try Data().write(to: folder.url.appendingPathComponent("data/.app.db-following/file"))
            #expect(chown(folder.path("data/.app.db-following"), owner, owner) == 0)
            let database = try FollowedDatabase(folder.path("data/app.db")) { _ in }
            #expect(throws: ToolError.self) { try database.makeFolder() }
            #expect(try names(in: "data/.app.db-following") == ["file"])
        }

        /// The follower copies no state while its folder is not where its name leads.
        @Test func theFolderOfAFollowerIsSwapped() throws {
            let database = try FollowedDatabase(folder.path("data/app.db")) { _ in }
            try ReplicaStatus.file(besideDatabaseAt: folder.path("data/app.db"))
                .write(ReplicaStatus(state: .starting, since: Date()))
            let staging = try database.makeFolder()
            #expect(rename(staging.path, folder.path("data/stolen")) == 0)
            #expect(symlink(folder.path("outside"), staging.path) == 0)
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            let state = try DatabaseQueue(path: folder.path("backup"))
            #expect(throws: ToolError.self) { try database.copy(from: state) }
            try state.close()
            #expect(throws: ToolError.self) { try database.removeFolder() }
            try expectUntouched(secret)
        }

        // MARK: The outbox

        private struct NoEnd: TravelEnding { let request = TravelRequest.none }

        private func outbox() throws -> OutboxFolder {
            let outbox = try OutboxFolder(at: folder.url.appendingPathComponent("data/app.db-outbox"))
            try outbox.make()
            return outbox
        }

        private func store(_ script: String, _ outbox: OutboxFolder) throws -> RcloneStore {
            let program = RcloneProgram(path: try install("rclone", script))
            return RcloneStore(program, try StoreURL(folder.path("store")), folder: outbox, ending: NoEnd())
        }

        /// A user who may write the outbox moves each private folder away, and puts a link in its place: rclone still reads the list of names, and
        /// writes what it downloads, in the folders of this process.
        @Test func theFolderOfADownloadIsSwapped() throws {
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            let outbox = try outbox()
            let store = try store(
                """
                cd '\(outbox.path)'
                for d in .arrivals.*.new; do mv "$d" "stolen$d"; ln -s '\(folder.path("outside"))' "$d"; done
                while [ "$1" != --files-from-raw ]; do shift; done
                names=$2
                for last; do :; done
                mkdir "$last/snapshots" && cp "$names" "$last/snapshots/1"
                """,
                outbox
            )
            try outbox.withArrivals { arrivals in
                try store.download(["snapshots/1"], into: arrivals)
                #expect(try arrivals.contents(ofFileAt: "snapshots/1", limit: 99) == Array("snapshots/1\n".utf8))
            }
            try expectUntouched(secret)
        }

        /// An outbox of another user, in a folder of this one, is not used, unless the option says so: its owner replaces what is in it.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make folders of another user"))
        func theOutboxOfAnotherUser() throws {
            #expect(mkdir(folder.path("data/app.db-outbox"), 0o755) == 0)
            #expect(chown(folder.path("data/app.db-outbox"), 65534, 65534) == 0)
            let rclone = try install("rclone", "echo 'rclone v1.60.1'")
            let reason = "data/app.db-outbox: is the folder of another user, \(FileOwner(user: 65534)), who can replace"
            for arguments in [["ship", "data/app.db", "--to"], ["collect", "data/app.db", "--from"]] {
                let command = ["outbox"] + arguments + [folder.path("store"), "--rclone", rclone, "--once"]
                let result = try Tool.run(command, in: folder)
                #expect(result.code == 1 && result.errors.contains(reason), "\(arguments): \(result.errors)")
                #expect(result.errors.contains("--into-others-folder"), "\(arguments): \(result.errors)")
                #expect(try names(in: "data/app.db-outbox").isEmpty, "\(arguments)")
                let trusting = try Tool.run(command + ["--into-others-folder"], in: folder)
                #expect(!trusting.errors.contains("folder of another user"), "\(arguments): \(trusting.errors)")
                for name in try names(in: "data/app.db-outbox") {
                    try FileManager.default.removeItem(atPath: folder.path("data/app.db-outbox/\(name)"))
                }
            }
        }

        /// Nothing is written to a name that another user can know before, and nothing is left.
        @Test func noNameIsPredictable() throws {
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            let outbox = try outbox()
            #expect(mkdir("\(outbox.path)/arrivals", 0o777) == 0)
            for name in ["names-1", "names-2", "snapshot"] {
                #expect(symlink(folder.path("outside/secret"), "\(outbox.path)/arrivals/\(name)") == 0)
            }
            let before = Set(try FileManager.default.subpathsOfDirectory(atPath: outbox.path))
            let store = try store("exit 0", outbox)
            try store.delete(["a"])
            try store.upload([1, 2, 3], as: "snapshots/1")
            try store.upload(["a"], from: outbox.open(.commands), to: "routes/x")
            #expect(Set(try FileManager.default.subpathsOfDirectory(atPath: outbox.path)) == before)
            try expectUntouched(secret)
        }

        /// What the collector and the shipper keep in folders of an outbox is not written through links in the places of these folders, nor are snapshot
        /// files in the folder that is to receive them.
        @Test(arguments: ["records", "status", "snapshots"])
        func theFolderOfSnapshotsIsSwapped(what: String) throws {
            let secret = try #require(FileManager.default.contents(atPath: folder.path("outside/secret")))
            let outbox = try outbox()
            let route = UUID()
            _ = try outbox.recordedRoutes()
            let received = folder.path("data/received")
            #expect(mkdir(received, 0o755) == 0)
            let copy = folder.path("copy")
            _ = try SnapshotFile<String>(at: URL(fileURLWithPath: copy), as: "owner").write("x") as SnapshotInfo
            let victim = what == "records" ? "\(outbox.path)/collected" : what == "status" ? outbox.path : received
            #expect(rename(victim, folder.path("away")) == 0 && symlink(folder.path("outside"), victim) == 0)
            #expect(throws: (any Error).self) {
                switch what {
                case "records":
                    _ = try TravelFile<RouteRecord>(at: outbox.recordPath(of: route), as: "collect").write(
                        RouteRecord(route: route)
                    )
                case "status":
                    let status = OutboxTravelStatus(.ship, store: "x", version: nil, at: Date())
                    _ = try OutboxTravelStatus.file(.ship, inOutboxAt: outbox.path).write(status) as SnapshotInfo
                default: try #require(try SnapshotCopy(at: copy, followsLinks: true)).put(at: "\(received)/state")
                }
            }
            try expectUntouched(secret)
        }

        /// What is uploaded as a list is the file of the outbox, and not what a link in its place leads to.
        @Test func aLinkIsNotUploaded() throws {
            let path = try outbox().path + "/ship.list"
            #expect(symlink(folder.path("outside/secret"), path) == 0)
            #expect(throws: SystemError.self) { try TravelFile<ShippedList>(at: path, as: "ship").bytes() }
        }

        /// A private folder of this user, to which another user has given the name of an abandoned one, stays.
        @Test func aPrivateFolderIsNoArrival() throws {
            let outbox = try outbox()
            let name = ".arrivals.\(Int32.max - 1)-1-\(ProcessIdentity.current.namespace)-1-1.new"
            #expect(mkdir("\(outbox.path)/\(name)", 0o700) == 0)
            try Data().write(to: URL(fileURLWithPath: "\(outbox.path)/\(name)/file"))
            try outbox.removeAbandonedArrivals()
            #expect(try names(in: "data/app.db-outbox/\(name)") == ["file"])
        }

        /// A user who may write the store does not write what a database beside the snapshot files obeys.
        @Test func aStoreDoesNotFenceADatabase() {
            let names = DatabaseCompanions.endings + ["-coord", "-coord4", "-coord12", "-outbox"]
            for name in names.flatMap({ ["local.db\($0)", "local.db\($0.uppercased())", $0] }) {
                #expect(!StoredSnapshot.isUsable(name), "\(name)")
                let snapshot = StoredSnapshot(number: 1, sum: 2, name: name)
                #expect(StoreObject(path: snapshot.path, size: 1).name == .other, "\(name)")
            }
            // What Roundtable puts beside a database is in the list.
            let database = "/x/local.db"
            let paths = [
                ReplicaStatus.file(besideDatabaseAt: database).url,
                ReplicationStatus.file(besideDatabaseAt: database).url,
                FenceStatus.file(besideDatabaseAt: database).url,
                URL(fileURLWithPath: ControlBlock.path(forDatabaseAt: database)),
            ]
            for path in paths { #expect(!StoredSnapshot.isUsable(path.lastPathComponent), "\(path)") }
            for ending in [FileSaltStore.suffix, TermRecord.suffix] {
                #expect(DatabaseCompanions.endings.contains(ending))
            }
            for name in ["board.v2.json", "local.db", "wal", "a-wal.snapshot", "a-coord4.x", "replica"] {
                let snapshot = StoredSnapshot(number: 1, sum: 2, name: name)
                #expect(StoreObject(path: snapshot.path, size: 1).name == .snapshot(snapshot), "\(name)")
            }
        }

        /// The owner of the folder puts a link to another one in its place, before each call that replaces a report. The superuser gives away
        /// nothing there.
        @Test(.enabled(if: OtherUser.isPossible, "only the superuser gives files away"))
        func theFolderOfAReportIsSwapped() throws {
            let report = ReplicaStatus(state: .starting, since: Date())
            let file = ReplicaStatus.file(besideDatabaseAt: folder.path("data/app.db"))
            var number = 0
            while true {
                number += 1
                for name in ["data", "away", "outside"] {
                    try? FileManager.default.removeItem(atPath: folder.path(name))
                }
                for name in ["data", "outside"] { #expect(mkdir(folder.path(name), 0o755) == 0) }
                try file.write(report)
                #expect(chown(file.url.path, 65534, 65534) == 0)
                let (home, away, outside) = (folder.path("data"), folder.path("away"), folder.path("outside"))
                let count = Mutex(0)
                let last = number
                System.withInterposed { _ in
                    let current = count.withLock { count in
                        count += 1
                        return count
                    }
                    if current == last, rename(home, away) == 0 { symlink(outside, home) }
                } _: {
                    // Each error is right, and so is none.
                    _ = try? file.write(report)
                }
                for name in try names(in: "outside") {
                    #expect(try status("outside/\(name)")?.st_uid == 0, "\(name), call \(number)")
                }
                if count.withLock({ $0 }) < number { break }
            }
            #expect(number >= 5)
            // Where nothing is swapped, the report stays the owner's.
            #expect(try status("data/app.db-replica")?.st_uid == 65534)
        }

        // MARK: Recording

        /// The owner of a planted file could read what is recorded into it.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make files of another user"))
        func aPlantedRecording() throws {
            let path = folder.path("data/recording")
            try Data().write(to: URL(fileURLWithPath: path))
            #expect(chown(path, 65534, 65534) == 0)
            #expect(throws: ToolError.self) { try RecordingFile(path: path, header: "{}\n", keep: 1) }
            #expect(try status("data/recording")?.st_size == 0)
        }
    }
#endif
