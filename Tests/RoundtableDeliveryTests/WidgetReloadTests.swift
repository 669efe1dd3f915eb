import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableGate

/// When widgets are reloaded, by a clock of the test's own.
@Suite struct WidgetReloadScheduleTests {
    private static let second: Nanoseconds = 1_000_000_000
    private static let minute = 60 * second
    private var schedule = WidgetReloadSchedule(interval: 5 * second, countedInterval: 30 * minute)
    private var presence = ForegroundPresence.unknown

    @Test mutating func inTheForegroundAtOnceThenOnceAnInterval() {
        #expect(schedule.published(presence, at: Self.second) == .reload)
        #expect(schedule.published(presence, at: 2 * Self.second) == .wake(at: 6 * Self.second))
        // One timer is enough, and the last state arrives.
        #expect(schedule.published(presence, at: 3 * Self.second) == .none)
        #expect(schedule.timeHasCome(presence, at: 6 * Self.second) == .reload)
        #expect(schedule.next(presence, at: 60 * Self.second) == .none)
        #expect(schedule.published(presence, at: 60 * Self.second) == .reload)
    }

    /// What the user has just left is what the widget shows.
    @Test mutating func leavingTheForegroundDoesNotWait() {
        #expect(schedule.published(presence, at: Self.second) == .reload)
        #expect(schedule.published(presence, at: 2 * Self.second) == .wake(at: 6 * Self.second))
        presence.note(.didEnterBackground)
        #expect(schedule.leave(presence, at: 3 * Self.second) == .reload)
        // Once for each stay.
        #expect(schedule.leave(presence, at: 3 * Self.second) == .none)
        #expect(schedule.timeHasCome(presence, at: 6 * Self.second) == .none)
        presence.note(.willEnterForeground)
        presence.note(.didBecomeActive)
        presence.note(.didEnterBackground)
        #expect(schedule.published(presence, at: 10 * Self.second) == .reload)
        #expect(presence.stays == 1)
    }

    @Test mutating func inTheBackgroundReloadsAreRare() {
        presence.note(.isInBackground)
        var reloads = 0
        var wakes: Set<Nanoseconds> = []
        // A push a minute, a day long: the process is frozen after each.
        for minute in 1...(24 * 60) as ClosedRange<Nanoseconds> {
            let now = minute * Self.minute
            for action in [schedule.published(presence, at: now), schedule.leave(presence, at: now)] {
                switch action {
                case .reload: reloads += 1
                case .wake(let time): wakes.insert(time)
                case .none: break
                }
            }
        }
        #expect(reloads == 48)
        #expect(wakes.count <= reloads)
    }

    @Test mutating func whatWasPutOffIsMadeUpFor() {
        presence.note(.didEnterBackground)
        #expect(schedule.published(presence, at: Self.minute) == .reload)
        #expect(schedule.published(presence, at: 2 * Self.minute) == .wake(at: 31 * Self.minute))
        #expect(schedule.leave(presence, at: 2 * Self.minute) == .none)
        // Frozen, and thawed by the user: timers have stood still.
        presence.note(.willEnterForeground)
        #expect(schedule.next(presence, at: 20 * Self.minute) == .reload)
        #expect(schedule.next(presence, at: 40 * Self.minute) == .none)
    }
}

/// What a publisher has reloaded, and what `deliver` does.
@Suite(.timeLimit(.minutes(1))) struct DeliveryTests {
    private struct Granting: SuspensionAssertions {
        struct Granted: SuspensionAssertion { func end() {} }
        let grants: Shared<Bool>
        func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
            grants.value ? Granted() : nil
        }
    }

    private let world: OutboxWorld
    private let process = ProcessSuspension()
    private let grants = Shared(true)
    private let presence = Shared(ForegroundPresence.unknown)
    private let reloads = Shared<[[String]?]>([])

    init() throws {
        world = try OutboxWorld()
        process.assertions.provider = Granting(grants: grants)
    }

    private func open(_ handlers: OutboxHandlers? = .entries()) throws -> SharedDatabase {
        try world.open { options in
            options.process = process
            options.outbox = handlers
        }
    }

    private func widgets(_ kinds: [String]?, every interval: Duration = .zero) -> WidgetReloads {
        let surroundings = WidgetReloads.Surroundings(
            reload: { [reloads] kinds in reloads.change { $0.append(kinds) } },
            presence: { [presence] in presence.value }
        )
        return WidgetReloads(ofKinds: kinds, atMostEvery: interval, inBackground: .seconds(3600), surroundings)
    }

    private var file: SnapshotFile<[String]> { SnapshotFile(at: world.folder.file("texts"), as: "app") }

    private func publish(
        _ db: SharedDatabase,
        _ widgets: WidgetReloads,
        every interval: Duration = .seconds(1)
    ) throws -> SnapshotPublisher {
        try db.publish(to: file, atMostEvery: interval, reloading: widgets) { db in
            try String.fetchAll(db, sql: "SELECT text FROM entry ORDER BY id")
        }
    }

    @Test func eachSnapshotIsFollowedByAReload() async throws {
        let db = try open(nil)
        let publisher = try publish(db, widgets(["Tasks", "Today"]))
        try await eventually("the first") { reloads.value.count == 1 }
        try await publisher.publish()
        #expect(reloads.value == [["Tasks", "Today"]], "nothing was written")
        try await db.write { try $0.execute(sql: "INSERT INTO entry (text) VALUES ('a')") }
        try await publisher.publish()
        try await eventually("the second") { reloads.value.count == 2 }
        publisher.cancel()
    }

    /// What the interval has held up is reloaded before the process is frozen, and not again.
    @Test func aSuspensionDoesNotWaitForTheInterval() async throws {
        let db = try open(nil)
        let publisher = try publish(db, widgets(nil, every: .seconds(3600)))
        try await eventually("the first") { reloads.value.count == 1 }
        try await db.write { try $0.execute(sql: "INSERT INTO entry (text) VALUES ('a')") }
        presence.change { $0.enterBackground() }
        #expect(await db.suspend(deadline: .now + .seconds(20)).outcome == .released)
        #expect(reloads.value.count == 2)
        #expect(try file.read().value == ["a"])
        db.resume()
        publisher.cancel()
    }

    /// In the background, and in the foreground, where nothing else would publish before the interval is over.
    @Test(arguments: [true, false])
    func deliveringIsDoneWhenItReturns(isSuspended: Bool) async throws {
        let db = try open()
        let publisher = try publish(db, widgets(["Tasks"]), every: .seconds(3600))
        try await eventually("the first") { reloads.value.count == 1 }
        if isSuspended { await suspendProcess() }
        let outbox = try world.outbox()
        for number in 1...200 { try await outbox.submit(AddEntry(text: "\(number)")) }
        try await db.deliver("push")
        #expect(try file.read().value == (1...200).map(String.init))
        #expect(world.files().isEmpty)
        #expect(reloads.value.count >= 2)
        #expect(db.isSuspended == isSuspended)
        publisher.cancel()
    }

    @Test func withoutTheSystemsTimeNothingIsDelivered() async throws {
        let db = try open()
        await suspendProcess()
        grants.change { $0 = false }
        try await world.outbox().submit(AddEntry(text: "a"))
        await #expect(throws: SharedDatabaseError.self) { try await db.deliver() }
        #expect(world.files().count == 1)
        process.resume()
        try await eventually("applied") { world.files().isEmpty }
    }

    private func suspendProcess() async {
        await onThread { [process] in _ = process.suspend(until: MonotonicClock.now + 20_000_000_000) }
    }
}
