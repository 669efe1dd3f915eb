import Foundation
import Testing

@testable import RoundtableKernel

@Suite struct FileWatchTests {
    @Test func aWriteIsSeenOncePerArming() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("a-wal")
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        let watch = FileWatch(path: path, folder: folder.path)
        let file = try #require(FileHandle(forWritingAtPath: path))
        try watch.arm()
        #expect(try watch.wait(upTo: 1_000_000) == .timedOut)
        file.write(Data([1]))
        #expect(try watch.wait() == .changed)
        // What happened before arming is not reported.
        file.write(Data([2]))
        try watch.arm()
        #expect(try watch.wait(upTo: 1_000_000) == .timedOut)
        file.write(Data([3]))
        #expect(try watch.wait() == .changed)
    }

    @Test func aFileThatIsNotThereYetIsSeenWhenItComes() throws {
        let folder = try TemporaryFolder()
        let watch = FileWatch(path: folder.file("a-wal"), folder: folder.path)
        try watch.arm()
        _ = FileManager.default.createFile(atPath: folder.file("a-wal"), contents: nil)
        #expect(try watch.wait() == .changed)
    }

    @Test func anInterruptEndsTheWaitForGood() throws {
        let folder = try TemporaryFolder()
        let watch = FileWatch(path: folder.file("a-wal"), folder: folder.path)
        try watch.arm()
        let thread = Thread { watch.interrupt() }
        thread.start()
        #expect(try watch.wait() == .interrupted)
        #expect(watch.pause(60_000_000_000) == .interrupted)
    }

    @Test func aSystemWithoutWatchesSaysSo() throws {
        System.withFaults([Fault(.inotify, errno: EMFILE), Fault(.kqueue, errno: EMFILE)]) {
            _ = #expect(throws: SystemError.self) { try FileWatch(path: "/tmp/a-wal", folder: "/tmp").arm() }
        }
    }
}
