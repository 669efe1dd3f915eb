import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// The order in which reads and barriers are granted connections.
@Suite struct ReaderPoolTests {
    enum Late: CaseIterable, Sendable {
        case blocking, suspending, later
    }

    /// Connections are closed, except those in use, and opened again when they are needed. Behind a closed gate, nothing is.
    @Test func releasedMemory() async throws {
        let folder = try TemporaryFolder()
        func open(keepsReaders: Bool = false) throws -> SharedDatabase {
            var options = SharedDatabase.Options()
            options.configuration.persistentReadOnlyConnections = keepsReaders
            return try SharedDatabase.open(
                at: folder.file("db.sqlite"),
                schema: SharedSchema(migrator()),
                as: "app",
                options: options
            )
        }
        let db = try open()
        func count() -> Int { db.readers.connectionCount }
        let names = { @Sendable () throws -> [String] in try db.names() }
        try db.insert("A")
        #expect(try names() == ["A"])
        #expect(count() == 1)
        db.releaseMemory()
        #expect(count() == 0)
        #expect(try names() == ["A"])
        // It waits for reads that run.
        let (begun, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let read = inThread {
            try db.read { db in
                begun.signal()
                end.wait()
                _ = try Row.fetchAll(db, sql: "SELECT * FROM player")
            }
        }
        await onThread { begun.wait() }
        let isReleased = Shared(false)
        let release = inThread {
            db.releaseMemory()
            isReleased.change { $0 = true }
        }
        #expect(!isReleased.value && count() == 1)
        end.signal()
        try await read.value
        try await release.value
        #expect(isReleased.value && count() == 0)
        func suspend() { _ = db.suspend(deadline: .now + .seconds(5)) }
        #expect(try names() == ["A"])
        suspend()
        db.releaseMemory()
        #expect(count() == 1)
        db.resume()
        func close() throws { try db.close() }
        try close()
        db.releaseMemory()
        // GRDB's option keeps the connections.
        let keeping = try open(keepsReaders: true)
        func keptNames() throws -> [String] { try keeping.names() }
        #expect(try keptNames() == ["A"])
        keeping.releaseMemory()
        #expect(keeping.readers.connectionCount == 1)
    }

    /// Reads would keep a barrier waiting forever if the reads that come after it did not wait for it:
    ///
    /// | held read | barrier | late read |
    /// | --- | --- | --- |
    /// | begins | | |
    /// | | waits for the held one | |
    /// | | | waits for the barrier, though a connection is idle |
    /// | ends | | |
    /// | | runs | |
    /// | | | runs |
    @Test(arguments: Late.allCases) func aReadDoesNotOvertakeABarrier(_ late: Late) async throws {
        let folder = try TemporaryFolder()
        let db = try await SharedDatabase.open(
            at: folder.file("players.sqlite"),
            schema: SharedSchema(migrator()),
            as: "app"
        )
        let pool = db.readers
        let held = try take(pool)
        // The connection is idle when the late read comes.
        pool.give(try take(pool))
        let order = Shared<[String]>([])
        pool.barrier { result in
            order.change { $0.append("barrier") }
            guard case .success(let end) = result else { return }
            end()
        }
        #expect(order.value == [])
        let read: Task<Void, any Error>
        switch late {
        case .blocking:
            read = inThread {
                try pool.withReader(at: nil, insideWrite: false) { _ in order.change { $0.append("late") } }
            }
        case .suspending:
            read = Task {
                try await pool.withReader(at: nil) { _, giveBack in
                    order.change { $0.append("late") }
                    giveBack()
                }
            }
        case .later:
            read = Task {}
            pool.take(at: nil) { result in
                order.change { $0.append("late") }
                if case .success(let reader) = result { pool.give(reader) }
            }
        }
        try await eventually("the late one waits, or has overtaken") {
            pool.counts.waiting == 2 || !order.value.isEmpty
        }
        #expect(order.value == [], "the barrier waits for the held read, and the late read for the barrier")
        pool.give(held)
        try await read.value
        try await eventually("all have ended") { order.value.count == 2 }
        #expect(order.value == ["barrier", "late"])
    }

    /// A connection that could not be closed is used again, and its reads can be interrupted as before.
    @Test func aConnectionThatCouldNotBeClosedIsInterrupted() throws {
        let folder = try TemporaryFolder()
        let url = folder.file("players.sqlite")
        let db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
        var statement: Statement? = try db.read { try $0.makeStatement(sql: "SELECT * FROM player") }
        #expect(throws: DatabaseError.self) { try db.close() }
        #expect(statement != nil)
        let error = #expect(throws: DatabaseError.self) {
            try db.read { connection in
                let interrupt = DatabaseFunction("interrupt", argumentCount: 0) { _ in
                    db.interrupt()
                    return nil
                }
                connection.add(function: interrupt)
                let numbers = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 100)"
                _ = try Row.fetchAll(connection, sql: "\(numbers) SELECT interrupt() FROM n")
            }
        }
        #expect(error?.resultCode == .SQLITE_INTERRUPT)
        statement = nil
        try db.close()
    }

    /// A connection that is free now.
    private func take(_ pool: ReaderPool) throws -> ReaderConnection {
        let taken = Shared<Result<ReaderConnection, any Error>?>(nil)
        pool.take(at: nil) { result in taken.change { $0 = result } }
        return try #require(taken.value).get()
    }
}
