#if os(Linux)
    import RoundtableUnitSupport
    import Foundation
    import GRDB
    import RoundtableTestSupport
    import RoundtableKernel
    import Testing

    @testable import Roundtable
    @testable import RoundtableCore

    /// Databases in a folder that cannot be written, read by a user who may only read. (As root, nothing is denied.)
    @Suite(.enabled(if: OtherUser.isPossible, "needs root, to become another user"))
    struct ReadOnlyPlaceTests {
        private let folder: TemporaryFolder
        private let url: URL

        init() throws {
            folder = try TemporaryFolder()
            url = folder.file("bundled ?.sqlite")
        }

        /// Creates it, with a row that is in the database file and, if asked, one in `-wal`; then locks the folder.
        private func create(mode: String, keeping suffixes: [String] = [], rowInWAL: Bool = false) throws {
            var configuration = Configuration()
            configuration.prepareDatabase { db in try db.leaveWalFilesWhenClosed() }
            let queue = try DatabaseQueue(path: url.path, configuration: configuration)
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA journal_mode = \(mode); CREATE TABLE t (a); INSERT INTO t VALUES (1)")
                if mode == "WAL" { try db.checkpoint(.truncate) }
                if rowInWAL { try db.execute(sql: "INSERT INTO t VALUES (10)") }
            }
            try queue.close()
            for suffix in ["-wal", "-shm"] where !suffixes.contains(suffix) {
                try? FileManager.default.removeItem(atPath: url.path + suffix)
            }
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.url.path)
        }

        private func files() throws -> Set<String> {
            try Set(FileManager.default.contentsOfDirectory(atPath: folder.url.path))
        }

        /// GRDB users open it as a queue and as a pool. The pool opens its readers on the calling thread.
        private func sums() async throws -> [Int?] {
            let url = url
            return try await OtherUser.run {
                var configuration = Configuration()
                configuration.readonly = true
                let sql = "SELECT sum(a) FROM t"
                let queue = try UnsharedDatabase.openQueue(at: url, configuration: configuration)
                let pool = try UnsharedDatabase.openPool(at: url.sqlite("mode=ro"))
                return try [
                    queue.read { try Int.fetchOne($0, sql: sql) }, pool.read { try Int.fetchOne($0, sql: sql) },
                ]
            }
        }

        @Test(arguments: ["DELETE", "WAL"]) func bundled(mode: String) async throws {
            try create(mode: mode)
            #expect(try await sums() == [1, 1])
            #expect(try files() == [url.lastPathComponent])
        }

        /// The database has an empty `-wal`, or both, as a copy of a shared database's files has it.
        @Test(arguments: [["-wal"], ["-shm"], ["-wal", "-shm"]]) func companions(suffixes: [String]) async throws {
            try create(mode: "WAL", keeping: suffixes)
            #expect(try await sums() == [1, 1])
        }

        /// Commits in `-wal` are read where there is a `-shm`, and never silently left out.
        @Test func commitsInWAL() async throws {
            try create(mode: "WAL", keeping: ["-wal", "-shm"], rowInWAL: true)
            #expect(try await sums() == [11, 11])
            try FileManager.default.removeItem(atPath: url.path + "-shm")
            let path = System.resolvedPath(url.path)
            let bytes = try #require(FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int)
            await #expect(throws: DatabaseLocationError.unreadableWAL(path: path, bytes: bytes)) { try await sums() }
        }

        /// Participants need the wal-index, and no other participant is there to share with.
        @Test func asParticipant() async throws {
            let url = url
            @Sendable func answer() throws -> (role: SharedDatabase.Role, sum: Int?)? {
                let answer: SharedDatabase.Availability = try SharedDatabase.openReadOnly(
                    at: url,
                    schema: .unmanaged,
                    as: "reader"
                )
                guard case .available(let db) = answer else { return nil }
                return try (db.role, db.read { try Int.fetchOne($0, sql: "SELECT sum(a) FROM t") })
            }
            try create(mode: "WAL")
            let path = System.resolvedPath(url.path)
            let refusal = DatabaseLocationError.noWalIndex(path: path)
            await #expect(throws: refusal) { try await OtherUser.run { _ = try answer() } }
            #expect(refusal.description.contains("UnsharedDatabase.openQueue(at:)"))
            await #expect(throws: DatabaseError.self) {
                try await OtherUser.run {
                    _ = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app") as SharedDatabase
                }
            }
            try FileManager.default.removeItem(at: url)
            try create(mode: "DELETE")
            #expect(try await OtherUser.run(answer)?.sum == 1)
        }

        /// Another user who only reads may create files in the folder, but creates none that prevent the owner from access (rule W13): with the mode
        /// of the database, they would be that user's.
        @Test(arguments: [([], 0o644), (["-wal"], 0o644), (["-shm"], 0o644), ([], 0o666)] as [([String], Int)])
        func inAFolderThatAllMayWrite(kept: [String], mode: Int) async throws {
            try create(mode: "WAL", keeping: kept)
            let url = url
            let owner: [FileAttributeKey: Any] = [
                .posixPermissions: mode, .ownerAccountID: 4711, .groupOwnerAccountID: 4711,
            ]
            for name in try files() {
                try FileManager.default.setAttributes(owner, ofItemAtPath: folder.file(name).path)
            }
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.url.path)
            let before = try files()
            let read: @Sendable () throws -> Int? = {
                let answer: SharedDatabase.Availability = try SharedDatabase.openReadOnly(
                    at: url,
                    schema: .unmanaged,
                    as: "reader"
                )
                guard case .available(let db) = answer else { return nil }
                defer { try? db.close() }
                return try db.read { try Int.fetchOne($0, sql: "SELECT sum(a) FROM t") }
            }
            if mode == 0o644 {
                let path = System.resolvedPath(url.path)
                let refusal = DatabaseLocationError.companionsWouldKeepWritersOut(path: path)
                await #expect(throws: refusal) { _ = try await OtherUser.run(read) }
                #expect(try files() == before)
                #expect(try await sums() == [1, 1])
                #expect(try files() == before)
            } else {
                // All users may write what this user creates.
                #expect(try await OtherUser.run(read) == 1)
            }
            // The owner can write in any case.
            let rows = try await OtherUser.run(as: 4711) {
                let db: SharedDatabase = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
                defer { try? db.close() }
                try db.write { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
                return try db.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            }
            #expect(rows == 2)
        }

        /// A user with more rights writes the database: it is not taken for one that cannot change.
        @Test func writtenByAnotherUser() async throws {
            try create(mode: "WAL")
            let pool = try DatabasePool(path: url.path)
            try await pool.write { try $0.execute(sql: "INSERT INTO t VALUES (100)") }
            #expect(try await sums() == [101, 101])
        }
    }
#endif
