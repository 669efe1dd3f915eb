import Foundation
import Synchronization
import Testing

@testable import RoundtableKernel

/// Which files a participant has open, and whether they are in their places (rules W12). What a database does about it is in
/// `LostFileTests`.
@Suite struct DatabaseFilesTests {
    private func touch(_ path: String) { _ = FileManager.default.createFile(atPath: path, contents: nil) }

    /// A look that the system refuses says nothing of the files.
    @Test func aLookThatFails() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        touch(path)
        let files = DatabaseFiles(databasePath: path)
        files.opened(1, [.database])
        #expect(System.withFaults([Fault(.stat, errno: EACCES)]) { files.look() } == nil)
        #expect(files.look() == nil)
        let before = MonotonicClock.now
        try FileManager.default.removeItem(atPath: path)
        #expect(System.withFaults([Fault(.stat, errno: EACCES)]) { files.look() } == nil)
        // It was not taken for a look that found the files in place.
        #expect(files.lookIfDue(at: before + DatabaseFiles.validity)?.finding == .missing)
    }

    /// A connection that opens its companions when the database has been moved away does not take those of the next database for its own.
    @Test func companionsOfTheNextDatabase() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        touch(path)
        let files = DatabaseFiles(databasePath: path)
        files.opened(1, [.database])
        try FileManager.default.moveItem(atPath: path, toPath: path + ".away")
        for part in DatabaseFiles.Part.allCases { touch(path + part.suffix) }
        files.opened(1, DatabaseFiles.Part.allCases)
        let shown = Mutex(FileStamps(database: 1, companions: 1))
        files.follow { stamps in shown.withLock { $0 = stamps } }
        #expect(shown.withLock { $0.companions } == 0)
        #expect(files.look()?.finding == .replaced)
    }

    /// Companions that are opened later are recorded, too.
    @Test func companionsThatAreOpenedLater() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        for part in DatabaseFiles.Part.allCases { touch(path + part.suffix) }
        let files = DatabaseFiles(databasePath: path)
        files.opened(1, [.database])
        files.opened(1, DatabaseFiles.Part.allCases)
        try FileManager.default.removeItem(atPath: path + "-wal")
        #expect(files.look()?.part == .wal)
    }

    /// The first connection records all three files, also those of a database that was not there before, or was copied when it was opened.
    @Test(arguments: [false, true]) func allFilesAtOnce(isCopied: Bool) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        if isCopied { touch(path) }
        let files = DatabaseFiles(databasePath: path)
        if isCopied { try FileManager.default.moveItem(atPath: path, toPath: path + ".below") }
        for part in DatabaseFiles.Part.allCases { touch(path + part.suffix) }
        #expect(files.opened(1, DatabaseFiles.Part.allCases) == !isCopied)
        try FileManager.default.removeItem(atPath: path + "-wal")
        // A connection of which it is not known which file it has open does not count.
        if isCopied { #expect(files.look() == nil) } else { #expect(files.look()?.part == .wal) }
        if isCopied {
            // Nor do the companions that it had, which another program may replace when it has been closed.
            touch(path + "-wal")
            try FileManager.default.moveItem(atPath: path + "-shm", toPath: path + "-shm.before")
            touch(path + "-shm")
            #expect(files.opened(2, DatabaseFiles.Part.allCases))
            let shown = Mutex(FileStamps(database: 0, companions: 0))
            files.follow { stamps in shown.withLock { $0 = stamps } }
            #expect(shown.withLock { $0.companions } != 0)
            #expect(files.look() == nil)
        }
    }

    /// A look is valid for 10 ms, and a loss is final.
    @Test func aLookIsValid() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        touch(path)
        let files = DatabaseFiles(databasePath: path)
        files.opened(1, [.database])
        let before = MonotonicClock.now
        #expect(files.look() == nil)
        try FileManager.default.moveItem(atPath: path, toPath: path + ".away")
        #expect(files.lookIfDue(at: before + DatabaseFiles.validity - 1) == nil)
        let after = MonotonicClock.now
        let losses = Mutex(0)
        files.onLoss { _ in losses.withLock { $0 += 1 } }
        #expect(files.lookIfDue(at: after + DatabaseFiles.validity)?.finding == .missing)
        try FileManager.default.moveItem(atPath: path + ".away", toPath: path)
        #expect(files.look()?.finding == .missing)
        #expect(losses.withLock { $0 } == 1)
        files.onLoss { _ in losses.withLock { $0 += 1 } }
        #expect(losses.withLock { $0 } == 2)
    }

    /// Rules W12, W12b: the files that the first connection has recorded are in their places. A further connection may have others.
    @Test func aConnectionThatLooks() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        for part in DatabaseFiles.Part.allCases { touch(path + part.suffix) }
        let files = DatabaseFiles(databasePath: path)
        let first = MonotonicClock.now
        #expect(files.opened(1, DatabaseFiles.Part.allCases))
        try FileManager.default.moveItem(atPath: path + "-wal", toPath: path + ".away")
        #expect(files.look(since: first) == nil)
        let second = MonotonicClock.now
        #expect(files.opened(2, DatabaseFiles.Part.allCases))
        #expect(files.look(since: second)?.part == .wal)
        #expect(files.look(since: first)?.part == .wal, "a loss is final")
    }

    /// What could not be recorded was not compared.
    @Test func aConnectionWithoutAWAL() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        touch(path)
        let files = DatabaseFiles(databasePath: path)
        let began = MonotonicClock.now
        #expect(System.withFaults([Fault(.stat, errno: EACCES)]) { files.opened(1, [.database]) })
        try FileManager.default.removeItem(atPath: path)
        #expect(files.look(since: began)?.finding == .missing)
    }

    /// A file that gets the inode number of the one that was removed while no connection was open is another file.
    @Test func theSameInode() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        touch(path)
        let files = DatabaseFiles(databasePath: path)
        files.opened(1, [.database])
        files.closes(1)
        let identity = try System.identity(ofFileAt: path)
        // No connection has it open, so the system may use its inode again at once.
        var isReused = false
        for _ in 0..<50 where !isReused {
            try FileManager.default.removeItem(atPath: path)
            touch(path)
            isReused = try System.identity(ofFileAt: path) == identity
        }
        guard isReused else { return print("skipped: this file system does not use inode numbers again") }
        #expect(files.opened(2, [.database]))
        #expect(files.look()?.finding == .replaced)
    }

    /// While no connection is open, other processes may remove `-wal` and `-shm`: the process that closes last does.
    @Test func theLastConnectionForgets() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        func files() -> DatabaseFiles {
            for suffix in ["", "-wal", "-shm"] { touch(path + suffix) }
            let files = DatabaseFiles(databasePath: path)
            for connection: UInt in [1, 2] { #expect(files.opened(connection, DatabaseFiles.Part.allCases)) }
            return files
        }
        func removeWAL() throws { try FileManager.default.removeItem(atPath: path + "-wal") }
        let one = files()
        one.closes(1)
        try removeWAL()
        #expect(one.look()?.part == .wal)

        let none = files()
        none.closes(1)
        none.closes(2)
        try removeWAL()
        #expect(none.look() == nil)
        touch(path + "-wal")
        none.opened(3, DatabaseFiles.Part.allCases)
        #expect(none.look() == nil)

        let kept = files()
        kept.closes(1)
        kept.keeps(2, kept.closes(2))
        try removeWAL()
        #expect(kept.look()?.part == .wal)
    }

    /// A file system with layers copies a file when it is first opened for writing. The connection that does it may have either file open.
    @Test func theFirstConnectionFindsAnotherFile() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("db.sqlite")
        touch(path)
        let files = DatabaseFiles(databasePath: path)
        touch(path + ".copy")
        try #require(rename(path + ".copy", path) == 0)
        #expect(!files.opened(1, [.database]))
        #expect(files.opened(2, [.database]))
        #expect(files.look() == nil)
        try FileManager.default.removeItem(atPath: path)
        #expect(files.look()?.finding == .missing)
    }
}
