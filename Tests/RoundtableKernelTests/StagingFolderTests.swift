import Foundation
import Synchronization
import Testing

@testable import RoundtableKernel

/// Private folders among files that other users may move and replace (`docs/SECURITY.md`).
@Suite struct StagingFolderTests {
    private let folder: TemporaryFolder
    private let outer: OpenFolder

    init() throws {
        folder = try TemporaryFolder()
        outer = try OpenFolder(at: folder.path)
        try System.makeFolder(at: folder.file("outside"))
        try System.makeFile(at: folder.file("outside/secret"), [7], isDurable: false)
        #expect(chmod(folder.file("outside/secret"), 0o600) == 0)
    }

    private func mode(_ name: String) throws -> mode_t? {
        try System.statusOfLink(at: folder.file(name)).map { $0.st_mode & 0o777 }
    }

    private func expectUntouched() throws {
        #expect(try System.contents(ofFileAt: folder.file("outside/secret"), limit: 9) == [7])
        #expect(try mode("outside/secret") == 0o600)
        #expect(try System.names(inFolder: folder.file("outside")) == ["secret"])
    }

    @Test func itIsPrivateAndNew() throws {
        let staging = try StagingFolder("s", in: outer)
        #expect(try mode("s") == 0o700 && staging.isInPlace)
        #expect(throws: SystemError(call: .mkdir, errno: EEXIST, path: folder.file("s"))) {
            try StagingFolder("s", in: outer)
        }
        staging.remove()
        #expect(try mode("s") == nil)
    }

    /// A user who may write the folder around it moves it away, and puts a link there. Files are still written, finished, moved and removed in
    /// the folder itself.
    @Test func movedAway() throws {
        let staging = try StagingFolder("s", in: outer)
        #expect(rename(folder.file("s"), folder.file("moved")) == 0)
        #expect(symlink("outside", folder.file("s")) == 0)
        #expect(!staging.isInPlace)
        for name in ["secret", "a"] { try staging.folder.makeFile(name, [1], access: nil, isDurable: false) }
        try staging.folder.finishFile("secret", mode: 0o640, owner: nil)
        #expect(try mode("moved/secret") == 0o640)
        try staging.folder.move("a", toUnused: "result", in: outer)
        #expect(try staging.contents(ofFileAt: "secret", limit: 9) == [1])
        staging.remove()
        #expect(try System.names(inFolder: folder.file("moved")) == [])
        #expect(try System.statusOfLink(at: folder.file("s"))?.isSymbolicLink == true)
        #expect(try System.contents(ofFileAt: folder.file("result"), limit: 9) == [1])
        try expectUntouched()
    }

    /// Something else gets the name between the creation and the opening of the folder.
    @Test(arguments: ["link", "older folder"])
    func replacedWhileItIsMade(by kind: String) throws {
        let path = folder.file("s")
        let other = folder.file("outside")
        #expect(chmod(other, 0o700) == 0)
        let isDone = Mutex(false)
        #expect(throws: (any Error).self) {
            try System.withInterposed { call in
                guard call == .open, !isDone.withLock({ $0 }) else { return }
                isDone.withLock { $0 = true }
                rmdir(path)
                if kind == "link" { symlink(other, path) } else { rename(other, path) }
            } _: {
                _ = try StagingFolder("s", in: outer)
            }
        }
        #expect(isDone.withLock { $0 })
        if kind != "link" { #expect(rename(path, other) == 0) }
        try expectUntouched()
    }

    /// What is finished is a regular file of this user that has no other name; and nothing waits for a pipe.
    @Test(.timeLimit(.minutes(1)), arguments: ["link", "hard link", "pipe", "folder"])
    func onlyAnOwnFileIsFinished(kind: String) throws {
        let staging = try StagingFolder("s", in: outer)
        let path = folder.file("s/a")
        let result =
            switch kind {
            case "link": symlink(folder.file("outside/secret"), path)
            case "hard link": link(folder.file("outside/secret"), path)
            case "pipe": mkfifo(path, 0o600)
            default: mkdir(path, 0o700)
            }
        #expect(result == 0)
        #expect(throws: (any Error).self) { try staging.folder.finishFile("a", mode: 0o666, owner: nil) }
        try expectUntouched()
    }

    /// Litestream creates a database with what the umask leaves of 0666.
    @Test(arguments: [(0o666, nil, 0o644), (0o600, nil, 0o600), (0o644, 0o664, 0o664)] as [(mode_t, mode_t?, mode_t)])
    func aFinishedFileIsWrittenByItsOwner(mode: mode_t, wanted: mode_t?, expected: mode_t) throws {
        let staging = try StagingFolder("s", in: outer)
        try staging.folder.makeFile("a", [1], access: FileAccess(mode: mode), isDurable: false)
        try staging.folder.finishFile("a", mode: wanted, owner: nil)
        #expect(try self.mode("s/a") == expected)
    }

    @Test func aMoveReplacesNothing() throws {
        for name in ["a", "b"] { try System.makeFile(at: folder.file(name), Array(name.utf8), isDurable: false) }
        for name in ["c", "d"] { try System.makeFolder(at: folder.file(name)) }
        for (name, new) in [("a", "b"), ("c", "d"), ("a", "c")] {
            #expect {
                try outer.move(name, toUnused: new, in: outer)
            } throws: { ($0 as? SystemError)?.errno == EEXIST }
        }
        try outer.move("a", toUnused: "e", in: OpenFolder(at: folder.file("c")))
        try outer.move("c", toUnused: "f", in: outer)
        #expect(try System.contents(ofFileAt: folder.file("f/e"), limit: 9) == Array("a".utf8))
    }

    // MARK: Removing

    /// While a folder is being removed, before each call, a folder in it is moved away, and a link to others' files put in its place.
    @Test func aFolderIsSwappedWhileItIsRemoved() throws {
        var number = 0
        var swapped = 0
        while true {
            number += 1
            _ = try? outer.removeAll("gone")
            for name in ["gone", "gone/inner"] { try System.makeFolder(at: folder.file(name)) }
            for name in ["gone/a", "gone/inner/b"] {
                try System.makeFile(at: folder.file(name), [], isDurable: false)
            }
            let (inner, away, outside) = (folder.file("gone/inner"), folder.file("away"), folder.file("outside"))
            let count = Mutex(0)
            let last = number
            System.withInterposed { _ in
                let current = count.withLock { count in
                    count += 1
                    return count
                }
                guard current == last else { return }
                if rename(inner, away) == 0 { symlink(outside, inner) }
            } _: {
                _ = try? outer.removeAll("gone")
            }
            try expectUntouched()
            if try System.statusOfLink(at: away) != nil { swapped += 1 }
            _ = try outer.removeAll("away")
            if count.withLock({ $0 }) < number { break }
        }
        #expect(swapped >= 3, "the folder was swapped at \(swapped) of \(number) calls")
    }

    /// A folder that others may write stays as it is.
    @Test(arguments: [0o775, 0o707] as [mode_t])
    func aFolderThatOthersMayWriteIsNotRemoved(mode: mode_t) throws {
        try System.makeFolder(at: folder.file("shared"))
        try System.makeFile(at: folder.file("shared/a"), [], isDurable: false)
        #expect(chmod(folder.file("shared"), mode) == 0)
        #expect(try !outer.removeAll("shared"))
        #expect(try System.names(inFolder: folder.file("shared")) == ["a"])
    }

    /// In an own folder, the mode of folders is what a program has given them.
    @Test func aFolderInAStagingFolderIsRemoved() throws {
        let staging = try StagingFolder("s", in: outer)
        try System.makeFolder(at: folder.file("s/inner"))
        try System.makeFile(at: folder.file("s/inner/a"), [], isDurable: false)
        #expect(chmod(folder.file("s/inner"), 0o777) == 0)
        staging.remove()
        #expect(try System.statusOfLink(at: folder.file("s")) == nil)
    }

    /// A name that a dead process has given.
    private func abandoned(_ number: Int = 1) -> String {
        ".x.\(Int32.max - 1)-1-\(ProcessIdentity.current.namespace)-1-\(number).new"
    }

    /// Private folders of dead processes are removed, and so are those that a process has not filled or marked before it died.
    @Test func abandonedFolders() throws {
        let staging = try StagingFolder(abandoned(1), in: outer)
        try staging.folder.makeFile("a", [1], access: nil, isDurable: false)
        #expect(mkdir(folder.file(abandoned(2)), 0o700) == 0 && mkdir(folder.file(abandoned(3)), 0o700) == 0)
        try System.makeFile(at: folder.file("\(abandoned(3))/\(StagingFolder.mark)"), [], isDurable: false)
        let living = UnfinishedFile.name(".x")
        _ = try StagingFolder(living, in: outer)
        try StagingFolder.removeAbandoned(in: outer, ".x")
        #expect(try Set(outer.names()) == ["outside", living])
    }

    /// A program that still runs writes a file into the folder after the last look at it. The folder stays, and is removed the next time.
    @Test func aFileIsWrittenWhileTheFolderIsRemoved() throws {
        let staging = try StagingFolder(abandoned(), in: outer)
        let path = staging.path
        let isLate = Mutex(false)
        System.withInterposed { call in
            guard call == .unlink, !FileManager.default.fileExists(atPath: "\(path)/\(StagingFolder.mark)") else {
                return
            }
            try? System.makeFile(at: "\(path)/late", [], isDurable: false)
            isLate.withLock { $0 = true }
        } _: {
            staging.remove()
        }
        #expect(try isLate.withLock { $0 } && Set(outer.names()) == ["outside", abandoned()])
        try StagingFolder.removeAbandoned(in: outer, ".x")
        #expect(try outer.names() == ["outside"])
    }

    /// A user who may write the folder around it gives the name of an abandoned folder to a private folder of another user. That one stays,
    /// and also with a mark that was unpacked or copied there.
    @Test(arguments: ["no mark", "another folder's mark", "empty mark", "link to a mark", "mark with two names"])
    func aPrivateFolderGetsAnAbandonedName(kind: String) throws {
        let staging = try StagingFolder("s", in: outer)
        let (name, mark) = (abandoned(), StagingFolder.mark)
        let path = folder.file("\(name)/\(mark)")
        #expect(mkdir(folder.file(name), 0o700) == 0)
        try System.makeFile(at: folder.file("\(name)/thesis"), [7], isDurable: false)
        switch kind {
        case "another folder's mark":
            let bytes = try #require(try staging.folder.contents(ofFile: mark, limit: 99))
            try System.makeFile(at: path, bytes, isDurable: false)
        case "empty mark": try System.makeFile(at: path, [], isDurable: false)
        case "link to a mark": #expect(symlink("../s/\(mark)", path) == 0)
        case "mark with two names": #expect(link(folder.file("s/\(mark)"), path) == 0)
        default: break
        }
        try StagingFolder.removeAbandoned(in: outer, ".x")
        #expect(try !StagingFolder.remove(name, in: outer))
        try UnfinishedFile.removeAbandoned(in: outer, ".x")
        #expect(try System.contents(ofFileAt: folder.file("\(name)/thesis"), limit: 9) == [7])
    }

    /// What cleans up after unfinished files removes no folder, not even one with a mark, and continues after it.
    @Test func unfinishedFilesAreNoFolders() throws {
        _ = try StagingFolder(abandoned(1), in: outer)
        for number in 2...4 { try System.makeFile(at: folder.file(abandoned(number)), [], isDurable: false) }
        #expect(try UnfinishedFile.removeAbandoned(in: outer, ".x") == 3)
        #expect(try Set(outer.names()) == ["outside", abandoned(1)])
    }
}

#if os(Linux)
    import RoundtableTrials

    extension StagingFolderTests {
        /// The superuser leaves a folder of another user where it is, and what is in it.
        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make files of another user"))
        func aFolderOfAnotherUserIsNotRemoved() throws {
            try System.makeFolder(at: folder.file("planted"))
            try System.makeFile(at: folder.file("planted/a"), [], isDurable: false)
            #expect(chown(folder.file("planted"), 65534, 65534) == 0)
            #expect(try !outer.removeAll("planted"))
            #expect(try System.names(inFolder: folder.file("planted")) == ["a"])
        }

        private static let mayMount: Bool = {
            guard geteuid() == 0, let folder = try? TemporaryFolder() else { return false }
            return mount("none", folder.path, "tmpfs", 0, nil) == 0 && umount2(folder.path, 0) == 0
        }()

        /// A file system that is mounted in a folder which is removed stays as it is.
        @Test(.enabled(if: mayMount, "a file system cannot be mounted here"))
        func aMountedFileSystemIsNotEmptied() throws {
            let staging = try StagingFolder(abandoned(), in: outer)
            let disk = staging.path + "/disk"
            try System.makeFolder(at: disk)
            #expect(mount("none", disk, "tmpfs", 0, nil) == 0)
            defer { #expect(umount2(disk, 0) == 0) }
            try System.makeFile(at: disk + "/precious", [7], isDurable: false)
            #expect(try !StagingFolder.remove(abandoned(), in: outer))
            #expect(try !outer.removeAll(abandoned()))
            staging.remove()
            #expect(try System.names(inFolder: disk) == ["precious"])
        }

        @Test(.enabled(if: OtherUser.isPossible, "needs root, to make files of another user"))
        func aFileOfAnotherUserIsNotFinished() throws {
            let staging = try StagingFolder("s", in: outer)
            try staging.folder.makeFile("a", [1], access: nil, isDurable: false)
            #expect(chown(folder.file("s/a"), 65534, 65534) == 0)
            #expect(throws: ReplacedFileError.self) {
                try staging.folder.finishFile("a", mode: 0o666, owner: nil)
            }
        }

        @Test(
            .enabled(if: OtherUser.isPossible, "needs root, to become another user"),
            arguments: [
                // (owner, group and mode of the folder, whose process looks, what it finds)
                (0, 0, 0o755, 0, nil), (0, 0, 0o1777, 0, nil), (0, 100, 0o2750, 0, nil),
                // The bits of the group may be those of another user, in an access control list.
                (0, 0, 0o775, 0, .writers(access: "owner 0, group 0 and mode 775")),
                (0, 100, 0o2770, 0, .writers(access: "owner 0, group 100 and mode 2770")),
                (0, 0, 0o777, 0, .writers(access: "owner 0, group 0 and mode 777")),
                (65534, 65534, 0o700, 0, .owner(65534)), (65534, 65534, 0o1777, 0, .owner(65534)),
                (65533, 65533, 0o777, 65534, .owner(65533)), (65534, 65534, 0o770, 65534, nil),
                (0, 0, 0o777, 65534, nil),
            ] as [(UInt32, UInt32, mode_t, UInt32, FolderOfOthers?)]
        )
        func whoseFolderItIs(owner: UInt32, group: UInt32, mode: mode_t, user: UInt32, found: FolderOfOthers?) throws {
            #expect(chmod(folder.path, 0o755) == 0)
            let path = folder.file("outside")
            #expect(chown(path, owner, group) == 0 && chmod(path, mode) == 0)
            let others = try OtherUser.runBlocking(as: user) { try OpenFolder(at: path).others() }
            #expect(others == found)
        }
    }
#endif
