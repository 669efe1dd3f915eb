import Foundation
import Roundtable
import RoundtableTestSupport
import Synchronization
import Testing

@testable import RoundtableKernel
@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// The parts of `roundtable restore` that need neither Litestream nor a database.
@Suite struct RestorePartsTests {
    // MARK: The URL

    @Test(arguments: [
        ("s3://bucket/path", "s3://bucket/path"),
        ("file:///backup/a@b:c", "file:///backup/a@b:c"),
        ("sftp://me@host:22/path", "sftp://…@host:22/path"),
        ("sftp://me:pass%20word@host/path", "sftp://…@host/path"),
        ("nats://u:p:q@r@host/b", "nats://…@host/b"),
        (
            "s3://b/p?endpoint=http://h&secretAccessKey=S/cr%2Bet&region=r",
            "s3://b/p?endpoint=http://h&…&region=r"
        ),
        ("gs://b/p?token=abc#end", "gs://b/p?…#…"),
    ])
    func shownURL(_ text: String, _ shown: String) throws {
        #expect(try ReplicaURL(text).shown == shown)
        #expect(try ReplicaURL(text).text == text)
    }

    /// Messages of Litestream's may have the password as it was, or decoded.
    @Test func messagesAreRedacted() throws {
        let url = try ReplicaURL("webdav://me:pass%20word@host/path?sig=x%2By")
        #expect(url.redacting("dial me:pass%20word, me:pass word, x%2By, x+y") == "dial …, …, …, …")
        let error = RestoreFailure.error("Get \"https://me:pass word@host\": 401\nmore", from: url, into: "/f")
        #expect(!error.description.contains("pass word") && !error.description.contains("more"))
    }

    @Test(arguments: ["", "bucket/path", "/backup", "me:secret@host"])
    func noURL(_ text: String) {
        let error = #expect(throws: ToolError.self) { try ReplicaURL(text) }
        #expect(error?.description.contains("needs a scheme") == true)
        #expect(error?.description.contains("secret") == false)
    }

    // MARK: The time

    @Test(arguments: [
        ("2026-11-23T17:29:21Z", "2026-11-23T17:29:21.000Z"),
        ("2026-11-23T17:29:21.3819Z", "2026-11-23T17:29:21.381Z"),
        ("2026-11-23 18:29:21,5+01:00", "2026-11-23T17:29:21.500Z"),
        ("2026-11-23T00:29-0130", "2026-11-23T01:59:00.000Z"),
        ("2024-02-29T23:59:59.999-00:01", "2024-03-01T00:00:59.999Z"),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500Z"),
    ])
    func time(_ text: String, _ utc: String) {
        #expect(RestoreTime(text)?.text == utc)
    }

    @Test(arguments: [
        "2026-11-23", "2026-11-23T17:29:21", "2026-13-23T17:29:21Z", "2026-02-29T17:29:21Z", "2026-11-23T25:00:00Z",
        "now",
        "2026-11-23T17:29:21+25:00", "٢٠٢٦-11-23T17:29:21Z", "",
    ])
    func noTime(_ text: String) {
        #expect(RestoreTime(text) == nil)
    }

    /// Litestream takes what is *before* a time, so it is given the next millisecond.
    @Test func nextMillisecond() throws {
        let request = RestoreRequest(
            url: try ReplicaURL("s3://b"),
            at: RestoreTime("2026-11-23T17:29:21.999Z"),
            output: "/f/database"
        )
        let arguments = request.arguments(isPlan: true)
        #expect(arguments.contains("2026-11-23T17:29:22.000Z"))
        #expect(arguments.contains("-dry-run") && arguments.last == "/f/database")
        #expect(!request.arguments(isPlan: false, at: nil).contains("-timestamp"))
    }

    @Test func configurationIsQuoted() throws {
        let request = RestoreRequest(url: try ReplicaURL("s3://b/\"$HOME\"?a=b"), at: nil, output: "/f/ö: x")
        let object = try JSONSerialization.jsonObject(with: Data(try request.configuration.utf8)) as? [String: Any]
        let database = (object?["dbs"] as? [[String: Any]])?.first
        #expect(database?["path"] as? String == "/f/ö: x")
        #expect((database?["replica"] as? [String: String])?["url"] == "s3://b/\"$HOME\"?a=b")
        #expect((object?["logging"] as? [String: Any])?["type"] as? String == "json")
    }

    // MARK: What Litestream says

    @Test(arguments: [
        ("dial tcp 127.0.0.1:1: connect: connection refused", "the server cannot be reached"),
        (
            "webdav: cannot read directory \"/rep/ltx/9\": Authorize /rep/ltx/9/: 401",
            "the credentials are missing or refused"
        ),
        (
            "ssh: handshake failed: ssh: unable to authenticate, attempted methods [none password]",
            "the credentials are missing or refused"
        ),
        ("decode database: close reader 0: file checksum mismatch", "the backup is damaged"),
        ("write page 3: write /d/.x/database.tmp: no space left on device", "/d: the disk has not enough space"),
        ("unknown replica type in config: \"foo\"", "Litestream knows no replicas of the kind 's3'"),
        ("user required for sftp replica", "the URL is not complete"),
        ("something new", "litestream failed (something new)"),
    ])
    func failures(_ failure: String, _ what: String) throws {
        let error = RestoreFailure.error(failure, from: try ReplicaURL("s3://b/p"), into: "/d")
        #expect(error.description.contains(what), "\(error)")
        #expect(error.description.hasSuffix(".") && !error.description.contains("\n"))
    }

    @Test func restoredState() throws {
        let line =
            #"{"time":"2026-11-23T17:29:21.5Z","level":"DEBUG","msg":"restore plan","n":1,"txid":"000000000000001f","timestamp":"2026-11-23T17:29:21.381Z"}"#
        let state = try #require(RestoredState(LitestreamLogEntry.entries(in: line)))
        #expect(state.transaction == "000000000000001f" && state.time == RestoreTime("2026-11-23T17:29:21.381Z"))
        #expect(RestoredState([]) == nil)
    }

    // MARK: Progress

    @Test func progressText() {
        #expect(RestoreProgress.text(0, of: nil, fetching: 5000, style: .lines) == "fetching 5,000 B of the backup …")
        #expect(
            RestoreProgress.text(2048, of: 8192, fetching: 5000, style: .lines) == "restored 2,048 B of 8,192 B (25 %)"
        )
        let bar = RestoreProgress.text(9000, of: 8192, fetching: 5000, style: .bar)
        #expect(bar == String(repeating: "█", count: 30) + " restored 9,000 B of 8,192 B (100 %)")
    }

    /// At most one line per 10 s, and nothing with `--json`.
    @Test func progressLines() {
        let start = ContinuousClock.now
        for (style, count) in [(RestoreProgress.Style.lines, 3), (.none, 0)] {
            let written = Written()
            let progress = RestoreProgress(style, now: start) { written.add($0) }
            for second in 0...35 { progress.show("\(second)", now: start + .seconds(second)) }
            progress.clear()
            #expect(written.texts == Array(["10\n", "20\n", "30\n"].prefix(count)))
        }
    }

    @Test func databaseSize() {
        var header = Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0, count: 84)
        #expect(GrowingFile.databaseSize(header: header) == nil)
        (header[16], header[31]) = (0x10, 7)
        #expect(GrowingFile.databaseSize(header: header) == 28672)
        (header[16], header[17]) = (0, 1)
        #expect(GrowingFile.databaseSize(header: header) == 7 * 65536)
        #expect(GrowingFile.databaseSize(header: Array(header.prefix(20))) == nil)
    }
}

// @unchecked is correct because only one thread writes.
private final class Written: @unchecked Sendable {
    private(set) var texts: [String] = []
    func add(_ text: String) { texts.append(text) }

    // MARK: Users

    /// After a crash, the control block shows participants that are dead. They do not use the database.
    @Test func deadParticipantsAreNoUsers() throws {
        let folder = try TemporaryFolder()
        let target = try RestoreTarget(folder.file("a.db").path) { _ in }
        let block = try ControlBlock.openOrCreate(forDatabaseAt: target.path, access: nil)
        let participant = try Participant(in: block, author: "app", traits: .init(role: .readWrite, priority: 1))
        #expect(target.users().map(\.name) == ["app"])
        #expect(throws: ToolError.self) { try target.check(isReplacing: false) }
        let ended = try Process.run(URL(fileURLWithPath: "/bin/true"), arguments: [])
        ended.waitUntilExit()
        block.locks.drop(participant.slot.index, of: participant.ownerWord)
        participant.slot.owner.pointee.store(
            OwnerWord(pid: ended.processIdentifier, incarnation: 9).rawValue,
            ordering: .sequentiallyConsistent
        )
        #expect(block.participants().map(\.liveness) == [.dead])
        #expect(target.users().isEmpty)
        try target.check(isReplacing: false)
        try target.check(isReplacing: true)
    }
}
