import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// The line that says for how long a command has been running.
@Suite(.timeLimit(.minutes(2))) struct RunningTimeTests {
    private static let isPossible = PseudoTerminal.isPossible && FileLease.isPossible

    private func database() throws -> Folder {
        let folder = try Folder()
        try #require(try Tool.run("sql", "a.db", "CREATE TABLE player (id INTEGER PRIMARY KEY)", in: folder).code == 0)
        return folder
    }

    /// Expects that the line was shown and removed before other text was written.
    private func expectShown(
        _ what: String,
        before end: String,
        in output: String,
        _ location: SourceLocation = #_sourceLocation
    ) {
        let parts = output.components(separatedBy: "\r\u{1B}[K")
        let line = "\r\(what) … 1 s"
        #expect(parts.count >= 2 && parts[0].hasPrefix(line), "\(output.debugDescription)", sourceLocation: location)
        let last = parts.last ?? ""
        #expect(last.contains(end) && !last.contains(what), "\(output.debugDescription)", sourceLocation: location)
    }

    @Test(
        .long(),
        .enabled(if: isPossible, "needs setsid(1), and leases of files"),
        arguments: [
            ("status a.db", "looking at the database", "schema"),
            ("status a.db --json", "looking at the database", "journal_mode"),
            ("doctor a.db", "examining the database", "a.db"),
            ("doctor a.db --check", "checking the content", "a.db"),
            ("history a.db", "reading the history", "a.db"),
        ]
    )
    func `A command that has to wait shows for how long, and removes that before it prints`(
        command: String,
        what: String,
        end: String
    ) throws {
        let folder = try database()
        // The command waits for the file.
        var lease: FileLease? = try FileLease(of: folder.path("a.db"))
        let arguments = command.split(separator: " ").map(String.init)
        let terminal = try PseudoTerminal([Tool.url.path] + arguments, in: folder, columns: 1000)
        try terminal.wait(for: "\r\(what) … 1 s")
        withExtendedLifetime(lease) {}
        lease = nil
        _ = try terminal.waitForEnd()
        expectShown(what, before: end, in: terminal.output)
    }

    @Test(.long(), .enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `outbox shows for how long it has been reading, and removes that before it prints`() throws {
        let folder = try database()
        let connection = try DatabaseQueue(path: folder.path("a.db"))
        // The tool waits for this lock for 5 s.
        try connection.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE; INSERT INTO player DEFAULT VALUES")
        }
        let terminal = try PseudoTerminal([Tool.url.path, "outbox", "a.db"], in: folder, columns: 1000)
        #expect(try terminal.waitForEnd() == 1)
        expectShown("reading the outbox", before: "is locked", in: terminal.output)
        try connection.close()
    }

    private struct Note: OutboxCommand {
        static let name = "note"
        static let version = 1
        var text: String
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `outbox retry shows for how long it has been waiting for the outcome`() throws {
        let folder = try Folder()
        let url = URL(fileURLWithPath: folder.path("a.db"))
        var handlers = OutboxHandlers()
        handlers.retries.maximumAttempts = 1
        struct Refused: Error {}
        handlers.handle(Note.self) { _, _ in throw Refused() }
        let command = try CommandOutbox(forDatabaseAt: url, as: "widget").submit(Note(text: "one"))
        var options = SharedDatabase.Options()
        options.outbox = handlers
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app", options: options).close()
        let terminal = try PseudoTerminal(
            [Tool.url.path, "outbox", "a.db", "retry", command.id.uuidString, "--yes", "--wait", "2"],
            in: folder,
            columns: 1000
        )
        #expect(try terminal.waitForEnd() == 0)
        expectShown("waiting for the outcome", before: "not tried", in: terminal.output)
    }

    @Test(.enabled(if: PseudoTerminal.isPossible, "needs setsid(1)"))
    func `snapshot shows for how long it has been reading and formatting`() throws {
        let folder = try Folder()
        var options = SnapshotFileOptions()
        options.maximumSize = 1 << 28
        let url = URL(fileURLWithPath: folder.path("a.snapshot"))
        let store = SnapshotStore(url, version: 1, writer: "app", options: options)
        var (count, isShown) = (3_000_000, false)
        while !isShown {
            try #require(count < 100_000_000, "it is never shown")
            _ = try store.write(Array("[0\(String(repeating: ",0", count: count))]".utf8), .json)
            let terminal = try PseudoTerminal([Tool.url.path, "snapshot", "a.snapshot"], in: folder)
            try terminal.wait("the line, or the end") { terminal in
                isShown = terminal.output.contains("\rreading the snapshot … 1 s")
                return isShown || !terminal.isRunning
            }
            // A fast machine needs more numbers, so that decoding and formatting them takes longer than a second.
            count *= 2
        }
    }

    @Test(.long()) func `Without a terminal, no progress is shown`() throws {
        let folder = try database()
        let connection = try DatabaseQueue(path: folder.path("a.db"))
        try connection.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE; INSERT INTO player DEFAULT VALUES")
        }
        let result = try Tool.run("outbox", "a.db", "--json", in: folder)
        #expect(result.code == 1 && !result.errors.contains("reading"), "\(result.errors)")
        try connection.close()
    }
}
