import Dispatch
import GRDB
import GRDBSQLite
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore

/// Connections that were given up close as soon as nothing runs on them.
@Suite struct ConnectionClosingsTests {
    private let closings = ConnectionClosings()

    @Test func eachClosesWhenNothingRunsOnIt() async throws {
        let idle = try DatabaseQueue()
        let busy = try DatabaseQueue()
        let access = DispatchSemaphore(value: 0)
        busy.asyncWriteWithoutTransaction { _ in access.wait() }
        let prepared = Shared<[String]>([])
        closings.begin(idle, .reading) { _ in prepared.change { $0.append("idle") } }
        closings.begin(busy, .snapshot, at: "File.swift:12") { _ in prepared.change { $0.append("busy") } }

        let held = HeldConnection(use: .snapshot, callSite: "File.swift:12")
        try await eventually("the first is closed") { closings.step() == [held] }
        #expect(prepared.value == ["idle"])
        #expect(throws: DatabaseError.self) { try idle.inDatabase { try $0.execute(sql: "SELECT 1") } }
        access.signal()
        try await eventually("the second is closed, and both are forgotten") { closings.isEmpty }
        #expect(prepared.value == ["idle", "busy"] && closings.step() == [])
    }

    /// A statement that outlives its access keeps its connection open. It closes with the next step after the statement is finalized.
    @Test func aStatementKeepsItsConnectionOpen() async throws {
        let queue = try DatabaseQueue()
        let statement = queue.inDatabase { db in
            var statement: OpaquePointer?
            sqlite3_prepare_v2(db.sqliteConnection, "SELECT 1", -1, &statement, nil)
            return statement.map { UInt(bitPattern: $0) }
        }
        let isPrepared = Shared(false)
        closings.begin(queue, .observation) { _ in isPrepared.change { $0 = true } }
        try await eventually("it is prepared") { isPrepared.value }
        #expect(closings.step() == [HeldConnection(use: .observation)])
        sqlite3_finalize(OpaquePointer(bitPattern: try #require(statement)))
        #expect(closings.step() == [])
        #expect(closings.isEmpty)
    }

    @Test(.timeLimit(.minutes(1)))
    func interrupting() async throws {
        let queue = try DatabaseQueue()
        let error = Shared<(any Error)?>(nil)
        let hasBegun = Shared(false)
        queue.asyncWriteWithoutTransaction { db in
            hasBegun.change { $0 = true }
            do {
                try db.execute(
                    sql: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
                )
            } catch let failure {
                error.change { $0 = failure }
            }
        }
        try await eventually("the access runs") { hasBegun.value }
        closings.begin(queue, .reading) { _ in }
        // An interruption that comes before the statement has no effect.
        try await eventually("it is closed") {
            closings.interruptParking()
            return closings.isEmpty
        }
        #expect((error.value as? DatabaseError)?.resultCode == .SQLITE_INTERRUPT)
    }
}
