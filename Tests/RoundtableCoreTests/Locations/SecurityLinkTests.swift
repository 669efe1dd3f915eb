#if os(Linux)
    import RoundtableUnitSupport
    import Foundation
    import GRDB
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    @testable import Roundtable
    @testable import RoundtableCore
    @testable import RoundtableFiles

    /// Files and links that another user has put in the place of a companion file (`docs/SECURITY.md`).
    @Suite struct SecurityLinkTests {
        private let folder: TemporaryFolder
        private let url: URL
        /// A file that is not to be touched, and a name that leads nowhere.
        private let target: URL
        private let nowhere: URL

        init() throws {
            folder = try TemporaryFolder()
            #expect(mkdir(folder.file("data").path, 0o755) == 0)
            url = folder.file("data").appendingPathComponent("a.db")
            target = folder.file("target")
            nowhere = folder.file("nowhere")
            try Data("private".utf8).write(to: target)
        }

        enum Planted: String, CaseIterable, CustomTestStringConvertible {
            case symbolicLink, danglingLink, hardLink, pipe, folder
            var testDescription: String { rawValue }
        }

        private func plant(_ what: Planted, at path: String) {
            let result =
                switch what {
                case .symbolicLink: symlink(target.path, path)
                case .danglingLink: symlink(nowhere.path, path)
                case .hardLink: link(target.path, path)
                case .pipe: mkfifo(path, 0o666)
                case .folder: mkdir(path, 0o777)
                }
            #expect(result == 0)
        }

        private func expectUntouched() throws {
            #expect(try Data(contentsOf: target) == Data("private".utf8))
            #expect(!FileManager.default.fileExists(atPath: nowhere.path))
        }

        private func open() throws -> SharedDatabase { try SharedDatabase.open(at: url, schema: .unmanaged, as: "app") }

        /// The control block: a link is not followed, and a file that is no control block is replaced, without a change of its content.
        @Test(arguments: Planted.allCases)
        func inPlaceOfTheControlBlock(what: Planted) throws {
            let block = ControlBlock.path(forDatabaseAt: System.resolvedPath(url.path))
            plant(what, at: block)
            let db = try open()
            defer { try? db.close() }
            try db.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
            #expect(try db.read { try Int.fetchOne($0, sql: "SELECT a FROM t") } == 1)
            switch what {
            // The name is one of two, or of no ordinary file.
            case .hardLink, .pipe: #expect(db.uncoordinatedReason == nil)
            case .symbolicLink, .danglingLink, .folder: #expect(db.uncoordinatedReason != nil)
            }
            try expectUntouched()
        }

        /// The salt: nothing is created through a link, and no file but a salt is taken for one.
        @Test(.timeLimit(.minutes(1)), arguments: Planted.allCases)
        func inPlaceOfTheSalt(what: Planted) throws {
            plant(what, at: url.path + FileSaltStore.suffix)
            #expect(throws: (any Error).self) { try FileSaltStore().create(Data(0..<16), forDatabaseAt: url) }
            if what != .danglingLink {
                #expect(throws: (any Error).self) { try FileSaltStore().load(forDatabaseAt: url) }
            }
            try expectUntouched()
            // No unfinished file stays.
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.file("data").path)
            #expect(names == ["a.db-salt"])
        }

        /// A snapshot file: a link to a file that is none is refused, and a link that leads nowhere is replaced.
        @Test(.timeLimit(.minutes(1)), arguments: Planted.allCases)
        func inPlaceOfASnapshotFile(what: Planted) throws {
            let path = folder.file("data").appendingPathComponent("snapshot")
            plant(what, at: path.path)
            let file = SnapshotFile<Int>(at: path, as: "app")
            if what == .danglingLink {
                _ = try writeBlocking(file, 1)
                #expect(try System.statusOfLink(at: path.path)?.isRegularFile == true)
            } else {
                #expect(throws: SnapshotFileError.self) { try writeBlocking(file, 1) }
            }
            try expectUntouched()
        }

        private func writeBlocking(_ file: SnapshotFile<Int>, _ value: Int) throws -> SnapshotInfo {
            try file.write(value)
        }

        /// The mark of a fenced database prevents all participants from writing, and leads nowhere.
        @Test func inPlaceOfTheFence() throws {
            let mark = url.path + Fence.suffix
            let db = try open()
            try db.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            try db.close()
            plant(.danglingLink, at: mark)
            try open().close()
            #expect(unlink(mark) == 0)
            plant(.symbolicLink, at: mark)
            #expect(throws: DatabaseError.self) { try open() }
            #expect(unlink(mark) == 0)
            try open().close()
            try expectUntouched()
        }

        /// SQLite opens its own files without following links.
        @Test(arguments: ["-wal", "-shm"], [Planted.symbolicLink, .danglingLink])
        func inPlaceOfSQLitesFiles(ending: String, what: Planted) throws {
            let db = try open()
            try db.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            try db.close()
            #expect(unlink(url.path + ending) == 0)
            plant(what, at: url.path + ending)
            #expect(throws: (any Error).self) {
                let db = try open()
                try db.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
            }
            try expectUntouched()
        }

        /// The files of one database have its permissions, and no more, whatever the umask leaves.
        @Test func permissionsOfNewFiles() throws {
            try Data().write(to: url)
            #expect(chmod(url.path, 0o600) == 0)
            let db = try open()
            defer { try? db.close() }
            try db.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            let outbox = try CommandOutbox(forDatabaseAt: url, as: "app")
            _ = try outbox.submit(AddEntry(text: "a"))
            let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.file("data").path)
            #expect(paths.count > 5, "\(paths)")
            for path in paths {
                let status = try #require(
                    try System.statusOfLink(at: folder.file("data").appendingPathComponent(path).path)
                )
                #expect(status.st_mode & 0o077 == 0, "\(path): \(status.accessText)")
            }
        }

        /// A file that root creates beside the database of another user belongs to that user (rules B2, X16).
        @Test(.enabled(if: geteuid() == 0, "only the superuser can give files away")) func ownersOfNewFiles() throws {
            try Data().write(to: url)
            #expect(chown(url.path, 65534, 65533) == 0)
            let db = try open()
            defer { try? db.close() }
            try db.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            let outbox = try CommandOutbox(forDatabaseAt: url, as: "app")
            _ = try outbox.submit(AddEntry(text: "a"))
            let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.file("data").path)
            #expect(paths.count > 5, "\(paths)")
            for path in paths {
                let status = try #require(
                    try System.statusOfLink(at: folder.file("data").appendingPathComponent(path).path)
                )
                #expect(status.st_uid == 65534 && status.st_gid == 65533, "\(path): \(status.accessText)")
            }
        }
    }
#endif
