import Foundation
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
        try System.renameFile(at: folder.file("inner"), to: folder.file("moved"))
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

    /// Who may enter a folder, and may not list it, reaches files in it.
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
