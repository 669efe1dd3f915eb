import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDiagnostics

/// A database that no process has open is not read again before one of its files has changed.
@Suite struct UnattendedContentTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("a.db")
    }

    /// Leaves frames in the WAL.
    private func write(_ sql: String) throws {
        var options = SharedDatabase.Options()
        options.checkpointing = .external
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options)
        try db.write { try $0.execute(sql: sql) }
        try db.close()
    }

    /// Lets the files be as old as those of an idle database.
    private func age() throws {
        let past = Date(timeIntervalSinceNow: -10)
        for suffix in ["", "-wal", "-shm"] {
            try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: url.path + suffix)
        }
    }

    private func look(_ content: UnattendedContent) throws -> DatabaseStatus {
        try DatabaseStatus(ofDatabaseAt: url, outboxFolder: nil, reading: nil, knowing: content)
    }

    @Test func itIsReadOnce() throws {
        try write("CREATE TABLE a (x)")
        try age()
        let content = UnattendedContent()
        let first = try look(content)
        #expect(first.schema?.tableCount == 1 && first.files.wal ?? 0 > 0)
        #expect(content.recalls == 0)
        let second = try look(content)
        #expect(content.recalls == 1)
        #expect(second == first)

        try write("CREATE TABLE b (x)")
        try age()
        #expect(try look(content).schema?.tableCount == 2)
        #expect(content.recalls == 1)
    }

    /// A file that was just written may be written again within the resolution of the file's time.
    @Test func whatWasJustWrittenIsReadAgain() throws {
        try write("CREATE TABLE a (x)")
        let content = UnattendedContent()
        for _ in 0..<2 { _ = try look(content) }
        #expect(content.recalls == 0)
    }

    /// As long as a process has it open, reading costs little, and the wal-index shows how much is copied.
    @Test func anOpenDatabaseIsRead() throws {
        try write("CREATE TABLE a (x)")
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        try age()
        let content = UnattendedContent()
        for _ in 0..<2 { #expect(try look(content).wal != nil) }
        #expect(content.recalls == 0)
        try db.close()
    }
}
