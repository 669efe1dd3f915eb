import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

import class RoundtableTestSupport.TimedTrial

@testable import Roundtable
@testable import RoundtableCore

/// These tests check accesses that have to wait.
@Suite struct BusyModeTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("db.sqlite")
    }

    private func open(_ author: String, _ mode: SharedDatabase.BusyMode? = nil) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        if let mode { options.busyMode = mode }
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    /// Runs `body` while another participant is in a transaction. `end` ends that, and waits for it.
    private func whileHeld(_ body: (_ end: @escaping @Sendable () -> Void) throws -> Void) throws {
        let holder = try open("holder")
        let (entered, release, ended) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        Thread.detachNewThread {
            #expect(throws: Never.self) {
                try holder.write { db in
                    entered.signal()
                    release.wait()
                }
            }
            ended.signal()
        }
        entered.wait()
        let hasEnded = Shared(false)
        @Sendable func end() {
            if hasEnded.value { return }
            hasEnded.change { $0 = true }
            release.signal()
        }
        defer {
            end()
            ended.wait()
        }
        try body(end)
    }

    private func write(_ db: SharedDatabase) throws { try db.write { _ = try Player(name: "A").inserted($0) } }

    @Test(.timeLimit(.minutes(1))) func immediateError() async throws {
        try await blocking {
            let db = try open("hasty", .immediateError)
            try write(db)
            try whileHeld { _ in
                let violations = try TimedTrial.run { trial in
                    let began = ContinuousClock.now
                    let error = #expect(throws: DatabaseError.self) { try write(db) }
                    // The patience of a waiter is 100 ms.
                    trial.expect("refusal", (ContinuousClock.now - began) / .milliseconds(1), atMost: 90)
                    #expect(error?.resultCode == .SQLITE_BUSY)
                    #expect(
                        error?.message?.contains("'holder' (pid \(getpid()), this process)") == true,
                        "\(String(describing: error))"
                    )
                }
                #expect(violations == [])
            }
            try write(db)
        }
    }

    /// A closure without a transaction may work for longer than the timeout before it needs a lock, which has the whole timeout then.
    @Test(.timeLimit(.minutes(1))) func aLockAfterTheDeadline() async throws {
        try await blocking {
            let db = try open("slow", .timeout(.milliseconds(500)))
            let stranger = try RawSQLite(url.path)
            try db.writeWithoutTransaction { db in
                try stranger.execute("BEGIN IMMEDIATE")
                let deadline = ContinuousClock.now + .milliseconds(500)
                while ContinuousClock.now < deadline { usleep(1000) }
                Thread.detachNewThread {
                    usleep(20_000)
                    #expect(throws: Never.self) { try stranger.execute("ROLLBACK") }
                }
                _ = try Player(name: "A").inserted(db)
            }
        }
    }

    /// The callback learns which process is in the way, ever less often, and ends the wait.
    @Test(.timeLimit(.minutes(1))) func callbackThatEndsTheWait() async throws {
        try await blocking {
            let waits = Shared<[SharedDatabase.BusyWait]>([])
            let db = try open(
                "asked",
                .callback { wait in
                    waits.change { $0.append(wait) }
                    return wait.tries < 5 && wait.elapsed < .seconds(20)
                }
            )
            try write(db)
            #expect(waits.value.isEmpty)
            try whileHeld { _ in
                let error = #expect(throws: DatabaseError.self) { try write(db) }
                #expect(error?.resultCode == .SQLITE_BUSY && error?.message?.contains("'holder'") == true)
            }
            #expect(waits.value.map(\.tries) == Array(0...5))
            #expect(zip(waits.value, waits.value.dropFirst()).allSatisfy { $0.elapsed < $1.elapsed })
            let last = try #require(waits.value.last)
            #expect(last.elapsed >= .milliseconds(10 + 10 + 20 + 40 + 80 + 100) && last.path == db.path)
            let holder = try #require(last.holder)
            #expect(holder.name == "holder" && holder.pid == getpid() && holder.isParticipant)
            #expect(holder.liveness == .alive && last.description.hasSuffix(" for 'holder' (pid \(getpid()))"))
            #expect(last.holderCallSite?.contains("BusyModeTests.swift") == true)
            let since = try #require(last.holderSince)
            #expect(since <= Date() && since > Date(timeIntervalSinceNow: -60))
            try write(db)
        }
    }

    /// Each wait is counted from 0; a wait that ends well needs no answer of false. This holds for SQLite's lock and for the turn.
    @Test(.timeLimit(.minutes(1)), arguments: [true, false]) func callbackThatContinues(ofTurn: Bool) async throws {
        try await blocking {
            let asked = Shared<[Int]>([])
            let ending = Shared<(@Sendable () -> Void)?>(nil)
            let db = try open(
                "patient",
                .callback { wait in
                    asked.change { $0.append(wait.tries) }
                    if wait.tries == 2 { ending.value?() }
                    return true
                }
            )
            for round in 1...2 {
                if ofTurn {
                    try whileHeld { end in
                        ending.change { $0 = end }
                        try write(db)
                    }
                } else {
                    var configuration = Configuration()
                    configuration.allowsUnsafeTransactions = true
                    let stranger = try DatabaseQueue(path: url.path, configuration: configuration)
                    try stranger.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
                    ending.change { $0 = { try? stranger.inDatabase { try $0.execute(sql: "COMMIT") } } }
                    try write(db)
                }
                #expect(asked.value.filter { $0 == 0 }.count == round)
                #expect(asked.value.suffix(3).contains(2))
            }
            #expect(try db.read(Player.fetchCount) == 2)
        }
    }

    /// A cancelled task stops waiting in any busy mode, also when a stranger prevents its write from beginning.
    @Test(.timeLimit(.minutes(1))) func cancelledWhileItWaits() async throws {
        let isAsked = Shared(false)
        var options = SharedDatabase.Options()
        options.busyMode = .callback { _ in
            isAsked.change { $0 = true }
            return true
        }
        let schema = SharedSchema(migrator())
        let db = try await SharedDatabase.open(at: url, schema: schema, as: "patient", options: options)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let stranger = try DatabaseQueue(path: url.path, configuration: configuration)
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let isOver = Shared(false)
        let task = Task {
            defer { isOver.change { $0 = true } }
            try await db.write { db in _ = try Player(name: "A").inserted(db) }
        }
        try await eventually("it waits") { isAsked.value }
        task.cancel()
        try await eventually("it waits no longer") { isOver.value }
        try await stranger.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        await #expect(throws: CancellationError.self) { try await task.value }
        try await db.write { db in _ = try Player(name: "B").inserted(db) }
        #expect(try await db.read { try String.fetchAll($0, sql: "SELECT name FROM player") } == ["B"])
    }

    /// The busy mode does not apply to opening a database: opening waits for its turn.
    @Test(.timeLimit(.minutes(1))) func manyOpenAtOnce() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    try await blocking {
                        _ = try open("\(number)", number % 2 == 0 ? .immediateError : .callback { _ in false })
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// The busy mode does not apply to SQLite's lock either, which a stranger holds while this migrates: the wait may take as long as setting up.
    @Test(.timeLimit(.minutes(1)), arguments: [true, false]) func migratingBesideAStranger(isImmediate: Bool)
        async throws
    {
        try await blocking {
            try open("first").close()
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            let stranger = try DatabaseQueue(path: url.path, configuration: configuration)
            try stranger.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
            let asked = Shared(false)
            var options = SharedDatabase.Options()
            options.setupTimeout = .milliseconds(300)
            options.busyMode =
                isImmediate
                ? .immediateError
                : .callback { _ in
                    asked.change { $0 = true }
                    return false
                }
            let schema = SharedSchema(migrator(upTo: 2))
            let began = ContinuousClock.now
            let error = #expect(throws: DatabaseError.self) {
                try SharedDatabase.open(at: url, schema: schema, as: "late", options: options) as SharedDatabase
            }
            #expect(error?.resultCode == .SQLITE_BUSY)
            #expect(ContinuousClock.now - began >= .milliseconds(300) && !asked.value)
            try stranger.inDatabase { try $0.execute(sql: "COMMIT") }
            try (SharedDatabase.open(at: url, schema: schema, as: "late", options: options) as SharedDatabase).close()
        }
    }

    @Test func timeoutIsShortForIt() {
        var options = SharedDatabase.Options()
        #expect(options.busyTimeout == .seconds(5))
        options.busyTimeout = .seconds(2)
        guard case .timeout(.seconds(2)) = options.busyMode else { return #expect(Bool(false), "\(options.busyMode)") }
        options.busyMode = .immediateError
        #expect(options.busyTimeout == .zero)
    }

    private func blocking(_ body: @escaping @Sendable () throws -> Void) async throws {
        try await onThread { Result { try body() } }.get()
    }
}
