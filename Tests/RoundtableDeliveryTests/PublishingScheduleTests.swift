import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery

/// When a publisher fetches (rule V8), by a clock of the test's own.
@Suite struct PublishingScheduleTests {
    private static let second: Nanoseconds = 1_000_000_000
    private let players = DatabaseRegion(table: "player")
    private var schedule = PublishingSchedule(interval: second)

    private mutating func publish(at now: Nanoseconds) {
        #expect(schedule.next(at: now) == .fetch)
        #expect(schedule.finished(.isPublished, region: players, at: now) == .none)
    }

    @Test mutating func atOnceThenOnceAnInterval() {
        publish(at: 1000)
        #expect(schedule.changed(.some(["team"]), at: 2000) == .none)
        #expect(schedule.changed(.some(["player"]), at: 2000) == .wake(at: 1000 + Self.second))
        // One timer is enough.
        #expect(schedule.changed(.fullDatabase, at: 3000) == .none)
        #expect(schedule.timeHasCome(at: 1000 + Self.second) == .fetch)
        #expect(schedule.finished(.isPublished, region: nil, at: 1000 + Self.second) == .none)
        // After a long rest, at once.
        #expect(schedule.changed(.some(["player"]), at: 10 * Self.second) == .fetch)
    }

    @Test mutating func whatChangesMeanwhileCountsByWhatWasRead() {
        #expect(schedule.next(at: 1) == .fetch)
        #expect(schedule.changed(.some(["team"]), at: 2) == .none)
        #expect(schedule.finished(.isPublished, region: players, at: 3) == .none)
        #expect(schedule.changed(.some(["player"]), at: 2 * Self.second) == .fetch)
        #expect(schedule.changed(.some(["team"]), at: 2 * Self.second) == .none)
        let next = schedule.finished(.isPublished, region: DatabaseRegion(table: "team"), at: 2 * Self.second)
        #expect(next == .wake(at: 3 * Self.second))
    }

    @Test mutating func laterAndLaterWhileItFails() {
        var pauses: [Nanoseconds] = []
        var now: Nanoseconds = 0
        schedule = PublishingSchedule(interval: 0)
        #expect(schedule.next(at: now) == .fetch)
        for _ in 0..<12 {
            guard case .wake(let time) = schedule.finished(.hasFailed, region: nil, at: now) else {
                Issue.record("not tried again")
                return
            }
            // Changes do not hurry it.
            #expect(schedule.changed(.fullDatabase, at: now) == .none)
            pauses.append((time - now) / 1_000_000)
            now = time
            #expect(schedule.timeHasCome(at: now) == .fetch)
        }
        #expect(pauses == [250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000, 60000])
        #expect(schedule.finished(.isPublished, region: players, at: now) == .none)
        #expect(schedule.changed(.fullDatabase, at: now) == .fetch)
    }

    @Test mutating func anOvertakenPublisherTriesAtOnceButNotForEver() {
        #expect(schedule.next(at: 0) == .fetch)
        for _ in 1..<PublishingSchedule.patience {
            #expect(schedule.finished(.isOvertaken, region: nil, at: 5) == .fetch)
        }
        #expect(schedule.finished(.isOvertaken, region: nil, at: 5) == .wake(at: 5 + Self.second))
    }

    /// Values that were published in between restart the count.
    @Test mutating func aPublisherThatIsOvertakenNowAndThenTriesAtOnce() {
        #expect(schedule.next(at: 0) == .fetch)
        for now in 1...2 * UInt64(PublishingSchedule.patience) {
            let time = now * Self.second
            #expect(schedule.finished(.isOvertaken, region: nil, at: time) == .fetch)
            #expect(schedule.finished(.isPublished, region: nil, at: time) == .none)
            #expect(schedule.changed(.fullDatabase, at: time + Self.second) == .fetch)
        }
    }

    /// A suspension that ends shortens the pause after failures.
    @Test mutating func aResumedPublisherDoesNotWaitForItsFailures() {
        #expect(schedule.next(at: 0) == .fetch)
        for _ in 0..<12 {
            guard case .wake(let time) = schedule.finished(.hasFailed, region: nil, at: 0) else {
                Issue.record("not tried again")
                return
            }
            #expect(schedule.timeHasCome(at: time) == .fetch)
        }
        #expect(schedule.finished(.hasFailed, region: nil, at: 0) == .wake(at: PublishingSchedule.backoff.longest))
        schedule.suspend()
        #expect(schedule.resume(at: 5) == .wake(at: 5 + Self.second))
        #expect(schedule.timeHasCome(at: 5 + Self.second) == .fetch)
    }

    @Test mutating func nothingWhileSuspended() {
        #expect(schedule.next(at: 0) == .fetch)
        schedule.suspend()
        #expect(schedule.finished(.wasCalledOff, region: nil, at: 1) == .none)
        #expect(schedule.changed(.fullDatabase, at: 2) == .none)
        #expect(schedule.timeHasCome(at: 9 * Self.second) == .none)
        #expect(schedule.resume(at: 10 * Self.second) == .fetch)
        #expect(schedule.finished(.isPublished, region: players, at: 10 * Self.second) == .none)
        // Something may have been missed.
        schedule.suspend()
        #expect(schedule.resume(at: 20 * Self.second) == .check)
        schedule.end()
        #expect(schedule.finished(.hasFailed, region: nil, at: 20 * Self.second) == .none)
        #expect(schedule.resume(at: 30 * Self.second) == .none)
    }

    @Test mutating func aDoubtIsNoChange() {
        publish(at: 0)
        schedule.suspend()
        // A suspension does not shorten the interval.
        #expect(schedule.resume(at: 1) == .wake(at: Self.second))
        #expect(schedule.timeHasCome(at: Self.second) == .check)
        #expect(!schedule.hasNews)
        // What comes meanwhile counts as with a fetch.
        #expect(schedule.changed(.some(["player"]), at: Self.second) == .none)
        #expect(schedule.hasNews)
        // Nothing was written, so it does not wait.
        #expect(schedule.finished(.isUnchanged, region: nil, at: Self.second) == .fetch)
        #expect(schedule.finished(.isPublished, region: players, at: Self.second) == .none)
        // A change is no doubt.
        schedule.suspend()
        #expect(schedule.changed(.some(["player"]), at: 5 * Self.second) == .none)
        #expect(schedule.resume(at: 5 * Self.second) == .fetch)
    }
}

extension DatabaseRegion {
    fileprivate init(table: String) {
        // A region has no public initializer, but for what a request reads.
        do {
            self = try DatabaseQueue().write { db in
                try db.execute(sql: "CREATE TABLE \(table) (x)")
                return try Table(table).databaseRegion(db)
            }
        } catch {
            preconditionFailure("\(error)")
        }
    }
}
