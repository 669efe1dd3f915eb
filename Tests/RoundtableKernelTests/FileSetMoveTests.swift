import Foundation
import RoundtableTestBasics
import Testing

@testable import RoundtableKernel

/// What others do while files are moved, and failures (rules S16, S17).
@Suite struct FileSetMoveTests {
    private let folder: TemporaryFolder
    private let parent: OpenFolder
    private let aside: OpenFolder
    private let move: FileSetMove
    private let companions = ["db-wal", "db-shm"]

    init() throws {
        folder = try TemporaryFolder()
        parent = try OpenFolder(at: folder.path)
        aside = try parent.makePrivateFolder("aside")
        move = FileSetMove(of: "db", in: parent)
        try write("db", "old")
        try write("db-wal", "old")
    }

    private func write(_ name: String, _ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: folder.file(name)))
    }

    private func text(_ name: String) -> String? { try? String(contentsOfFile: folder.file(name), encoding: .utf8) }

    private func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: folder.file(name)) }

    @Test func movesAll() throws {
        try write("db-salt", "salt")
        try move.move(to: aside, linked: companions, others: ["db-salt"])
        #expect(text("aside/db") == "old" && text("aside/db-wal") == "old" && text("aside/db-salt") == "salt")
        #expect(try parent.names() == ["aside"])
    }

    /// A companion that appears before the database moves belongs to it.
    @Test func aLateCompanionFollows() throws {
        try remove("db-wal")
        try move.move(to: aside, linked: companions) { try? write("db-wal", "late") }
        #expect(text("aside/db-wal") == "late" && text("db-wal") == nil)
    }

    /// A mover that was frozen after the rename finds the next database.
    @Test func theNextDatabaseStays() throws {
        try move.move(to: aside, linked: companions) {
            try? remove("db-wal")
            try? write("db", "next")
            try? write("db-wal", "next")
            try? write("db-shm", "next")
        }
        #expect(text("aside/db") == "old" && text("aside/db-wal") == "old" && text("aside/db-shm") == nil)
        #expect(text("db") == "next" && text("db-wal") == "next" && text("db-shm") == "next")
    }

    /// Another mover was faster: what it has moved is not taken apart.
    @Test func theDatabaseIsGone() throws {
        try remove("db")
        #expect(throws: SystemError.self) { try move.move(to: aside, linked: companions) }
        #expect(text("db-wal") == "old")
        #expect(try aside.names() == [])
    }

    @Test func isTakenBack() throws {
        try write("db-salt", "salt")
        let all = companions + ["db-salt"]
        try move.move(to: aside, linked: companions, others: ["db-salt"])
        try move.takeBack(from: aside, all)
        #expect(text("db") == "old" && text("db-wal") == "old" && text("db-salt") == "salt")
        #expect(try aside.names() == [])
    }

    /// Where there is another database, nothing is removed from the folder, and nothing put beside that one.
    @Test func isNotTakenBackOverAnother() throws {
        try move.move(to: aside, linked: companions)
        try write("db", "next")
        #expect(throws: SystemError.self) { try move.takeBack(from: aside, companions) }
        #expect(text("aside/db") == "old" && text("aside/db-wal") == "old")
        #expect(text("db") == "next" && text("db-wal") == nil)
    }
}
