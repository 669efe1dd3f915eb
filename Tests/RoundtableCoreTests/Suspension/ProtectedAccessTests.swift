import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import RoundtableCore
@testable import RoundtableGate

/// The system's side: it grants assertions, takes them back, and knows whether the process may run.
final class FakeSystem: SuspensionAssertions {
    final class Granted: SuspensionAssertion {
        let id: Int
        let system: FakeSystem
        init(_ id: Int, _ system: FakeSystem) {
            self.id = id
            self.system = system
        }
        func end() { system.held.change { $0[id] = nil } }
    }

    struct Held: Sendable {
        var name: String
        var onExpiry: @Sendable (Duration) -> Void
    }

    let held = Shared<[Int: Held]>([:])
    private let begun = Atomic(0)
    let grants = Shared(true)
    let asked = Shared<[String]>([])

    func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
        asked.change { $0.append(name) }
        guard grants.value else { return nil }
        let id = begun.wrappingAdd(1, ordering: .relaxed).newValue
        held.change { $0[id] = Held(name: name, onExpiry: onExpiry) }
        return Granted(id, self)
    }

    var names: [String] { held.value.values.map(\.name) }

    /// - returns: whether there were any but the one by which the process asks whether it may open its gates again.
    @discardableResult
    func expireAll(in time: Duration) -> Bool {
        grants.change { $0 = false }
        let all = held.value.values
        for one in all { one.onExpiry(time) }
        return all.contains { $0.name != "Roundtable" }
    }
}

@Suite struct ProtectedAccessTests {
    private let folder: TemporaryFolder
    private let url: URL
    private let process = ProcessSuspension()
    private let system = FakeSystem()

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
        process.assertions.provider = system
    }

    private func open() throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = process
        return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app", options: options)
    }

    private func suspend() { process.suspend(until: MonotonicClock.now + 50_000_000) }

    private func add(_ db: SharedDatabase) throws { try db.write { _ = try Player(name: "A").inserted($0) } }

    @Test func opensInTheBackgroundAndClosesAgain() throws {
        let db = try open()
        suspend()
        #expect(system.held.value.isEmpty)
        try db.withProtectedAccess("push") {
            #expect(!db.isSuspended)
            #expect(!system.held.value.isEmpty)
            try add(db)
        }
        #expect(db.isSuspended)
        #expect(system.held.value.isEmpty)
        #expect(system.asked.value.contains("push"))
        #expect(throws: DatabaseError.self) { try add(db) }
    }

    /// **Rule F5**: after an expiry, the next write requests an assertion, which protects it and all that run beside it.
    @Test func oneAssertionAfterAnExpiredOne() {
        let assertions = WriteAssertions()
        assertions.provider = system
        assertions.beginUse()
        #expect(assertions.isProtecting && system.asked.value.count == 1)
        system.expireAll(in: .seconds(1))
        #expect(!assertions.isProtecting)
        system.grants.change { $0 = true }
        for _ in 0..<2 {
            assertions.beginUse()
            #expect(assertions.isProtecting && system.asked.value.count == 2)
        }
        #expect(system.held.value.count == 1)
        for _ in 0..<3 { assertions.endUse() }
        assertions.endIfIdle()
        #expect(system.held.value.isEmpty)
    }

    /// **Rule F5**: the expiry of an assertion that has ended concerns no later one.
    @Test func aLateExpiryEndsNoProtection() throws {
        let assertions = WriteAssertions()
        assertions.provider = system
        let expiries = Shared(0)
        assertions.onExpiry = { _ in expiries.change { $0 += 1 } }
        assertions.beginUse()
        let old = try #require(system.held.value.values.first)
        assertions.endUse()
        assertions.endIfIdle()
        #expect(system.held.value.isEmpty)
        assertions.beginUse()
        old.onExpiry(.seconds(1))
        #expect(assertions.isProtecting && expiries.value == 0)
        assertions.endUse()
        assertions.endIfIdle()
    }

    /// **Rule F5**: an assertion that is old is replaced while it is in use, by a long write or by many, which hold one all the time.
    @Test func anOldAssertionIsReplaced() async throws {
        let assertions = WriteAssertions(renewal: .milliseconds(5))
        assertions.provider = system
        assertions.beginUse()
        try await eventually("it was replaced twice") {
            #expect(assertions.isProtecting)
            return system.asked.value.count >= 3
        }
        assertions.endUse()
        assertions.endIfIdle()
        #expect(system.held.value.isEmpty)
        // Without an assertion, nothing wakes the process. A later one is replaced, too.
        try await eventually("the timer stops") { !assertions.isRenewing }
        let asked = system.asked.value.count
        assertions.beginUse()
        try await eventually("it was replaced twice") { system.asked.value.count >= asked + 3 }
        assertions.endUse()
        assertions.endIfIdle()
    }

    @Test func inTheForegroundItStaysOpen() async throws {
        let db = try open()
        try await db.withProtectedAccess { try await db.write { _ = try Player(name: "A").inserted($0) } }
        #expect(!db.isSuspended)
    }

    @Test func whatRunsWhenItIsSuspendedKeepsItOpen() throws {
        let db = try open()
        try db.withProtectedAccess("one") {
            try db.withProtectedAccess("two") {
                let answer = process.suspend(until: MonotonicClock.now + 50_000_000)
                #expect(answer.map(\.outcome) == [.protected(["one", "two"])])
                try add(db)
            }
            #expect(!db.isSuspended)
            try add(db)
        }
        #expect(db.isSuspended)
        process.resume()
        #expect(!db.isSuspended)
    }

    @Test func overlapping() async throws {
        let db = try open()
        suspend()
        let (firstMayEnd, secondRuns) = (Shared(false), Shared(false))
        let first = Task {
            try await db.withProtectedAccess("first") {
                try await eventually("the second runs") { secondRuns.value }
            }
            firstMayEnd.change { $0 = true }
        }
        try await db.withProtectedAccess("second") {
            secondRuns.change { $0 = true }
            try await first.value
            #expect(!db.isSuspended)
            try await db.write { _ = try Player(name: "A").inserted($0) }
        }
        #expect(db.isSuspended)
    }

    @Test func anErrorEndsIt() async throws {
        struct Failure: Error {}
        let db = try open()
        suspend()
        #expect(throws: Failure.self) { try db.withProtectedAccess { throw Failure() } }
        await #expect(throws: Failure.self) {
            try await db.withProtectedAccess { () async throws -> Void in throw Failure() }
        }
        #expect(db.isSuspended)
        #expect(system.held.value.isEmpty)
    }

    @Test func refused() throws {
        let db = try open()
        suspend()
        system.grants.change { $0 = false }
        let error = #expect(throws: SharedDatabaseError.self) { try db.withProtectedAccess("push") {} }
        #expect(error == .assertionRefused(name: "push"))
        #expect(db.isSuspended)
        process.resume()
        // In the foreground, there is nothing to open.
        try db.withProtectedAccess("push") { try add(db) }
        #expect(!db.isSuspended)
    }

    @Test func expiryClosesAndDrains() throws {
        let db = try open()
        suspend()
        try db.withProtectedAccess("push") {
            system.expireAll(in: .milliseconds(50))
            #expect(db.isSuspended)
            #expect(throws: DatabaseError.self) { try add(db) }
        }
        #expect(db.isSuspended)
        process.resume()
        try add(db)
    }

    /// A write that the system gives more time is finished although the deadline has passed; then nothing is held.
    @Test func writesHoldTheAssertion() async throws {
        let db = try open()
        let (began, mayEnd) = (Shared(false), Shared(false))
        let write = inThread {
            try db.write { db in
                _ = try Player(name: "A").inserted(db)
                began.change { $0 = true }
                mayEnd.wait { $0 }
                _ = try Player(name: "B").inserted(db)
            }
        }
        try await eventually("it writes") { began.value }
        #expect(system.held.value.count == 1)
        let answer = await onThread { [process] in process.suspend(until: MonotonicClock.now + 20_000_000) }
        guard case .protected(let names)? = answer.first?.outcome else {
            Issue.record("\(answer)")
            return
        }
        #expect(names.first?.contains("ProtectedAccessTests.swift") == true)
        #expect(system.held.value.count == 1)
        mayEnd.change { $0 = true }
        try await write.value
        try await eventually("the assertion is ended") { system.held.value.isEmpty }
        try await eventually("the state is shown") {
            try DatabaseStatus(ofDatabaseAt: url).participants.first?.state == .suspended
        }
        process.resume()
        #expect(try await db.read { try Player.fetchCount($0) } == 2)
    }

    @Test func theAssertionOfAWriteExpires() async throws {
        let db = try open()
        let (began, mayEnd) = (Shared(false), Shared(false))
        let write = inThread {
            try db.write { db in
                _ = try Player(name: "A").inserted(db)
                began.change { $0 = true }
                mayEnd.wait { $0 }
                _ = try Player(name: "B").inserted(db)
            }
        }
        try await eventually("it writes") { began.value }
        await onThread { [system] in system.expireAll(in: .milliseconds(30)) }
        // The system ends processes that keep an assertion after its expiry.
        #expect(system.held.value.isEmpty)
        #expect(db.isSuspended)
        mayEnd.change { $0 = true }
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.isSuspension == true)
        // No caller resumes a process that was never suspended: as soon as the system grants an assertion again, it continues.
        system.grants.change { $0 = true }
        try await db.write { _ = try Player(name: "C").inserted($0) }
        #expect(try await db.read { try Player.fetchCount($0) } == 1)
    }

    @Test func theAssertionIsEndedAWhileAfterTheLastWrite() async throws {
        let db = try open()
        let before = system.asked.value.count
        // On a busy machine, some may come so late that it was ended meanwhile.
        var late = 0
        for _ in 0..<100 {
            let began = ContinuousClock.now
            try await db.write { _ = try Player(name: "A").inserted($0) }
            if ContinuousClock.now - began > .milliseconds(50) { late += 1 }
        }
        #expect(system.asked.value.count <= before + 20 + late)
        try await eventually("it is ended") { system.held.value.isEmpty }
    }

    /// Random sequences of an app's states run, with pushes in between, some of which overlap. After each step, the gate is open if and only if it
    /// must be, and no assertion is held without a reason.
    @Test(.long()) func choreographies() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = Seeded(seed)
        let db = try open()
        for sequence in 0..<1000 {
            var isSuspended = false
            var isSuspendedAlone = false
            // Some accesses are of the whole process, and some of the database; they are not nested like parentheses.
            var running: [(end: () -> Void, ofProcess: Bool)] = []
            var steps: [String] = []
            func step(_ name: String) { steps.append(name) }
            for _ in 0..<Int.random(in: 5...25, using: &random) {
                switch Int.random(in: 0..<8, using: &random) {
                case 0, 1:
                    step("suspend")
                    suspend()
                    isSuspended = true
                case 2:
                    step("resume")
                    process.resume()
                    isSuspended = false
                case 3:
                    step("suspend alone")
                    _ = db.suspend(deadline: .now + .milliseconds(20))
                    isSuspendedAlone = true
                case 4:
                    step("resume alone")
                    db.resume()
                    isSuspendedAlone = false
                case 5:
                    let ofProcess = Bool.random(using: &random)
                    step("begin \(ofProcess)")
                    running.append((try begin(ofProcess ? nil : db), ofProcess))
                case 6 where !running.isEmpty:
                    let index = Int.random(in: 0..<running.count, using: &random)
                    step("end \(index)")
                    running.remove(at: index).end()
                default:
                    step("expire")
                    let wasProtected = system.expireAll(in: .milliseconds(20))
                    if wasProtected { try #require(db.isSuspended, "seed \(seed): \(steps)") }
                    system.grants.change { $0 = true }
                    process.resume()
                    // The bodies continue; they protect nothing any more.
                    try #require(db.isSuspended == isSuspendedAlone, "seed \(seed): \(steps)")
                    running.forEach { $0.end() }
                    running = []
                    if isSuspended { suspend() }
                }
                let mustBeOpen =
                    running.contains { !$0.ofProcess }
                    || !isSuspendedAlone && (!isSuspended || !running.isEmpty)
                try #require(db.isSuspended == !mustBeOpen, "seed \(seed), sequence \(sequence): \(steps)")
                if mustBeOpen {
                    try add(db)
                } else {
                    #expect(throws: DatabaseError.self) { try add(db) }
                    try #require(
                        system.held.value.isEmpty || !running.isEmpty,
                        "seed \(seed), sequence \(sequence): \(steps), held: \(system.names)"
                    )
                }
            }
            running.forEach { $0.end() }
            db.resume()
            suspend()
            try #require(
                db.isSuspended && system.held.value.isEmpty,
                "seed \(seed), sequence \(sequence): \(steps), held: \(system.names)"
            )
            process.resume()
            try #require(!db.isSuspended, "seed \(seed), sequence \(sequence): \(steps)")
        }
    }

    /// Begins a protected access on a thread of its own.
    ///
    /// - returns: ends it, and waits for that. A second time, it does nothing.
    private func begin(_ db: SharedDatabase?) throws -> () -> Void {
        let (began, mayEnd, ended) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        let process = process
        Thread.detachNewThread {
            do {
                let body = {
                    began.signal()
                    mayEnd.wait()
                }
                if let db {
                    try db.withProtectedAccess("push", body)
                } else {
                    try process.withProtectedAccess("push", grace: .milliseconds(20), body)
                }
            } catch {
                Issue.record(error)
                began.signal()
            }
            ended.signal()
        }
        began.wait()
        var hasEnded = false
        return {
            if hasEnded { return }
            hasEnded = true
            mayEnd.signal()
            ended.wait()
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
private struct Seeded: RandomNumberGenerator {
    private var state: UInt64
    init(_ seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
