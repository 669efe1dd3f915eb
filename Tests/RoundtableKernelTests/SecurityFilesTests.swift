#if os(Linux)
    import Foundation
    import RoundtableTrials
    import Synchronization
    import Testing

    @testable import RoundtableKernel

    /// What other users can do by files of theirs, or by links, in folders that they may write (`docs/SECURITY.md`).
    @Suite struct SecurityFilesTests {
        private let folder: TemporaryFolder
        private let database: String

        init() throws {
            folder = try TemporaryFolder()
            database = folder.file("db")
        }

        private func permissions(of path: String) throws -> mode_t {
            try #require(try System.statusOfLink(at: path)).st_mode & 0o777
        }

        /// A descriptor keeps the rights that it was opened with, so a file that is to be private is never open to others.
        @Test func aFileIsPrivateBeforeItHasItsPermissions() throws {
            let path = folder.file("new")
            let seen = Mutex<[mode_t]>([])
            try System.withInterposed { call in
                if call == .chmod, let mode = try? permissions(of: path) { seen.withLock { $0.append(mode) } }
            } _: {
                try System.makeFile(at: path, [1], access: FileAccess(mode: 0o640), isDurable: false)
            }
            #expect(seen.withLock { $0 } == [0o600])
            #expect(try permissions(of: path) == 0o640)
        }

        /// A name that is taken, by whatever, is never written through.
        @Test(arguments: ["link", "dangling", "file", "pipe"])
        func aNewFileReplacesNothing(kind: String) throws {
            let path = folder.file("new")
            let target = folder.file("target")
            try System.makeFile(at: target, [7], isDurable: false)
            switch kind {
            case "link": #expect(symlink(target, path) == 0)
            case "dangling": #expect(symlink(folder.file("nowhere"), path) == 0)
            case "file": #expect(link(target, path) == 0)
            default: #expect(mkfifo(path, 0o666) == 0)
            }
            #expect(throws: SystemError(call: .open, errno: EEXIST, path: path)) {
                try System.makeFile(at: path, [1], isDurable: false)
            }
            #expect(try System.contents(ofFileAt: target, limit: 9) == [7])
            #expect(try System.statusOfLink(at: folder.file("nowhere")) == nil)
        }

        // MARK: The control block of another owner (rule B7)

        private func openBlock() throws(ControlBlock.Unusable) -> ControlBlock {
            try ControlBlock.openOrCreate(forDatabaseAt: database, access: nil)
        }

        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to become another user"),
            arguments: [
                // (owner of the database, its mode, owner of the block, whether user 65534 uses it)
                (65534, 0o644, 65534, true), (65534, 0o644, 0, true), (65534, 0o644, 65533, false),
                (65534, 0o664, 65533, true), (65534, 0o646, 65533, true), (65533, 0o644, 65533, true),
                (0, 0o644, 65533, false), (0, 0o644, 65534, true),
            ] as [(UInt32, mode_t, UInt32, Bool)]
        )
        func aControlBlockOfAnotherOwner(owner: UInt32, mode: mode_t, blockOwner: UInt32, isUsed: Bool) throws {
            #expect(chmod(folder.path, 0o777) == 0)
            try System.makeFile(at: database, [1], isDurable: false)
            _ = try openBlock()
            let path = ControlBlock.path(forDatabaseAt: database)
            #expect(chmod(path, 0o666) == 0 && chown(path, blockOwner, blockOwner) == 0)
            #expect(chmod(database, mode) == 0 && chown(database, owner, owner) == 0)
            let database = database
            let error = try OtherUser.runBlocking { () -> ControlBlock.Unusable? in
                do {
                    _ = try ControlBlock.openOrCreate(forDatabaseAt: database, access: nil)
                    return nil
                } catch {
                    return error as? ControlBlock.Unusable
                }
            }
            #expect(error == (isUsed ? nil : .foreign(owner: blockOwner)))
            // It stays what it is: the name may be all that another user has.
            #expect(try System.statusOfLink(at: path)?.st_uid == blockOwner)
        }

        /// In a sticky folder, such as /tmp, a user outside of the database's group creates files as well as its members, so only the blocks of its
        /// owner, of the superuser and of the own user are used.
        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to become another user"),
            arguments: [
                // (mode of the folder, mode of the database, owner of the block, whether user 65534 uses it)
                (0o1777, 0o664, 65533, false), (0o1777, 0o666, 65533, false), (0o777, 0o664, 65533, true),
                (0o1777, 0o664, 65532, true), (0o1777, 0o664, 65534, true), (0o1777, 0o664, 0, true),
            ] as [(mode_t, mode_t, UInt32, Bool)]
        )
        func aControlBlockInAStickyFolder(folderMode: mode_t, mode: mode_t, blockOwner: UInt32, isUsed: Bool) throws {
            try System.makeFile(at: database, [1], isDurable: false)
            _ = try openBlock()
            let path = ControlBlock.path(forDatabaseAt: database)
            #expect(chmod(path, 0o666) == 0 && chown(path, blockOwner, blockOwner) == 0)
            #expect(chmod(database, mode) == 0 && chown(database, 65532, 65532) == 0)
            #expect(chmod(folder.path, folderMode) == 0)
            let database = database
            let error = try OtherUser.runBlocking { () -> ControlBlock.Unusable? in
                do {
                    _ = try ControlBlock.openOrCreate(forDatabaseAt: database, access: nil)
                    return nil
                } catch {
                    return error as? ControlBlock.Unusable
                }
            }
            #expect(error == (isUsed ? nil : .foreign(owner: blockOwner)))
        }

        /// **B7**. A user links the block of a database that he may write to the name of another database's, whose owner is the same.
        @Test(
            arguments: [
                (0o666, 0o600, 2, false), (0o666, 0o600, 1, true), (0o660, 0o660, 2, true), (0o666, 0o666, 2, true),
            ]
                as [(mode_t, mode_t, Int, Bool)]
        )
        func aControlBlockWithAnotherName(mode: mode_t, databaseMode: mode_t, names: Int, isUsed: Bool) throws {
            try System.makeFile(at: database, [1], isDurable: false)
            _ = try openBlock()
            let path = ControlBlock.path(forDatabaseAt: database)
            #expect(chmod(path, mode) == 0 && chmod(database, databaseMode) == 0)
            if names == 2 { #expect(link(path, folder.file("public-coord4")) == 0) }
            if isUsed {
                _ = try openBlock()
            } else {
                #expect(throws: ControlBlock.Unusable.shared) { try openBlock() }
            }
        }

        /// A block of another version counts only if its owner may have created it: a stranger's would keep programs from the database for ever.
        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to make files of another user"),
            arguments: [(65534, [99]), (0, [99]), (65533, [])] as [(UInt32, [UInt32])]
        )
        func aControlBlockOfAnotherVersion(owner: UInt32, versions: [UInt32]) throws {
            try System.makeFile(at: database, [1], isDurable: false)
            #expect(chmod(database, 0o644) == 0 && chown(database, 65534, 65534) == 0)
            var bytes = Layout.seal()
            bytes[8] = 99
            try System.makeFile(at: database + "-coord99", bytes, isDurable: false)
            #expect(chown(database + "-coord99", owner, owner) == 0)
            #expect(OtherControlBlock.all(besideDatabaseAt: database).map(\.version) == versions)
        }

        @Test(.enabled(if: OtherUser.isPossible, "needs root, to become another user"))
        func aControlBlockBeforeThereIsADatabase() throws {
            _ = try openBlock()
            let path = ControlBlock.path(forDatabaseAt: database)
            #expect(chmod(path, 0o666) == 0 && chown(path, 65533, 65533) == 0)
            #expect(throws: ControlBlock.Unusable.foreign(owner: 65533)) { try openBlock() }
            try System.makeFile(at: database, [1], isDurable: false)
            #expect(throws: ControlBlock.Unusable.foreign(owner: 65533)) { try openBlock() }
            #expect(chmod(database, 0o664) == 0)
            _ = try openBlock()
        }

        /// The owner of a folder puts a link to another one in its place, before each call that creates a block. The superuser gives away nothing
        /// there, because the database is not there.
        @Test(.enabled(if: OtherUser.isPossible, "only the superuser gives files away"))
        func theFolderIsSwappedWhileABlockIsCreated() throws {
            let (home, away, outside) = (folder.file("home"), folder.file("away"), folder.file("outside"))
            var (number, swapped) = (0, 0)
            while true {
                number += 1
                for path in [home, away, outside] { _ = try? FileManager.default.removeItem(atPath: path) }
                for path in [home, outside] { #expect(mkdir(path, 0o755) == 0) }
                let database = home + "/db"
                try System.makeFile(at: database, [1], isDurable: false)
                #expect(chown(database, 65534, 65534) == 0)
                let access = FileAccess(try #require(try System.status(ofFileAt: database)))
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
                    _ = try? ControlBlock.openOrCreate(forDatabaseAt: database, access: access)
                }
                for name in try #require(try System.names(inFolder: outside)) {
                    #expect(try System.statusOfLink(at: "\(outside)/\(name)")?.st_uid == 0, "\(name), call \(number)")
                }
                if count.withLock({ $0 }) < number { break }
                swapped += 1
            }
            #expect(swapped >= 5)
            // Where nothing is swapped, the block is the owner's.
            #expect(try System.statusOfLink(at: home + "/db" + ControlBlock.ending)?.st_uid == 65534)
        }

        // MARK: Text of others

        /// **P3**.
        @Test(arguments: [
            ("app", "app"), ("Zoë ∂", "Zoë ∂"), ("a\u{1B}[2J\r\n", "a·[2J··"), ("\u{202E}x\u{2066}", "·x·"),
            ("\u{85}\u{9B}31m", "··31m"), ("\u{2028}", "·"),
        ])
        func textInSharedMemory(text: String, shown: String) throws {
            let words = Mutex<[Int: UInt64]>([:])
            SharedText.write(text, size: 48) { offset, word in words.withLock { $0[offset] = word } }
            let read = SharedText.read(size: 48) { offset in words.withLock { $0[offset] ?? 0 } }
            #expect(read.text == shown && read.number == 0)
        }
    }
#endif
