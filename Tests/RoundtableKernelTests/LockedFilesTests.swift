import Foundation
import Testing

@testable import RoundtableKernel

/// Files that SQLite locks are not opened, whatever name leads to them (rule G5).
@Suite struct LockedFilesTests {
    private static let endings = ["", "-shm", "-journal"]

    @Test func noLinkLeadsToADatabase() throws {
        let folder = try TemporaryFolder()
        let database = folder.file("db")
        for ending in Self.endings {
            try System.makeFile(at: database + ending, [1], isDurable: false)
            #expect(symlink(database + ending, folder.file("symbolic\(ending)")) == 0)
            #expect(link(database + ending, folder.file("hard\(ending)")) == 0)
        }
        let names = ["symbolic", "hard", "db"].flatMap { name in Self.endings.map { folder.file(name + $0) } }
        do {
            let registration = LockedFiles(ofDatabaseAt: database)
            var again: LockedFiles? = LockedFiles(ofDatabaseAt: database)
            for name in names { try expectRefusal(of: name, database) }
            again = nil
            for name in names { try expectRefusal(of: name, database) }
            withExtendedLifetime((registration, again)) {}
        }
        for name in names {
            #expect(try System.contents(ofFileAt: name, limit: 9) == [1])
            // One that is open here without being registered.
            #expect(throws: (any Error).self) {
                try System.contents(ofFileAt: name, limit: 9, followingLinks: false, notOf: database)
            }
        }
    }

    /// A database whose path fails does not prevent the files of others from being opened.
    @Test func aDatabaseThatCannotBeReached() throws {
        let folder = try TemporaryFolder()
        let unreachable = LockedFiles(ofDatabaseAt: folder.file(String(repeating: "x", count: 300)))
        let block = try ControlBlock.openOrCreate(forDatabaseAt: folder.file("db"), access: nil)
        #expect(block.isIntact)
        withExtendedLifetime(unreachable) {}
    }

    private func expectRefusal(of name: String, _ database: String) throws {
        // A descriptor that was opened, even if only for a moment, would be too many.
        System.withFaults([Fault(.open, errno: EIO)]) {
            _ = #expect(throws: LockedFileError(path: name, database: database)) {
                try System.contents(ofFileAt: name, limit: 9)
            }
        }
    }

    /// The number of a file that was replaced may be a database's the next moment.
    @Test func aNumberThatIsUsedAgainBlocksNoFile() throws {
        let folder = try TemporaryFolder()
        let (value, database) = (folder.file("value"), folder.file("db"))
        let registration = LockedFiles(ofDatabaseAt: database)
        try System.makeFile(at: value, [1], isDurable: false)
        let found = try #require(try System.identity(ofFileAt: value))
        #expect(try LockedFiles.look(at: value, foundAs: found) == .unclaimed)
        // As if it were a new file with the same number.
        try System.renameFile(at: FilePlace(value), to: FilePlace(database))
        #expect(try LockedFiles.look(at: value, foundAs: found) == .replaced)
        try System.makeFile(at: value, [2], isDurable: false)
        #expect(try LockedFiles.look(at: value, foundAs: found) == .replaced)
        #expect(try LockedFiles.look(at: database, foundAs: found) == .part(ofDatabaseAt: database))
        withExtendedLifetime(registration) {}
    }

    @Test func symbolicLinksAreNotFollowedUnlessRequested() throws {
        let folder = try TemporaryFolder()
        try System.makeFile(at: folder.file("a"), [1], isDurable: false)
        #expect(symlink(folder.file("a"), folder.file("b")) == 0)
        #expect(try System.contents(ofFileAt: folder.file("b"), limit: 9) == [1])
        let error = #expect(throws: SystemError.self) {
            try System.contents(ofFileAt: folder.file("b"), limit: 9, followingLinks: false)
        }
        #expect(error?.call == .read && error?.isMissingFile == true)
    }
}
