import Foundation
import GRDB
import Roundtable
import RoundtableJobs
import RoundtableTestBasics
import Testing

/// Features whose tables are in a database that takes the turns of another one, which has it attached (rule W14).
@Suite(.timeLimit(.minutes(1))) struct SecondDatabaseTests {
    let fixture: JobsFixture
    let own: Pair
    let other: Pair

    struct Pair: Sendable {
        let main: SharedDatabase
        let side: SharedDatabase
    }

    init() throws {
        fixture = try JobsFixture()
        own = try Self.open("own", fixture)
        other = try Self.open("other", fixture)
    }

    static func open(_ author: String, _ fixture: JobsFixture) throws -> Pair {
        var options = SharedDatabase.Options()
        options.process = fixture.process
        let side = fixture.url
        options.configuration.prepareDatabase { try $0.execute(sql: "ATTACH ? AS side", arguments: [side.path]) }
        let main = try SharedDatabase.open(
            at: fixture.folder.file("main.sqlite"),
            schema: .unmanaged,
            as: author,
            options: options
        )
        return Pair(main: main, side: try fixture.open(author) { $0.turnsOf = main })
    }

    func effects(_ pair: Pair) async throws -> Int {
        try await pair.main.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM side.effect")! }
    }

    /// Jobs are added by connections of both databases, and done once each by workers of two participants.
    @Test func jobs() async throws {
        let queue = JobQueue("mail", of: Mail.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for pair in [own, other] {
                group.addTask {
                    try await queue.run(in: pair.side) { job in
                        try await job.complete { db in
                            try db.execute(
                                sql: "INSERT INTO effect VALUES (?, ?)",
                                arguments: [job.id, job.attempt]
                            )
                        }
                    }
                }
            }
            for index in 0..<50 {
                let mail = Mail(to: "\(index)")
                try await (index % 2 == 0 ? own : other).side.write { _ = try queue.add(mail, in: $0) }
                try await own.main.write { try $0.execute(sql: "UPDATE side.effect SET attempt = attempt") }
            }
            try await eventually("all are done") { try await effects(own) == 50 }
            group.cancelAll()
            while let result = await group.nextResult() {
                if case .failure(let error) = result { #expect(error is CancellationError, "\(error)") }
            }
        }
        let ids = try await own.side.read { try Int.fetchAll($0, sql: "SELECT job FROM effect") }
        #expect(Set(ids).count == 50 && ids.count == 50)
    }

    /// A role is handed over when the holder closes the second database, and its writes wait for the turn of the first.
    @Test func roles() async throws {
        let first = try await own.side.role("sync").acquire()
        let (own, other) = (own, other)
        let wait = Task { try await other.side.role("sync").acquire() }
        try await first.write { try $0.execute(sql: "INSERT INTO effect VALUES (1, 1)") }
        try own.side.close()
        let second = try await wait.value
        #expect(second.generation == 2)
        try await second.write { try $0.execute(sql: "INSERT INTO effect VALUES (2, 1)") }
        await #expect(throws: (any Error).self) {
            try await first.write { try $0.execute(sql: "INSERT INTO effect VALUES (3, 1)") }
        }
        #expect(try await effects(other) == 2)
    }

    /// The history has what connections of both databases have written, without an author for those of the first.
    @Test func history() async throws {
        try await own.side.write { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY)") }
        try await own.side.history.enable(for: "note")
        let token = try await own.side.history.changes(since: nil).token
        try await other.side.write { try $0.execute(sql: "INSERT INTO note VALUES (1)") }
        try await other.main.write { try $0.execute(sql: "INSERT INTO side.note VALUES (2)") }
        try await own.side.write { try $0.execute(sql: "DELETE FROM note WHERE id = 1") }
        let changes = try await own.side.history.changes(since: token).changes
        #expect(changes.map { "\($0.operation) \($0.author ?? "-")" } == ["insert other", "insert -", "delete own"])
    }
}
