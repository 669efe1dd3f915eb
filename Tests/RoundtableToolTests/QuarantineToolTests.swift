import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

/// `roundtable quarantine`.
@Suite struct QuarantineToolTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func open() throws -> SharedDatabase {
        let url = URL(fileURLWithPath: folder.path("a.db"))
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
    }

    @Test func movesIt() throws {
        let db = try open()
        try db.insert("A")
        let result = try Tool.run("quarantine", "a.db", "--json", in: folder)
        #expect(result.code == 0 && result.errors.isEmpty, "\(result.errors)")
        #expect(result.json?["path"] as? String == db.path)
        let path = try #require(result.json?["quarantined"] as? String)
        #expect(try DatabaseQueue(path: path).read { try Player.fetchCount($0) } == 1)
        #expect(throws: SharedDatabaseError.self) { try db.insert("B") }
        try db.close()
        try open().close()
        let text = try Tool.run("quarantine", "a.db", in: folder)
        #expect(text.output.contains("a.db-quarantined-") && text.output.contains("creates a new one"), "\(text)")
    }

    /// A write that runs is waited for as long as `--timeout` says.
    @Test(.timeLimit(.minutes(1))) func waitsForAWrite() async throws {
        let db = try open()
        try await db.whileWriting {
            let began = ContinuousClock.now
            let result = try await onThread { [folder] in
                Result { try Tool.run("quarantine", "a.db", "--timeout", "0.3", in: folder) }
            }.get()
            #expect(result.code == 1 && result.errors.contains("'app' (pid \(getpid()))"), "\(result.errors)")
            #expect(result.errors.contains("Nothing was changed. Try again after that, or give a longer --timeout."))
            #expect(ContinuousClock.now - began >= .milliseconds(300) && ContinuousClock.now - began < .seconds(20))
        }
        func insertAndClose() throws {
            try db.insert("A")
            try db.close()
        }
        try insertAndClose()
    }

    /// One line for each reason, and nothing has changed.
    @Test func refuses() throws {
        let missing = try Tool.run("quarantine", "none.db", in: folder)
        #expect(missing.code == 1 && missing.errors.contains("none.db: "), "\(missing.errors)")
        #expect(missing.errors.split(separator: "\n").count == 1, "\(missing.errors)")
        let db = try open()
        // To the tool, this process is one that does not use Roundtable, as soon as it has no participant.
        let queue = try DatabaseQueue(path: db.path)
        try queue.read { _ = try Player.fetchCount($0) }
        try db.close()
        let refused = try Tool.run("quarantine", "a.db", in: folder)
        #expect(refused.code == 1 && refused.errors.contains("(pid \(getpid()))"), "\(refused.errors)")
        #expect(refused.errors.contains("Nothing was changed"), "\(refused.errors)")
        try queue.close()
        #expect(try Tool.run("quarantine", "a.db", in: folder).code == 0)
    }
}
