#if os(Linux)
    import RoundtableUnitSupport
    import Foundation
    import GRDB
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    @testable import Roundtable
    @testable import RoundtableCore
    @testable import RoundtableDiagnostics
    @testable import RoundtableFiles
    @testable import RoundtableGate

    /// These users share a group, and files prevent one of them from access. All threads of the process have the group 0.
    @Suite(.enabled(if: OtherUser.isPossible, "needs root, to become another user"))
    struct SeveralUsersTests {
        private let folder: TemporaryFolder
        private let url: URL

        /// A database that all members of the group may write, and that no process has open.
        init() throws {
            folder = try TemporaryFolder()
            url = folder.file("a.db")
            #expect(chmod(folder.url.path, 0o2770) == 0)
            let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
            try db.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            try db.close()
            for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) {
                #expect(chmod(folder.file(name).path, 0o660) == 0)
            }
        }

        private var path: String { System.resolvedPath(url.path) }
        private var controlBlock: String { ControlBlock.path(forDatabaseAt: path) }

        private func open() throws { try SharedDatabase.open(at: url, schema: .unmanaged, as: "other").close() }

        private func openReadOnly() throws {
            let answer: SharedDatabase.Availability = try SharedDatabase.openReadOnly(
                at: url,
                schema: .unmanaged,
                as: "other"
            )
            if case .available(let db) = answer { try db.close() }
        }

        private func findings(outbox: URL? = nil) throws -> [DatabaseDiagnosis.Finding] {
            try DatabaseDiagnosis(ofDatabaseAt: url, outboxFolder: outbox).findings
        }

        private func finding(_ topic: DatabaseDiagnosis.Topic, outbox: URL? = nil) throws -> DatabaseDiagnosis.Finding?
        {
            try findings(outbox: outbox).first { $0.topic == topic }
        }

        @Test func allMembersOfTheGroupMayOpenIt() async throws {
            try await OtherUser.run {
                try open()
                try openReadOnly()
            }
        }

        // MARK: Errors

        /// SQLite's error names no file, or the database alone.
        @Test(arguments: ["", "-wal", "-shm"], [0o600, 0o640] as [mode_t])
        func anErrorNamesTheFile(suffix: String, mode: mode_t) async throws {
            #expect(chmod(path + suffix, mode) == 0)
            let path = path
            await #expect {
                try await OtherUser.run { try open() }
            } throws: { error in
                let text = "\(error)"
                let octal = String(mode, radix: 8)
                return error is DatabaseError && !text.hasSuffix(".") && text.contains("\(path): permission denied: ")
                    && (suffix.isEmpty || text.contains("\(path)\(suffix) cannot be "))
                    && text.contains("owner 0, group 0 and mode \(octal)") && text.contains("chmod")
            }
        }

        @Test(arguments: ["", "-wal"]) func anErrorOfReadingNamesTheFile(suffix: String) async throws {
            #expect(chmod(path + suffix, 0o600) == 0)
            let path = path
            await #expect {
                try await OtherUser.run { try openReadOnly() }
            } throws: { error in
                "\(error)".contains("\(path): permission denied")
                    && (suffix.isEmpty || "\(error)".contains("\(path)\(suffix) cannot be read"))
            }
        }

        @Test func anErrorOfAWriteNamesTheFile() async throws {
            #expect(chmod(path + "-wal", 0o640) == 0)
            let path = path
            let error = try await OtherUser.run {
                DatabaseError(resultCode: .SQLITE_READONLY).namingForbiddenFile(path)
            }
            #expect("\(error)".contains("\(path)-wal cannot be written") && "\(error)".contains("mode 640"))
            // Another cause is not taken for this one.
            #expect(
                DatabaseError(resultCode: .SQLITE_READONLY).namingForbiddenFile(path).message?.contains("-wal") != true
            )
        }

        /// W9c: SQLite would keep the descriptor of each connection that is refused, because the reader holds a lock.
        @Test(arguments: ["", "-wal", "-shm"]) func aRefusedConnectionLeavesNoDescriptor(suffix: String) async throws {
            var options = SharedDatabase.Options()
            options.suspensionPolicy = .everything
            let db = try await OtherUser.run { [url, options] in
                try SharedDatabase.open(at: url, schema: .unmanaged, as: "other", options: options)
            }
            let reader = try DatabaseQueue(path: path)
            try await reader.read { _ = try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            #expect(await onThread { db.park(until: MonotonicClock.now + 10_000_000_000) } == [])
            #expect(chmod(path + suffix, 0o640) == 0)
            db.unpark()
            let path = path
            let counts = try await OtherUser.run {
                try (1...10).map { _ in
                    #expect(throws: DatabaseError.self) {
                        try db.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
                    }
                    #expect(throws: DatabaseError.self) { try db.checkpoint(.passive) }
                    return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { name in
                        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
                        return target?.hasPrefix(path) == true
                    }.count
                }
            }
            #expect(counts.first == counts.last, "\(counts)")
            #expect(chmod(path + suffix, 0o660) == 0)
            try await OtherUser.run { try db.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") } }
            try db.close()
            withExtendedLifetime(reader) {}
        }

        @Test func anErrorOfAFolderNamesIt() async throws {
            #expect(chmod(folder.url.path, 0o2750) == 0)
            let path = path
            let parent = (path as NSString).deletingLastPathComponent
            await #expect {
                try await OtherUser.run { try open() }
            } throws: { error in
                (error as? DatabaseError)?.message == """
                    \(path): permission denied: this process (user 65534) cannot create files in its folder, \(parent). \
                    It has owner 0, group 0 and mode 2750. Run as a user who may write there, or change its permissions
                    """
            }
        }

        // MARK: What the doctor says

        @Test func aFileThatThisProcessCannotOpen() async throws {
            #expect(chmod(path + "-shm", 0o600) == 0)
            let found = try #require(try await OtherUser.run { try finding(.permissions) })
            #expect(found.severity == .error && found.location == path + "-shm")
            #expect(found.message.contains("owner 0, group 0 and mode 600"))
            // The superuser may open it, and other users may not.
            #expect(try finding(.permissions)?.severity == .warning)
        }

        /// A member of the group has made the control block again.
        @Test func anotherOwnerDoesNotPreventAccess() throws {
            for suffix in ["", "-wal", "-shm"] { #expect(chown(path + suffix, 65534, 0) == 0) }
            #expect(chown(controlBlock, 65533, 0) == 0)
            #expect(try finding(.permissions) == nil)
            #expect(chmod(controlBlock, 0o640) == 0)
            #expect(try finding(.permissions)?.location == controlBlock)
            // Another group gets only the rights of the group.
            #expect(chmod(controlBlock, 0o660) == 0 && chown(controlBlock, 65533, 65533) == 0)
            #expect(try finding(.permissions)?.message.contains("group 65533") == true)
        }

        /// More users may read this file than the database.
        @Test func aFileForMoreUsers() throws {
            // SQLite repairs the mode of an empty -wal file.
            #expect(chmod(path + "-shm", 0o664) == 0)
            let found = try #require(try finding(.permissions))
            #expect(found.severity == .warning && found.message.contains("users may read or write it"))
            #expect(found.message.hasPrefix("The -shm file has"))
            // A file that all users may use is no reason to report the same of the database.
            #expect(!found.advice.contains(path))
            #expect(chmod(path + "-shm", 0o660) == 0 && chmod(path, 0o640) == 0)
            let forGroup = try #require(try findings().first { $0.location == path + "-shm" })
            #expect(forGroup.advice.contains("chmod 660 \(path.shellQuotedPath). If they are not"))
        }

        @Test func aDatabaseThatThisProcessMayOnlyRead() async throws {
            for suffix in ["", "-wal", "-shm"] { #expect(chmod(path + suffix, 0o640) == 0) }
            #expect(chmod(controlBlock, 0o640) == 0)
            let found = try #require(try await OtherUser.run { try finding(.permissions) })
            #expect(
                found.severity == .notice
                    && found.message.contains("of \(FileOwner(user: 65534)), may read the database")
            )
            #expect(try finding(.permissions) == nil)
        }

        // MARK: The outbox

        private func submit(as user: UInt32, at folder: URL? = nil) async throws {
            let url = url
            try await OtherUser.run(as: user) {
                let outbox =
                    try folder.map { try CommandOutbox(at: $0, as: "a") } ?? CommandOutbox(forDatabaseAt: url, as: "a")
                _ = try outbox.submit(AddEntry(text: "a"))
            }
        }

        /// Rule X16: what one user submits before there is a database, another one applies and removes.
        @Test func anOutboxBeforeItsDatabase() async throws {
            let world = try OutboxWorld()
            #expect(chmod(world.folder.url.path, 0o2770) == 0)
            try await OtherUser.run(as: 65534) { _ = try world.outbox().submit(AddEntry(text: "a")) }
            #expect(world.files().count == 1)
            let texts = try await OtherUser.run(as: 65533) {
                let db = try world.open()
                defer { try? db.close() }
                try world.rounds(db, .entries())()
                return try db.texts()
            }
            #expect(texts == ["a"] && world.files().isEmpty)
        }

        /// The owner applies the commands, and cannot remove their files.
        @Test func anOutboxThatTheOwnerCannotWrite() async throws {
            #expect(chown(path, 65534, 0) == 0)
            try await submit(as: 65533)
            #expect(try finding(.permissions) == nil)
            for name in [path + "-outbox", path + "-outbox/commands"] { #expect(chmod(name, 0o755) == 0) }
            let found = try #require(try finding(.permissions))
            #expect(found.severity == .warning && found.location == path + "-outbox")
            #expect(found.message.contains("owner 65533") && found.message.contains("'commands' in it"))
            #expect(found.advice.contains("chgrp -R 0") && found.advice.contains("mode 2770"))
            let own = try await OtherUser.run { try finding(.permissions) }
            #expect(own?.severity == .error && own?.message.contains("of \(FileOwner(user: 65534)),") == true)
        }

        /// In a folder of another user, the owner may not even look.
        @Test func anOutboxFolderThatTheOwnerCannotRead() async throws {
            for suffix in ["", "-wal", "-shm"] { #expect(chown(path + suffix, 65534, 65534) == 0) }
            #expect(chmod(folder.url.path, 0o777) == 0)
            let outbox = folder.file("outbox")
            try FileManager.default.createDirectory(at: outbox, withIntermediateDirectories: false)
            #expect(chown(outbox.path, 65533, 65533) == 0 && chmod(outbox.path, 0o770) == 0)
            try await submit(as: 65533, at: outbox)
            let found = try await OtherUser.run { try finding(.permissions, outbox: outbox) }
            #expect(found?.severity == .error && found?.location == System.resolvedPath(outbox.path))
            #expect(try finding(.permissions, outbox: outbox)?.severity == .warning)
        }

        // MARK: Strangers

        /// A connection that opened the file read-only cannot checkpoint.
        @Test func aStrangerThatOnlyReads() throws {
            guard SQLiteVersion.current.hasWALResetBug else { return }
            var configuration = Configuration()
            configuration.readonly = true
            let reader = try DatabaseQueue(path: path, configuration: configuration)
            _ = try reader.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            #expect(try finding(.walResetBug)?.severity == .notice)
            let writer = try DatabaseQueue(path: path)
            _ = try writer.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            #expect(try finding(.walResetBug)?.severity == .warning)
            try writer.close()
            try reader.close()
        }
    }
#endif
