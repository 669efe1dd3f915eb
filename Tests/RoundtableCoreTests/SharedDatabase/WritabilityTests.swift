import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// A connection that must write and that SQLite could open for reading only is refused, wherever it is opened (rule W9b).
@Suite(.timeLimit(.minutes(1))) struct WritabilityTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
    }

    private var path: String { System.resolvedPath(url.path) }

    /// A file that another process removes while it is looked at is not forbidden.
    @Test func aFileThatIsRemovedMeanwhile() throws {
        try Data().write(to: url)
        let wal = path + "-wal"
        let isOver = Shared(false)
        let remover = Thread {
            while !isOver.value {
                _ = FileManager.default.createFile(atPath: wal, contents: nil)
                try? FileManager.default.removeItem(atPath: wal)
            }
        }
        remover.start()
        defer { isOver.change { $0 = true } }
        for _ in 0..<20_000 {
            if let forbidden = ForbiddenFile(databasePath: path, writing: true) {
                Issue.record("\(forbidden.message)")
                return
            }
        }
    }

    private func open(upTo version: Int = 1) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator(upTo: version)), as: "app")
    }

    /// The first opening is refused, and says so or can write; the second one can write.
    private func expectItIsWritableOrRefused(upTo version: Int = 1, _ suffix: String) throws {
        do {
            let db = try open(upTo: version)
            try db.insert("Arthur")
            try db.close()
        } catch let error as DatabaseError {
            #expect(error.resultCode == .SQLITE_CANTOPEN, "\(error)")
            #expect(error.message?.hasPrefix("\(path): ") == true, "\(error)")
            #expect(error.message?.contains("open \(path)\(suffix) for writing") == true, "\(error)")
        }
        #expect(RefusedOpenings.remaining(path + suffix) == 0, "it was not opened for writing")
        let db = try open(upTo: version)
        try db.insert("Ford")
        try db.close()
    }

    @Test(arguments: ["-wal", "-shm"]) func anEmptyDatabaseWithFilesLeftOver(suffix: String) throws {
        for name in [path, path + "-wal", path + "-shm"] {
            #expect(FileManager.default.createFile(atPath: name, contents: nil))
        }
        try RefusedOpenings.refuse(path + suffix, times: 1)
        try expectItIsWritableOrRefused(suffix)
    }

    @Test(arguments: ["", "-wal", "-shm"]) func aDatabaseToBeMigrated(suffix: String) throws {
        let db = try open()
        try db.insert("Zaphod")
        try db.close()
        try RefusedOpenings.refuse(path + suffix, times: 1)
        try expectItIsWritableOrRefused(upTo: 2, suffix)
    }

    /// The process of the database died: the first connection must recover the wal-index.
    @Test(arguments: [1, 2]) func aWalIndexToBeRecovered(version: Int) throws {
        do {
            let db = try open()
            try db.insert("Zaphod")
            let copy = folder.file("copy.sqlite")
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy.path + suffix)
            }
            try db.close()
            for suffix in ["", "-wal", "-shm"] {
                try FileManager.default.removeItem(atPath: path + suffix)
                if suffix == "-shm" { continue }
                try FileManager.default.moveItem(atPath: copy.path + suffix, toPath: path + suffix)
            }
            #expect(FileManager.default.createFile(atPath: path + "-shm", contents: nil))
        }
        try RefusedOpenings.refuse(path + "-shm", times: 1)
        try expectItIsWritableOrRefused(upTo: version, "-shm")
    }

    /// All connections of a process use the wal-index that the first has opened.
    @Test func aReadOnlyParticipantWithAWalIndexForReadingOnly() throws {
        let first = try open()
        try first.insert("Arthur")
        try first.close()
        try RefusedOpenings.refuse(path + "-shm", times: 1)
        let answer = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .available(let reader) = answer else { return #expect(Bool(false), "\(answer)") }
        #expect(try reader.read(Player.fetchCount) == 1)
        #expect {
            try open().close()
        } throws: { error in
            "\(error)".contains("a read-only participant of this process has the database open, close that first")
                // The following causes are not visible to access(2).
                && "\(error)".contains("an append-only file") && "\(error)".contains("SELinux")
        }
        try reader.close()
        let db = try open()
        try db.insert("Ford")
    }
}

/// W9c: the attempts to open a connection in the background become rare.
@Test func pausesOfRetriesGrow() {
    var backoff = Backoff.reopening
    #expect((0..<7).map { _ in backoff.next() / 1_000_000_000 } == [1, 2, 4, 8, 16, 30, 30])
}
