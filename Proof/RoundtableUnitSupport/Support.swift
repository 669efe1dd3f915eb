import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableHistory
@_exported import RoundtableTestBasics
@_exported import RoundtableTestSupport
import Synchronization
import Testing

package struct Player: Codable, FetchableRecord, MutablePersistableRecord, Equatable {
    package var id: Int64?
    package var name: String
    package var score = 0

    package init(id: Int64? = nil, name: String, score: Int = 0) {
        self.id = id
        self.name = name
        self.score = score
    }

    package mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// The schema of these tests, up to a version.
package func migrator(upTo version: Int = 1) -> DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("v1") { db in
        try db.create(table: "player") { table in
            table.autoIncrementedPrimaryKey("id")
            table.column("name", .text).notNull()
            table.column("score", .integer).notNull().defaults(to: 0)
        }
    }
    if version >= 2 {
        migrator.registerMigration("v2") { db in
            try db.alter(table: "player") { $0.add(column: "team", .text) }
        }
    }
    return migrator
}

extension SharedDatabase.Options {
    /// Calls a closure with the events of a type, as a program receives them.
    package mutating func follow<Value>(_ body: @escaping @Sendable (Value) -> Void) {
        onEvent = { event in
            if let value = Mirror(reflecting: event.kind).children.first?.value as? Value { body(value) }
        }
    }

    /// Calls a closure with the events of a type, on the thread that reports them.
    package mutating func probe<Event: ReportedEvent>(_ body: @escaping @Sendable (Event) -> Void) {
        eventProbe = { if let event = $0 as? Event { body(event) } }
    }
}

extension SharedDatabase {
    /// Runs `body` while this participant holds the turn for a write, which then ends.
    package func whileWriting<T>(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ body: () async throws -> T
    ) async throws -> T {
        let (begun, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        asyncWrite(file: file, line: line) { _ in
            begun.signal()
            end.wait()
        } completion: { _, _ in
        }
        await onThread { begun.wait() }
        defer { end.signal() }
        return try await body()
    }
}

extension ProcessSuspension {
    /// Aborts running accesses as soon as a suspension begins. With a deadline after half a minute, a machine that pauses does not make
    /// them late.
    package static func early() -> ProcessSuspension { ProcessSuspension(timeToRollBack: 60_000_000_000) }
}

// In async tests, Swift takes the async forms, unless a function without `async` stands between.

extension SharedDatabase {
    package func names() throws -> [String] {
        try read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
    }

    /// One write transaction.
    package func run(_ sql: String) throws { try write { try $0.execute(sql: sql) } }

    package func insert(_ name: String) throws { try run("INSERT INTO player (name) VALUES ('\(name)')") }
}

extension HistoryChange {
    /// Such as `insert 1`, `delete a,NULL`.
    package var line: String {
        let values = key.map { value in
            switch value.storage {
            case .string(let text): text
            case .blob(let data): "x" + data.map { String(format: "%02x", $0) }.joined()
            case .null: "NULL"
            case .int64(let number): "\(number)"
            case .double(let number): "\(number)"
            }
        }
        return "\(operation.rawValue) \(values.joined(separator: ","))"
    }
}

/// Whether `body` throws that readers must start over, and why.
package func startOverReason(_ body: () throws -> Void) -> HistoryError.StartOverReason? {
    do {
        try body()
        return nil
    } catch HistoryError.startOver(let reason, _) {
        return reason
    } catch {
        Issue.record(error)
        return nil
    }
}
