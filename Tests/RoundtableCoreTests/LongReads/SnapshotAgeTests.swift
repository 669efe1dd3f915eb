import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Snapshots that stay at one moment for too long, and the clock that finds it out.
@Suite struct SnapshotAgeTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("shared.sqlite")
    }

    private func open(
        _ author: String,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        change(&options)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func add(to db: SharedDatabase) throws {
        try db.write { db in try db.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
    }

    private static let short =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000) SELECT COUNT(*) FROM n"
    private static let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"

    // MARK: Warnings

    /// No code uses the snapshot, and its participant does not write.
    @Test(.timeLimit(.minutes(1)))
    func theClockReportsByItself() async throws {
        let heldFrames = Shared<[Int]>([])
        let db = try open("app") { options in
            options.longReadLimit = LongRead.Limit(age: .milliseconds(30))
            options.follow { (read: LongRead) in heldFrames.change { $0.append(read.heldFrames) } }
        }
        let other = try open("other")
        let snapshot = try db.makeSnapshotNow()
        try add(to: other)
        try await eventually("it is reported") { !heldFrames.value.isEmpty }
        #expect(heldFrames.value[0] > 0)
        #expect(!db.longReads.hasAlarm, "it has been reported, and there is nothing else to watch")
        try snapshot.advanceNow()
        #expect(db.longReads.hasAlarm)
        try snapshot.close()
        #expect(!db.longReads.hasAlarm)
        #expect(heldFrames.value.count == 1)
    }

    /// The snapshot holds nothing back at its limit, and does so later.
    @Test(.timeLimit(.minutes(1)))
    func theClockLooksAgain() async throws {
        let reports = Shared(0)
        let db = try open("app") { options in
            options.longReadLimit = LongRead.Limit(age: .milliseconds(1))
            options.follow { (_: LongRead) in reports.change { $0 += 1 } }
        }
        let other = try open("other")
        let snapshot = try db.makeSnapshotNow()
        try await eventually("the clock has looked in vain") { db.longReads.hasLookedInVain }
        #expect(reports.value == 0)
        try add(to: other)
        try await eventually("it is reported") { reports.value == 1 }
        try snapshot.close()
    }

    /// An idle process that keeps a snapshot which holds nothing back wakes seldom: about 80 times in a day.
    @Test func theClockLooksLessOften() {
        let second: Nanoseconds = 1_000_000_000
        let read = OldestRead(since: 5 * second, mark: WalMark(frames: 1, salt: 1))
        var now = read.since + 10 * second
        var looks = 0
        while now < read.since + 86_400 * second {
            let next = LongReads.nextLook(at: read, now: now)
            #expect(next >= now + second)
            now = next
            looks += 1
        }
        #expect((50...100).contains(looks), "\(looks)")
    }

    /// **Rule K8.** When the process that checkpoints asks, the snapshot is reported before any limit.
    @Test(.timeLimit(.minutes(1)))
    func beingAskedToAdvanceIsReported() async throws {
        let reports = Shared(0)
        let db = try open("app") { options in
            options.longReadLimit = LongRead.Limit(age: .seconds(1000), frames: .max)
            options.follow { (_: LongRead) in reports.change { $0 += 1 } }
        }
        let other = try open("other")
        let snapshot = try db.makeSnapshotNow()
        try add(to: other)
        _ = try snapshot.readNow { try Player.fetchCount($0) }
        let block = try #require(other.seat.participant?.block)
        #expect(block.askToAdvance(end: try other.readers.walState(insideWrite: false).end) == 1)
        #expect(reports.value == 0)
        for _ in 0..<3 { _ = try snapshot.readNow { try Player.fetchCount($0) } }
        try await eventually("it is reported") { reports.value == 1 }
        // The earlier report was of another moment.
        try snapshot.advanceNow()
        try add(to: other)
        _ = try snapshot.readNow { try Player.fetchCount($0) }
        db.reporter.waitForDeliveries()
        #expect(reports.value == 1)
        try snapshot.close()
    }

    // MARK: The end

    /// The snapshot loses its moment, its uses fail with an error that says what to do, and it holds nothing back; `advance()` reports what was
    /// committed.
    @Test(.timeLimit(.minutes(1)))
    func aSnapshotThatIsTooOldEnds() async throws {
        let db = try open("app") { $0.maximumSnapshotAge = .milliseconds(50) }
        let other = try open("other")
        let snapshot = try db.makeSnapshotNow()
        try add(to: other)
        try await eventually("it ends") { (try? snapshot.readNow(Player.fetchCount)) == nil }
        let error = #expect(throws: DatabaseError.self) { try snapshot.readNow(Player.fetchCount) }
        #expect(error?.resultCode == .SQLITE_ABORT)
        #expect(error?.message?.contains("maximumSnapshotAge") == true)
        #expect(error?.message?.contains("Call advance()") == true)
        #expect(error?.message?.contains("\(snapshot.callSite) was ended: its moment was 0.") == true)
        #expect(error?.message?.contains("maximumSnapshotAge is 0.05 s.") == true)
        try await eventually("its connection closes") { db.closings.step().isEmpty }
        #expect(try db.walHealth().pins.isEmpty)
        #expect(try db.readNow(Player.fetchCount) == 1, "no other connection is touched")

        let changes = try snapshot.advanceNow()
        #expect(changes.map(\.author) == ["other"])
        #expect(try snapshot.readNow(Player.fetchCount) == 1)
        try snapshot.close()
    }

    /// The snapshot becomes too old while `advance()` waits for a read of it: it goes to the latest commit all the same.
    @Test(.timeLimit(.minutes(1)))
    func anAdvanceThatIsOvertaken() async throws {
        let db = try open("app") { $0.maximumSnapshotAge = .milliseconds(100) }
        let snapshot = try db.makeSnapshotNow()
        let (isReading, mayEnd) = (Shared(false), Shared(false))
        async let read = onThread {
            Result {
                try snapshot.readNow { _ in
                    isReading.change { $0 = true }
                    waitUntil("the snapshot is too old") { mayEnd.value }
                }
            }
        }
        defer { mayEnd.change { $0 = true } }
        try await eventually("it is read") { isReading.value }
        async let advanced = onThread { Result { try snapshot.advanceNow() } }
        try await eventually("it is too old") { !db.closings.isEmpty }
        mayEnd.change { $0 = true }
        _ = await read
        #expect(try await advanced.get().isEmpty)
        #expect(try snapshot.readNow(Player.fetchCount) == 0)
        try snapshot.close()
    }

    /// The snapshot ends in the middle of a statement that would never end; a read of the same database continues.
    @Test(.timeLimit(.minutes(1)))
    func aLongStatementEnds() async throws {
        let db = try open("app") { $0.maximumSnapshotAge = .milliseconds(100) }
        let snapshot = try db.makeSnapshotNow()
        let isOver = Shared(false)
        let rounds = Shared(0)
        async let bystander = onThread {
            Result {
                try db.readNow { db in
                    while !isOver.value {
                        _ = try Int.fetchOne(db, sql: Self.short)
                        rounds.change { $0 += 1 }
                    }
                }
            }
        }
        defer { isOver.change { $0 = true } }
        try await eventually("the other read runs") { rounds.value > 0 }
        // On a busy machine the snapshot may be too old before its statement begins.
        let hasBegun = Shared(false)
        var ended: Result<Int?, any Error> = .success(nil)
        while !hasBegun.value {
            try snapshot.advanceNow()
            ended = await onThread {
                Result {
                    try snapshot.readNow { db in
                        hasBegun.change { $0 = true }
                        return try Int.fetchOne(db, sql: Self.endless)
                    }
                }
            }
        }
        let before = rounds.value
        try await eventually("the other read continues") { rounds.value > before }
        isOver.change { $0 = true }
        let error = #expect(throws: DatabaseError.self) { try ended.get() }
        #expect(error?.message?.contains("maximumSnapshotAge") == true, "\(String(describing: error))")
        try await bystander.get()
        try snapshot.advanceNow()
        #expect(try snapshot.readNow(Player.fetchCount) == 0)
        try snapshot.close()
    }

    /// A snapshot that advances in time stays.
    @Test func advancingKeepsItYoung() throws {
        let db = try open("app") { $0.maximumSnapshotAge = .seconds(1000) }
        let snapshot = try db.makeSnapshotNow()
        #expect(db.longReads.hasAlarm)
        for _ in 0..<10 { try snapshot.advanceNow() }
        #expect(try snapshot.readNow(Player.fetchCount) == 0)
        try snapshot.close()
        #expect(!db.longReads.hasAlarm)
    }

    /// A snapshot that has ended closes as any other.
    @Test(.timeLimit(.minutes(1)))
    func closingAfterTheEnd() async throws {
        let db = try open("app") { $0.maximumSnapshotAge = .milliseconds(1) }
        let snapshot = try db.makeSnapshotNow()
        try await eventually("it ends") { (try? snapshot.readNow(Player.fetchCount)) == nil }
        try snapshot.close()
        #expect(throws: DatabaseError.self) { try snapshot.advanceNow() }
        try db.close()
    }
}

/// The blocking forms can be called from async code.
extension SharedDatabaseSnapshot {
    func readNow<T>(_ value: (Database) throws -> T) throws -> T { try read(value) }
    @discardableResult
    func advanceNow() throws -> [DatabaseChange] { try advance() }
}

extension SharedDatabase {
    func readNow<T>(_ value: (Database) throws -> T) throws -> T { try read(value) }
}
