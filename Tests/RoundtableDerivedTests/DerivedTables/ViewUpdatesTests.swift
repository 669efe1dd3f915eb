import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// How following a view begins and ends.
@Suite struct ViewUpdatesTests {
    private static let view = MaterializedView("letters", version: 1, of: "letter", sortedBy: [.ascending("date")])

    private let fixture: DerivedTableFixture
    private let db: SharedDatabase

    init() throws {
        fixture = try DerivedTableFixture()
        db = try Self.open(fixture)
    }

    private static func open(
        _ fixture: DerivedTableFixture,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") {
            try $0.execute(
                sql: "CREATE TABLE letter (id INTEGER PRIMARY KEY, date INTEGER); INSERT INTO letter VALUES (1, 1)"
            )
        }
        return try fixture.open([view], migrator: migrator, change)
    }

    // MARK: Closing

    /// - parameter isSuspended: whether there is no connection to observe on any more.
    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func closingEndsAFollowerThatWaits(isSuspended: Bool) async throws {
        let received = Shared(0)
        let following = Task { [db] in
            for try await _ in Self.view.updates(in: db) { received.change { $0 += 1 } }
        }
        try await eventually("the first") { received.value == 1 }
        if isSuspended { _ = await db.suspend(deadline: .now + .seconds(10)) }
        try db.close()
        try await following.value
        #expect(received.value == 1)
    }

    @Test(.timeLimit(.minutes(1))) func closingEndsAFollowerThatDoesNotWait() async throws {
        var updates = Self.view.updates(in: db).makeAsyncIterator()
        var unread = Self.view.updates(in: db).makeAsyncIterator()
        _ = try #require(try await updates.next())
        try await db.write { try $0.execute(sql: "INSERT INTO letter VALUES (2, 2)") }
        try db.close()
        for _ in 1...2 {
            #expect(try await updates.next() == nil)
            #expect(try await unread.next() == nil)
        }
    }

    @Test(.timeLimit(.minutes(1))) func aClosedDatabase() async throws {
        let updates = Self.view.updates(in: db)
        try db.close()
        let error = await #expect(throws: DatabaseError.self) { for try await _ in updates {} }
        #expect(error?.resultCode == .SQLITE_MISUSE && error?.message?.contains(db.path) == true)
    }

    /// The database forgets a follower that has stopped.
    @Test(.timeLimit(.minutes(1))) func whatHasEndedIsForgotten() async throws {
        for _ in 1...3 {
            for try await _ in Self.view.updates(in: db) { break }
        }
        let following = Task { [db] in for try await _ in Self.view.updates(in: db) {} }
        try await eventually("one task follows") { db.observatory.followerCount == 1 }
        following.cancel()
        try await following.value
        #expect(db.observatory.followerCount == 0)
    }

    /// That is no error of the loop's, whatever it is at.
    @Test(.timeLimit(.minutes(1))) func cancellingWithinARead() async throws {
        let following = Shared<Task<Void, any Error>?>(nil)
        let isCancelled = Shared(false)
        let reader = try Self.open(fixture) { options in
            options.configuration.prepareDatabase { db in
                db.trace { event in
                    guard "\(event)".hasSuffix("ORDER BY roundtable_sequence DESC LIMIT 1") else { return }
                    following.value?.cancel()
                    isCancelled.change { $0 = true }
                }
            }
        }
        let task = Task {
            try await eventually("the task is known") { following.value != nil }
            for try await _ in Self.view.updates(in: reader) {}
        }
        following.change { $0 = task }
        try await task.value
        #expect(isCancelled.value)
    }

    // MARK: Waiting

    /// For a follower that does not read, only the newest wake-up is kept: it leads to a read of everything, and the buffer does not grow.
    @Test(.timeLimit(.minutes(1))) func onlyTheNewestWakeIsKept() async throws {
        let wakes = Shared(0)
        let reader = try Self.open(fixture) { options in
            options.configuration.prepareDatabase { db in
                db.trace { event in
                    if "\(event)".contains("roundtable_temporary_extensions") { wakes.change { $0 += 1 } }
                }
            }
        }
        var updates = Self.view.updates(in: reader).makeAsyncIterator()
        _ = try #require(try await updates.next())
        func commit(_ ids: ClosedRange<Int>) async throws {
            for id in ids {
                let before = wakes.value
                try await db.write { try $0.execute(sql: "INSERT INTO letter VALUES (?, ?)", arguments: [id, id]) }
                try await eventually("it was woken") { wakes.value > before }
            }
        }
        try await commit(2...20)
        #expect(try await updates.next()?.contents.groups.map(\.keys.count) == [20])
        try await commit(21...40)
        try reader.close()
        var kept = 0
        while try await updates.wakes.next() != nil { kept += 1 }
        #expect(kept <= 1)
    }
}
