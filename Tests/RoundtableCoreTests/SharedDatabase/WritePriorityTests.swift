import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// The priority of each write (rules T3, M10). The ranking of waiters is tested in `TurnTakerTests` and by `Fairness`.
@Suite struct WritePriorityTests {
    typealias Priority = SharedDatabase.TurnPriority
    private static let insert = "INSERT INTO player (name) VALUES ('A')"

    private let folder: TemporaryFolder
    private let url: URL
    private let block: ControlBlock
    private let holder: SharedDatabase

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
        holder = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "holder")
        block = try ControlBlock.open(forDatabaseAt: holder.path, writable: true)
    }

    private func open(_ priority: Priority, sharesCommits: Bool = true) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.priority = priority
        options.sharesCommits = sharesCommits
        options.busyTimeout = .seconds(60)
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "other", options: options)
    }

    /// The names of writes in the order in which they ran.
    private final class Order: Sendable {
        let names = Mutex<[String]>([])
    }

    /// The priority with which the participant `other` waits; nil when it does not wait.
    private var waiting: Priority? {
        let record = block.participants().first { $0.author == "other" && $0.waiting != nil }
        return record.flatMap { Priority(rawValue: $0.priority) }
    }

    /// Each function that writes has the priority that it is given, and that of the participant without one.
    @Test(arguments: Priority.allCases)
    func everyFunction(base: Priority) async throws {
        let db = try open(base)
        let writes: [@Sendable (Priority?) async throws -> Void] = [
            { try await db.write(priority: $0) { try $0.execute(sql: Self.insert) } },
            { try await db.write(priority: $0, sharesCommit: false) { try $0.execute(sql: Self.insert) } },
            { try await db.writeWithoutTransaction(priority: $0) { try $0.execute(sql: Self.insert) } },
            { try await db.barrierWriteWithoutTransaction(priority: $0) { try $0.execute(sql: Self.insert) } },
            { priority in
                try await inBackground { try db.write(priority: priority) { try $0.execute(sql: Self.insert) } }
            },
            { priority in
                try await inBackground {
                    try db.writeWithoutTransaction(priority: priority) { try $0.execute(sql: Self.insert) }
                }
            },
            { priority in
                try await withCheckedThrowingContinuation { continuation in
                    db.asyncWrite(priority: priority) {
                        try $0.execute(sql: Self.insert)
                    } completion: { _, result in
                        continuation.resume(with: result)
                    }
                }
            },
        ]
        for (index, write) in writes.enumerated() {
            for priority in [nil] + Priority.allCases.map(Optional.some) {
                let task = try await holder.whileWriting {
                    let task = Task { try await write(priority) }
                    try await eventually("function \(index) waits") { waiting != nil }
                    #expect(waiting == priority ?? base, "function \(index)")
                    return task
                }
                try await task.value
            }
        }
        #expect(try await db.read { try Player.fetchCount($0) } == writes.count * 4)
        #expect(db.waitingPriorities.mostUrgent == nil)
    }

    /// **Rule T3**: an urgent write raises the ticket of the write in front of it. A later ticket has its own priority
    /// again.
    @Test(arguments: [false, true])
    func urgentWriteBehindAnother(sharesCommits: Bool) async throws {
        let db = try open(.background, sharesCommits: sharesCommits)
        let order = Order()
        func write(_ name: String, _ priority: Priority?) -> Task<Void, any Error> {
            Task {
                try await db.write(priority: priority) { db in
                    order.names.withLock { $0.append(name) }
                    try db.execute(sql: Self.insert)
                }
            }
        }
        for _ in 0..<2 {
            order.names.withLock { $0 = [] }
            let tasks = try await holder.whileWriting {
                let first = write("first", nil)
                try await eventually("the first waits") { waiting != nil }
                #expect(waiting == .background)
                let second = write("second", .default)
                try await eventually("the second raises it") { waiting == .default }
                let third = write("third", .interactive)
                try await eventually("the third raises it") { waiting == .interactive }
                // A write that is less urgent joins.
                db.waitingPriorities.add(.background, db.seat)
                #expect(waiting == .interactive)
                db.waitingPriorities.remove(.background)
                let fourth = write("fourth", .background)
                return [first, second, third, fourth]
            }
            for task in tasks { try await task.value }
            #expect(order.names.withLock { $0.first } == "first" && order.names.withLock { $0.count } == 4)
            #expect(db.waitingPriorities.mostUrgent == nil)
        }
    }

    /// **Rule T3**: a write that draws its ticket has the priority of an urgent one that waits behind it already.
    @Test func urgentWriteBehindOneWithoutATicket() async throws {
        let db = try open(.background, sharesCommits: false)
        let (hasBegun, mayEnd) = (Shared(false), Shared(false))
        let first = Task {
            try await db.write { _ in
                hasBegun.change { $0 = true }
                mayEnd.wait { $0 }
            }
        }
        try await eventually("the first write holds the turn") { hasBegun.value }
        var tasks: [Task<Void, any Error>] = []
        for priority in [Priority.background, .interactive] {
            tasks.append(Task { try await db.write(priority: priority) { try $0.execute(sql: Self.insert) } })
            try await eventually("it waits behind the first") { db.waitingPriorities.mostUrgent == priority }
        }
        let held = Task {
            try await holder.whileWriting {
                try await eventually("they wait for the turn") { waiting != nil }
                #expect(waiting == .interactive)
            }
        }
        try await eventually("the holder is next") {
            block.participants().contains { $0.author == "holder" && $0.waiting != nil }
        }
        mayEnd.change { $0 = true }
        try await held.value
        try await first.value
        for task in tasks { try await task.value }
    }

    /// **Rule M10**: however a write ends, it no longer counts.
    @Test func endedWritesDoNotCount() async throws {
        struct Failure: Error {}
        let db = try open(.background)
        for sharesCommit in [true, false] {
            let tasks = try await holder.whileWriting {
                let tasks = (0..<4).map { _ in
                    Task { try await db.write(priority: .interactive, sharesCommit: sharesCommit) { _ in } }
                }
                try await eventually("they wait") { waiting == .interactive }
                tasks.forEach { $0.cancel() }
                return tasks
            }
            for task in tasks { _ = await task.result }
            await #expect(throws: Failure.self) {
                try await db.write(priority: .interactive, sharesCommit: sharesCommit) { _ in throw Failure() }
            }
            _ = await db.suspend(deadline: .now + .seconds(1))
            await #expect(throws: DatabaseError.self) {
                try await db.write(priority: .interactive, sharesCommit: sharesCommit, whileSuspended: .fail) { _ in }
            }
            let waits = Task { try await db.write(priority: .interactive, sharesCommit: sharesCommit) { _ in } }
            db.resume()
            try await waits.value
            try await eventually("none counts") { db.waitingPriorities.mostUrgent == nil }
        }
    }
}

/// Runs a blocking function on another thread.
private func inBackground<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
    }
}
