import Foundation
import GRDB
import Roundtable
import RoundtableCore
@_exported import RoundtableTestSupport
import Synchronization
import Testing

struct Player: Codable, FetchableRecord, MutablePersistableRecord, Equatable {
    var id: Int64?
    var name: String
    var score = 0

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// The schema of these tests, up to a version.
func migrator(upTo version: Int = 1) -> DatabaseMigrator {
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
    mutating func follow<Value>(_ body: @escaping @Sendable (Value) -> Void) {
        onEvent = { event in
            if let value = Mirror(reflecting: event.kind).children.first?.value as? Value { body(value) }
        }
    }

    /// Calls a closure with the events of a type, on the thread that reports them.
    mutating func probe<Event: ReportedEvent>(_ body: @escaping @Sendable (Event) -> Void) {
        eventProbe = { if let event = $0 as? Event { body(event) } }
    }
}

/// Blocks the calling thread until a condition holds, with a deadline. When that passes, an issue is recorded, and the caller continues.
///
/// - returns: whether the condition holds.
@discardableResult
func waitUntil(
    _ what: Comment,
    within time: Duration = .seconds(60),
    sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () -> Bool
) -> Bool {
    let deadline = ContinuousClock.now + time
    while !condition() {
        guard ContinuousClock.now < deadline else {
            Issue.record("waited \(time) in vain until \(what.rawValue)", sourceLocation: sourceLocation)
            return false
        }
        usleep(100)
    }
    return true
}

extension SharedDatabase {
    /// Runs `body` while this participant holds the turn for a write, which then ends.
    func whileWriting<T>(
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
    static func early() -> ProcessSuspension { ProcessSuspension(timeToRollBack: 60_000_000_000) }
}

/// A value that several threads use.
final class Shared<Value: Sendable>: @unchecked Sendable {
    // @unchecked: `changes` guards `current`.
    private var current: Value
    private let changes = NSCondition()

    init(_ value: Value) { current = value }

    var value: Value { changes.withLock { current } }

    func change(_ body: (inout Value) -> Void) {
        changes.withLock {
            body(&current)
            changes.broadcast()
        }
    }

    /// Blocks the calling thread until the value fulfills a condition, with a deadline. When that passes, an issue is recorded, and the caller
    /// continues.
    ///
    /// - returns: whether the value fulfills the condition.
    @discardableResult
    func wait(
        within time: Duration = .seconds(60),
        sourceLocation: SourceLocation = #_sourceLocation,
        until condition: (Value) -> Bool
    ) -> Bool {
        let end = Date(timeIntervalSinceNow: time / .seconds(1))
        return changes.withLock {
            while !condition(current) {
                guard changes.wait(until: end) else {
                    Issue.record("waited \(time) in vain; the value is \(current)", sourceLocation: sourceLocation)
                    return false
                }
            }
            return true
        }
    }
}

/// What a thread of its own comes to.
final class Running<T: Sendable>: Sendable {
    private let result = Shared<Result<T, any Error>?>(nil)

    init(_ body: @escaping @Sendable () throws -> T) {
        Thread.detachNewThread { [result] in
            let outcome = Result(catching: body)
            result.change { $0 = outcome }
        }
    }

    var value: T {
        get async throws {
            try await eventually("the thread ends", within: .seconds(60)) { result.value != nil }
            return try result.value!.get()
        }
    }
}

/// Begins at once, also while Swift's few threads are blocked.
func inOwnThread<T: Sendable>(_ body: @escaping @Sendable () throws -> T) -> Running<T> { Running(body) }

/// Runs what blocks on a thread of its own: Swift's few are for those who wait for it.
@discardableResult
func onThread<T: Sendable>(_ body: @escaping @Sendable () -> T) async -> T {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: body()) }
    }
}
