import Foundation
import Testing

@testable import RoundtableKernel

@Suite struct FolderWatchTests {
    @Test func createdAndRemovedFilesAreSeen() throws {
        let (folder, other) = (try TemporaryFolder(), try TemporaryFolder())
        let watch = try FolderWatch([folder.path, other.path], includingRemovals: true)
        #expect(try watch.wait(upTo: 1_000_000) == .timedOut)
        let steps: [() throws -> Void] = [
            { try System.makeFile(at: folder.file("a"), [], isDurable: false) },
            { try System.renameFile(at: FilePlace(folder.file("a")), to: FilePlace(other.file("b"))) },
            { try System.removeFile(at: other.file("b")) },
        ]
        for step in steps {
            try step()
            #expect(try watch.wait(upTo: 10_000_000_000) == .changed)
            // A step is several events, which may be delivered one after the other.
            var further = FolderWatch.Outcome.changed
            for _ in 1...10 where further == .changed { further = try watch.wait(upTo: 50_000_000) }
            #expect(further == .timedOut)
        }
    }

    #if os(Linux)
        @Test func removalsAreNotSeenUnlessRequested() throws {
            let folder = try TemporaryFolder()
            try System.makeFile(at: folder.file("a"), [], isDurable: false)
            let watch = try FolderWatch([folder.path], includingRemovals: false)
            try System.removeFile(at: folder.file("a"))
            #expect(try watch.wait(upTo: 1_000_000) == .timedOut)
        }
    #endif

    /// Its successor may have the same number, so only the watch can show the removal.
    @Test(arguments: [false, true]) func aRemovedFolderIsReported(isMoved: Bool) throws {
        let folder = try TemporaryFolder()
        let (kept, watched) = (folder.file("kept"), folder.file("watched"))
        for path in [kept, watched] { try System.makeFolder(at: path) }
        let watch = try FolderWatch([kept, watched], includingRemovals: false)
        try System.makeFile(at: watched + "/a", [], isDurable: false)
        #expect(try watch.wait(upTo: 10_000_000_000) == .changed)
        if isMoved {
            try System.renameFile(at: FilePlace(watched), to: FilePlace(folder.file("moved")))
        } else {
            try FileManager.default.removeItem(atPath: watched)
        }
        try System.makeFolder(at: watched)
        // The events of one file may come one by one.
        var outcome = FolderWatch.Outcome.changed
        while outcome == .changed { outcome = try watch.wait(upTo: 10_000_000_000) }
        #expect(outcome == .gone)
    }

    /// Other events there are not reported.
    @Test func aFolderAboveThatIsMovedIsReported() throws {
        let folder = try TemporaryFolder()
        let (outer, watched) = (folder.file("outer"), folder.file("outer/inner/watched"))
        for path in [outer, outer + "/inner", watched] { try System.makeFolder(at: path) }
        // Both what is watched and above what is watched.
        let watch = try FolderWatch([watched, outer + "/inner"], includingRemovals: false)
        try System.makeFile(at: outer + "/a", [], isDurable: false)
        #expect(try watch.wait(upTo: 1_000_000) == .timedOut)
        try System.makeFile(at: outer + "/inner/a", [], isDurable: false)
        #expect(try watch.wait(upTo: 10_000_000_000) == .changed)
        try System.renameFile(at: FilePlace(outer), to: FilePlace(folder.file("moved")))
        var outcome = FolderWatch.Outcome.changed
        while outcome == .changed { outcome = try watch.wait(upTo: 10_000_000_000) }
        #expect(outcome == .gone)
    }

    @Test func pathsFromTheTopDown() {
        #expect(System.foldersAbove(["/a/b/c", "/a/d/"]) == ["/a", "/a/b"])
        #expect(System.foldersAbove(["/", "/a", "a/b"]) == [])
    }

    /// Apple's sandbox refuses what is above the container, and does not move it.
    @Test(arguments: [
        ("/private/var/mobile/Containers/Shared/AppGroup/6F0C/a/b", ["", "/a"]),
        ("/private/var/mobile/Containers/Data/Application/6F0C/Documents", [""]),
        ("/private/var/mobile/Containers/Data/PluginKitPlugin/6F0C", []),
        ("/Users/me/Library/Group Containers/group.example/a", [""]),
        ("/Users/me/Library/Containers/com.example/Data/a", ["", "/Data"]),
    ])
    func foldersInsideOfAContainer(path: String, inside: [String]) {
        let container = path.split(separator: "/").prefix { !$0.contains(".") && $0 != "6F0C" }
        let root = "/" + path.split(separator: "/").prefix(container.count + 1).joined(separator: "/")
        #expect(System.foldersAbove([path], inContainers: true) == inside.map { root + $0 })
        #expect(System.foldersAbove(["/home/me/a"], inContainers: true) == ["/home", "/home/me"])
    }

    #if os(Linux)
        @Test func aFileThatIsWrittenInPlaceIsSeen() throws {
            let folder = try TemporaryFolder()
            try System.makeFile(at: folder.file("a"), [1], isDurable: false)
            let watch = try FolderWatch([folder.path], includingRemovals: false)
            #expect(try System.contents(ofFileAt: folder.file("a"), limit: 1) == [1])
            #expect(try watch.wait(upTo: 1_000_000) == .timedOut)
            try Data([2]).write(to: URL(fileURLWithPath: folder.file("a")))
            #expect(try watch.wait(upTo: 10_000_000_000) == .changed)
        }
    #endif

    @Test func aMissingFolderIsAnError() throws {
        let folder = try TemporaryFolder()
        #expect(throws: SystemError.self) { try FolderWatch([folder.file("none")], includingRemovals: false) }
    }

    @Test func anInterruptEndsTheWaitForGood() throws {
        let folder = try TemporaryFolder()
        let watch = try FolderWatch([folder.path], includingRemovals: false)
        let thread = Thread { watch.interrupt() }
        thread.start()
        #expect(try watch.wait() == .interrupted)
        #expect(try watch.wait() == .interrupted)
    }
}
