import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// Snapshots when connections are closed.
extension ParkingTests {
    @Test func aSnapshotLosesItsMoment() async throws {
        let a = try open("a")
        let b = try open("b")
        try add("A", to: a)
        let snapshot = try await a.makeSnapshot()
        #expect(await park(a) == [])
        #expect { try snapshot.read(Player.fetchCount) } throws: { "\($0)".contains("suspended") }
        expectSuspended { try snapshot.advance() }
        expectSuspended { _ = try a.makeSnapshot() }
        let made = Task { try await a.makeSnapshot() }
        let advanced = Task { try await snapshot.advance() }
        try add("B", to: b)
        try await b.write { try $0.execute(sql: "CREATE TABLE team (id INTEGER)") }
        a.unpark()
        let changes = try await advanced.value
        #expect(changes.count == 2 && changes.allSatisfy { $0.author == "b" && $0.detail == .commit }, "\(changes)")
        #expect(changes.first?.tableNames == ["player"])
        #expect(try await snapshot.read(Player.fetchCount) == 2)
        #expect(try await made.value.read(Player.fetchCount) == 2)
        #expect(try await snapshot.advance() == [])
    }

    /// No other process has the database open, so the wal-index and its commit counter are recreated.
    @Test func aSnapshotThatMissedNothing() async throws {
        let db = try open()
        for index in 0..<5 { try add("\(index)", to: db) }
        let snapshot = try await db.makeSnapshot()
        #expect(await park(db) == [])
        #expect(try openFiles == [])
        db.unpark()
        #expect(try await snapshot.advance() == [])
        #expect(try await snapshot.read(Player.fetchCount) == 5)
        try add("5", to: db)
        #expect(try await snapshot.advance().map(\.tableNames) == [["player"]])
    }

    @Test func aSnapshotThatMissedAStranger() async throws {
        let db = try open()
        for index in 0..<3 { try add("\(index)", to: db) }
        let counter = try await db.read { WalIndex($0)?.header?.commitCounter }
        let snapshot = try await db.makeSnapshot()
        #expect(await park(db) == [])
        let stranger = try DatabaseQueue(path: url.path)
        // The stranger makes as many commits as the counter showed, because the counter restarts at 0.
        for _ in 0..<(counter ?? 0) {
            try await stranger.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('S')") }
        }
        db.unpark()
        let changes = try await snapshot.advance()
        #expect(changes.contains { $0.tables == .fullDatabase }, "\(changes), counter \(counter ?? 0)")
        try stranger.close()
    }

    @Test func closingAParkedSnapshot() async throws {
        let db = try open()
        let snapshot = try await db.makeSnapshot()
        let other = try await db.makeSnapshot()
        #expect(await park(db) == [])
        try snapshot.close()
        db.unpark()
        await #expect { try await snapshot.advance() } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE }
        await #expect { try await snapshot.read { _ in } } throws: {
            ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE
        }
        #expect(await park(db) == [])
        try db.close()
        await #expect { try await other.advance() } throws: { ($0 as? DatabaseError)?.resultCode == .SQLITE_MISUSE }
        #expect(try openFiles == [])
    }
}
