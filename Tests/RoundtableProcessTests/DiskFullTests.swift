#if os(Linux)
    import Foundation
    import Glibc
    import GRDB
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Synchronization
    import Testing

    extension ProcessTests {
        /// A file system that is really full: errors of the right type, what was there is intact, nothing is left behind, and what was refused works
        /// as soon as there is space.
        @Suite(.serialized, .enabled(if: SmallVolume.isSupported, "mounting a tmpfs needs the superuser"))
        struct DiskFull {
            /// Larger than what is left of a full volume.
            private struct Entry: OutboxCommand {
                static let name = "large entry"
                static let version = 1
                var n: Int
                var text: String

                init(_ n: Int, size: Int = 20_000) {
                    self.n = n
                    text = String(repeating: "x", count: size)
                }
            }

            private static let handlers: OutboxHandlers = {
                var handlers = OutboxHandlers()
                handlers.handle(Entry.self) { db, entry in
                    try db.execute(sql: "INSERT INTO applied (sender, n) VALUES (1, ?)", arguments: [entry.n])
                    try db.execute(sql: "INSERT INTO ballast VALUES (?)", arguments: [entry.text])
                }
                return handlers
            }()

            private static let schema: SharedSchema = {
                var migrator = DatabaseMigrator()
                migrator.registerMigration("applied") { db in
                    try db.execute(
                        sql: """
                            CREATE TABLE applied (id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, n INTEGER NOT NULL);
                            CREATE TABLE ballast (text TEXT NOT NULL);
                            """
                    )
                }
                return SharedSchema(migrator)
            }()

            private func open(
                _ url: URL,
                onEvent: (@Sendable (SharedDatabase.Event) -> Void)? = nil
            ) throws -> SharedDatabase {
                var options = SharedDatabase.Options()
                options.onEvent = onEvent
                return try SharedDatabase.open(at: url, schema: Self.schema, as: "owner", options: options)
            }

            private func names(_ folder: URL) throws -> [String] {
                try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            }

            /// A statement that fills the folder of temporary files names that folder, and not the database's, which has space.
            @Test(.timeLimit(.minutes(1))) func temporaryFiles() throws {
                try PeerFleet.run { fleet in
                    let volume = try SmallVolume(fleet)
                    defer { volume.unmount() }
                    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)"
                    let sort = "SELECT count(*) FROM (SELECT a FROM t ORDER BY a || rowid)"
                    func run(_ sql: String, in folder: URL) throws -> (isDone: Bool, errors: String) {
                        let path = fleet.database.path
                        let process = try fleet.spawn(
                            program: PeerFleet.program(named: "roundtable"),
                            arguments: ["sql", path, sql],
                            environment: ["SQLITE_TMPDIR": folder.path]
                        )
                        let status = try process.waitForExit(within: .seconds(30))
                        return (status == .status(0), process.errorText)
                    }
                    let script = "CREATE TABLE t (a); \(rows) INSERT INTO t SELECT zeroblob(1000000) FROM n"
                    #expect(try run(script, in: fleet.folder).isDone)
                    let refused = try run(sort, in: volume.folder)
                    #expect(!refused.isDone)
                    let folder = System.resolvedPath(volume.folder.path)
                    for part in ["full: the folder of SQLite's temporary files, \(folder), has", "SQLITE_TMPDIR"] {
                        #expect(refused.errors.contains(part), "\(refused.errors)")
                    }
                    #expect(try run(sort, in: fleet.folder).isDone)
                }
            }

            /// - parameter left: how much is free when it is submitted and written: nothing, or enough for a part of it.
            @Test(.timeLimit(.minutes(1)), arguments: [0, 4096, 16384], [true, false])
            func submittingAndPublishing(left: Int, isDurable: Bool) throws {
                try PeerFleet.run { fleet in
                    let volume = try SmallVolume(fleet)
                    defer { volume.unmount() }
                    let url = volume.folder.appendingPathComponent("shared.sqlite")
                    var options = CommandOutbox.Options()
                    options.durability = isDurable ? .machine : .process
                    let outbox = try CommandOutbox(forDatabaseAt: url, as: "widget", options: options)
                    var snapshotOptions = SnapshotFileOptions()
                    snapshotOptions.durability = isDurable ? .machine : .process
                    let folder = volume.folder.appendingPathComponent("snapshots")
                    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
                    let state = folder.appendingPathComponent("state")
                    let file = SnapshotFile<PeerSnapshotValue>(at: state, as: "app", options: snapshotOptions)
                    let old = PeerSnapshotValue(number: 1, size: 20_000)
                    let new = PeerSnapshotValue(number: 2, size: 30_000)
                    try outbox.submit(Entry(1))
                    try file.write(old)

                    try volume.fill(butFor: left)
                    for _ in 0..<3 {
                        #expect {
                            try outbox.submit(Entry(2))
                        } throws: { error in
                            if case OutboxError.file(_, .diskFull) = error {
                                "\(error)".contains("Free space")
                            } else {
                                false
                            }
                        }
                        #expect(throws: SnapshotFileError.file(path: state.path, .diskFull)) { try file.write(new) }
                        #expect(try file.read().value == old)
                    }
                    let beside = URL(fileURLWithPath: url.path + "-outbox")
                    #expect(try names(beside.appendingPathComponent("new")).isEmpty)
                    #expect(try names(beside.appendingPathComponent("commands")).count == 1)
                    #expect(try names(folder) == ["state"])
                    // Asking takes a file, too.
                    if left == 0 {
                        let id = try #require(try CommandOutbox.contents(forDatabaseAt: url).waiting.first).id
                        #expect(throws: Never.self) { try outbox.outcome(of: id, within: .zero) }
                    }

                    try volume.empty()
                    try outbox.submit(Entry(2))
                    try file.write(new)
                    #expect(try file.read().value == new)
                    let db = try open(url)
                    defer { try? db.close() }
                    try db.outbox.drain(with: Self.handlers).drain()
                    let numbers = try db.read { try Int.fetchAll($0, sql: "SELECT n FROM applied ORDER BY id") }
                    #expect(numbers == [1, 2])
                }
            }

            /// A publisher reports the error, keeps the old value, and publishes the last state by itself once there is space.
            @Test(.timeLimit(.minutes(1))) func publisher() throws {
                try PeerFleet.run { fleet in
                    let volume = try SmallVolume(fleet)
                    defer { volume.unmount() }
                    let errors = Mutex<[any Error]>([])
                    let recoveries = Mutex(0)
                    let db = try open(fleet.database) { event in
                        switch event.kind {
                        case .publishing(.failed(_, let error)): errors.withLock { $0.append(error) }
                        case .publishing(.recovered): recoveries.withLock { $0 += 1 }
                        default: break
                        }
                    }
                    defer { try? db.close() }
                    let url = volume.folder.appendingPathComponent("state")
                    let file = SnapshotFile<PeerSnapshotValue>(at: url, as: "app")
                    let publisher = try db.publish(to: file, atMostEvery: .zero) { db in
                        let count = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM applied") ?? 0
                        return PeerSnapshotValue(number: count, size: 20_000)
                    }
                    defer { publisher.cancel() }
                    try eventually("the first value is published") { try file.read().value?.number == 0 }
                    try volume.fill()
                    for n in 1...3 {
                        try db.write { try $0.execute(sql: "INSERT INTO applied (sender, n) VALUES (1, \(n))") }
                    }
                    try eventually("the publisher reports the error") { errors.withLock { $0.count >= 2 } }
                    for error in errors.withLock({ $0 }) {
                        #expect(error as? SnapshotFileError == .file(path: url.path, .diskFull))
                    }
                    #expect(throws: SnapshotFileError.file(path: url.path, .diskFull)) { try publisher.publish() }
                    let reading = try file.read().value
                    #expect(reading?.number == 0 && reading?.isWhole == true)
                    try volume.empty()
                    try eventually("the last value is published", within: .seconds(30)) {
                        try file.read().value?.number == 3
                    }
                    try eventually("the recovery is reported") { recoveries.withLock { $0 == 1 } }
                    #expect(try names(volume.folder) == ["state"])
                }
            }

            /// The owner's database has no room: what was acknowledged waits, no try is counted, and it is applied once when there is.
            @Test(.timeLimit(.minutes(1))) func draining() throws {
                try PeerFleet.run { fleet in
                    let volume = try SmallVolume(fleet)
                    defer { volume.unmount() }
                    let url = volume.folder.appendingPathComponent("shared.sqlite")
                    let failures = Mutex<[any Error]>([])
                    let db = try open(url) { event in
                        if case .outbox(.failed(let error)) = event.kind { failures.withLock { $0.append(error) } }
                    }
                    defer { try? db.close() }
                    let outbox = try CommandOutbox(forDatabaseAt: url, as: "widget")
                    for n in 1...30 { try outbox.submit(Entry(n)) }
                    try volume.fill()
                    let drain = try db.outbox.drain(with: Self.handlers)
                    try eventually("the drain reports the error") { failures.withLock { !$0.isEmpty } }
                    let error = try #require(failures.withLock { $0.first } as? DatabaseError)
                    #expect(error.resultCode == .SQLITE_FULL || error.resultCode == .SQLITE_IOERR, "\(error)")
                    if error.resultCode == .SQLITE_FULL {
                        #expect(
                            "\(error)".contains("\(db.path): no room") && "\(error)".contains("Free space"),
                            "\(error)"
                        )
                    }
                    #expect(throws: (any Error).self) { try drain.drain() }
                    let count = "SELECT COUNT(*) FROM applied"
                    let applied = try db.read { try Int.fetchOne($0, sql: count) ?? 0 }
                    let waiting = try CommandOutbox.contents(forDatabaseAt: url).waiting
                    #expect(applied < 30 && waiting.count >= 30 - applied)
                    try volume.empty()
                    // No call requests it.
                    try eventually("all are applied", within: .seconds(30)) {
                        try db.read { try Int.fetchOne($0, sql: count) } == 30
                    }
                    try eventually("the files are removed") {
                        try CommandOutbox.contents(forDatabaseAt: url).waiting.isEmpty
                    }
                    let numbers = try db.read { try Int.fetchAll($0, sql: "SELECT n FROM applied ORDER BY id") }
                    #expect(numbers == Array(1...30))
                    for table in ["roundtable_outbox_dead", "roundtable_outbox_retries"] {
                        let rows = try db.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM \(table)") }
                        #expect(rows == 0, "\(table)")
                    }
                    let integrity = try db.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
                    #expect(integrity == "ok")
                    #expect(try names(URL(fileURLWithPath: url.path + "-outbox/new")).isEmpty)
                }
            }

            /// The system lists locks by device and inode, and files of two file systems may have the same inode.
            @Test(.timeLimit(.minutes(1))) func theLockOfAnotherFileSystem() throws {
                try PeerFleet.run { fleet in
                    let volumes = [try SmallVolume(fleet, named: "a"), try SmallVolume(fleet, named: "b")]
                    defer { for volume in volumes { volume.unmount() } }
                    let urls = volumes.map { $0.folder.appendingPathComponent("shared.sqlite") }
                    let databases = try urls.map { try open($0) }
                    defer { for database in databases { try? database.close() } }
                    let inodes = try urls.map { url in
                        try FileManager.default.attributesOfItem(atPath: url.path + "-shm")[.systemFileNumber] as? Int
                    }
                    #expect(
                        inodes[0] == inodes[1],
                        "these file systems number their files differently: nothing is tested"
                    )
                    try databases[0].write { _ in
                        #expect(try DatabaseStatus(ofDatabaseAt: urls[0]).writeLock?.pid == getpid())
                        let other = try DatabaseStatus(ofDatabaseAt: urls[1])
                        #expect(other.writeLock == nil, "\(other)")
                    }
                }
            }

            /// The WAL has room, and the database file has none: commits continue, checkpoints fail, and all processes see why until there is room
            /// (rule K12).
            @Test(.timeLimit(.minutes(1))) func checkpointing() throws {
                try PeerFleet.run { fleet in
                    let volume = try SmallVolume(fleet)
                    defer { volume.unmount() }
                    let url = volume.folder.appendingPathComponent("shared.sqlite")
                    func open(_ author: String, _ policy: SharedDatabase.CheckpointPolicy) throws -> SharedDatabase {
                        var options = SharedDatabase.Options()
                        options.checkpointing = policy
                        options.onEvent = { event in
                            if case .checkpointFailed(let failure, let health) = event.kind {
                                warnings.withLock { $0.append((failure, health)) }
                            }
                        }
                        return try SharedDatabase.open(at: url, schema: Self.schema, as: author, options: options)
                    }
                    let warnings = Mutex<[(WALHealth.Failure, WALHealth)]>([])
                    func write(_ rows: Int, to db: SharedDatabase) throws {
                        let text = String(repeating: "x", count: 4000)
                        for _ in 0..<rows {
                            try db.write { try $0.execute(sql: "INSERT INTO ballast VALUES (?)", arguments: [text]) }
                        }
                    }
                    // A file of the WAL that is long enough for what follows.
                    let other = try open("other", .manual)
                    defer { try? other.close() }
                    try write(130, to: other)
                    #expect(try other.checkpoint(.restart).isComplete)
                    try volume.fill()
                    let db = try open("app", .automatic(threshold: 50))
                    defer { try? db.close() }
                    try write(100, to: db)
                    try eventually("the program is notified") { warnings.withLock { !$0.isEmpty } }
                    let (failure, health) = try #require(warnings.withLock { $0.first })
                    #expect(failure == health.failure && failure.code == ResultCode.SQLITE_FULL.rawValue)
                    #expect(failure.by?.name == "app")
                    #expect(
                        health.description.contains("the last checkpoint, of 'app' (pid \(getpid())), failed "),
                        "\(health)"
                    )
                    let seen = try #require(try DatabaseStatus(ofDatabaseAt: url).wal?.failure)
                    #expect(seen.code == ResultCode.SQLITE_FULL.rawValue && seen.by?.pid == getpid())
                    #expect(seen.reason == "database or disk is full")
                    let findings = try DatabaseDiagnosis(ofDatabaseAt: url).findings
                    #expect(findings.contains { $0.topic == .checkpointFails }, "\(findings)")
                    #expect(throws: DatabaseError.self) { try other.checkpoint(.passive) }
                    try volume.empty()
                    try eventually("checkpoints continue", within: .seconds(30)) {
                        try write(1, to: db)
                        return try db.walHealth().failure == nil
                    }
                    #expect(try db.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
                }
            }
        }
    }

    /// A file system of 4 MB, in memory.
    struct SmallVolume {
        let folder: URL
        private var filler: URL { folder.appendingPathComponent("filler") }

        /// Whether this process may mount: it is tried.
        static let isSupported: Bool = {
            guard isSuperuser, let folder = try? TemporaryFolder(), (try? mount(folder.url)) != nil else {
                return false
            }
            umount2(folder.url.path, Int32(MNT_DETACH))
            return true
        }()

        /// It is unmounted by `unmount`, before the fleet removes its folder.
        init(_ fleet: PeerFleet, named name: String = "volume") throws {
            folder = fleet.folder.appendingPathComponent(name)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            try Self.mount(folder)
        }

        private static func mount(_ folder: URL) throws {
            guard Glibc.mount("tmpfs", folder.path, "tmpfs", 0, "size=4m") == 0 else {
                throw TestKitError("mount \(folder.path): \(String(cString: strerror(errno)))")
            }
        }

        /// Files of it that a process has open stay there.
        func unmount() { umount2(folder.path, Int32(MNT_DETACH)) }

        /// Leaves so many bytes, which are to be whole pages.
        func fill(butFor left: Int = 0) throws {
            let descriptor = Glibc.open(filler.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw TestKitError("open \(filler.path)") }
            defer { close(descriptor) }
            let page = [UInt8](repeating: 7, count: 4096)
            var size = 0
            while true {
                let written = write(descriptor, page, page.count)
                guard written > 0 else { break }
                size += written
            }
            guard errno == ENOSPC, ftruncate(descriptor, size - left) == 0 else {
                throw TestKitError("filling \(folder.path): errno \(errno)")
            }
        }

        func empty() throws { try FileManager.default.removeItem(at: filler) }
    }
#endif
