import Foundation
import Synchronization
import Testing

@testable import RoundtableKernel

/// Folders that are held open, and what is reached through them (rule G5).
@Suite struct OpenFolderTests {
    @Test func whatIsNoFolder() throws {
        let folder = try TemporaryFolder()
        let outer = try OpenFolder(at: folder.path)
        try System.makeFile(at: folder.file("file"), [], isDurable: false)
        for (target, name) in [("file", "link"), (".", "circle"), ("nowhere", "dangling")] {
            #expect(symlink(target, folder.file(name)) == 0)
            #expect(throws: SystemError(call: .open, errno: ELOOP, path: folder.file(name))) { try outer.folder(name) }
            #expect(throws: SystemError(call: .open, errno: ELOOP, path: folder.file(name))) {
                try OpenFolder(at: folder.file(name))
            }
        }
        #expect(try OpenFolder(at: folder.file("circle"), followingLinks: true).names().count == 4)
        #expect(throws: SystemError(call: .open, errno: ENOTDIR, path: folder.file("file"))) {
            try outer.folder("file")
        }
        #expect(try OpenFolder.ifThere(at: folder.file("file")) == nil)
        #expect(try OpenFolder.ifThere(at: folder.file("none")) == nil)
    }

    /// What has the folder's name by now does not matter.
    @Test func theFolderStaysTheSame() throws {
        let folder = try TemporaryFolder()
        try System.makeFolder(at: folder.file("inner"))
        let inner = try OpenFolder(at: folder.file("inner"))
        try System.renameFile(at: FilePlace(folder.file("inner")), to: FilePlace(folder.file("moved")))
        try System.makeFolder(at: folder.file("inner"))
        try inner.makeFile("a", [1], access: nil, isDurable: true)
        try inner.renameFile("a", to: "b", in: inner)
        #expect(throws: SystemError(call: .link, errno: EEXIST, path: inner.file("b"))) {
            try inner.renameFile("b", toUnused: "b", in: inner)
        }
        try inner.sync()
        #expect(try inner.names() == ["b"] && inner.contents(ofFile: "b", limit: 9) == [1])
        #expect(try System.names(inFolder: folder.file("inner")) == [])
        #expect(try System.names(inFolder: folder.file("moved")) == ["b"])
        #expect(try inner.removeFile("b") && !inner.removeFile("b"))
    }

    /// A user who may enter a folder, and may not list it, reaches files in it.
    @Test(.enabled(if: geteuid() != 0, "permissions do not keep the superuser out"))
    func aFolderThatMayNotBeRead() throws {
        let folder = try TemporaryFolder()
        try System.makeFolder(at: folder.file("inner"))
        #expect(chmod(folder.file("inner"), 0o300) == 0)
        let inner = try OpenFolder(at: folder.file("inner"))
        try inner.makeFile("a", [1], access: nil, isDurable: false)
        #expect(throws: SystemError(call: .open, errno: EACCES, path: inner.path)) { try inner.names() }
        #expect(try inner.removeFile("a"))
    }

    /// While a folder is being made, before each call, a user who may write the folder around it gives its name, or the name that it has for
    /// now, to a private folder. That one keeps its permissions and its owner.
    @Test(arguments: [true, false], [true, false])
    func aPrivateFolderIsPutInPlaceOfANewOne(hasAccess: Bool, isForOwner: Bool) throws {
        var (number, swapped) = (0, 0)
        while true {
            number += 1
            let folder = try TemporaryFolder()
            let outer = try OpenFolder(at: folder.path)
            try System.makeFolder(at: folder.file("thesis"))
            try System.makeFile(at: folder.file("thesis/1"), [7], isDurable: false)
            #expect(chmod(folder.file("thesis"), 0o700) == 0)
            var above = try outer.status()
            above.st_mode = above.st_mode & ~0o7777 | 0o2777
            // The superuser gives a new folder to another user.
            if isForOwner, geteuid() == 0 { above.st_uid = 65534 }
            let status = above
            let count = Mutex(0)
            let last = number
            System.withInterposed { _ in
                let current = count.withLock { count in
                    count += 1
                    return count
                }
                guard current == last, let names = try? System.names(inFolder: folder.path) else { return }
                let target = names.first { $0 != "thesis" } ?? "new"
                if target != "new" || names.contains("new") { rename(folder.file(target), folder.file("away")) }
                rename(folder.file("thesis"), folder.file(target))
            } _: {
                if hasAccess {
                    _ = try? outer.makeFolder("new", access: FileAccess(status))
                } else {
                    _ = try? outer.makeFolder("new", like: status)
                }
            }
            let found = try outer.names().filter { try System.statusOfLink(at: folder.file("\($0)/1")) != nil }
            let name = try #require(found.first)
            let thesis = try #require(try outer.status(ofFile: name))
            #expect(
                thesis.st_mode & 0o7777 == 0o700 && thesis.st_uid == geteuid(),
                "call \(number): \(thesis.accessText)"
            )
            if name != "thesis" { swapped += 1 }
            if count.withLock({ $0 }) < number { break }
        }
        #expect(swapped >= 5, "the folder was swapped at \(swapped) of \(number) calls")
    }

    /// A new folder has its permissions when it gets its name, and what has the name already stays as it is.
    @Test func aNewFolderIsWhole() throws {
        let folder = try TemporaryFolder()
        let outer = try OpenFolder(at: folder.path)
        let access = FileAccess(mode: 0o660)
        func mode(_ path: String) throws -> mode_t? { try System.statusOfLink(at: path).map { $0.st_mode & 0o777 } }
        let isNew = try System.withFaults([Fault(.rename, errno: EEXIST, times: 1)]) {
            try outer.makeFolder("new", access: access)
        }
        #expect(try !isNew && outer.names().isEmpty)
        for call in [SystemCall.chmod, .open, .opendir, .fstat, .rename] {
            #expect(throws: SystemError.self, "\(call)") {
                try System.withFaults([Fault(call, errno: EIO, times: 1)]) {
                    try outer.makeFolder("new", access: access)
                }
            }
            #expect(try outer.names().isEmpty, "\(call)")
        }
        #expect(try outer.makeFolder("new", access: access))
        #expect(try outer.names() == ["new"] && mode(folder.file("new")) == 0o770)
        #expect(try !outer.makeFolder("new", access: FileAccess(mode: 0o600)))
        #expect(try mode(folder.file("new")) == 0o770)
        #expect(symlink("nowhere", folder.file("link")) == 0)
        #expect(try !outer.makeFolder("link", access: access) && !outer.makeFolder("link", like: outer.status()))
    }

    @Test func aFolderIsRemovedWithAllThatIsInIt() throws {
        let folder = try TemporaryFolder()
        let outer = try OpenFolder(at: folder.path)
        for name in ["kept", "gone", "gone/inner"] { try System.makeFolder(at: folder.file(name)) }
        for name in ["kept/a", "gone/b", "gone/inner/c"] {
            try System.makeFile(at: folder.file(name), [], isDurable: false)
        }
        #expect(symlink(folder.file("kept"), folder.file("gone/link")) == 0)
        #expect(try outer.removeAll("gone"))
        #expect(try !outer.removeAll("gone"))
        #expect(folder.contents == ["kept"])
        #expect(try System.names(inFolder: folder.file("kept")) == ["a"])
    }
}
