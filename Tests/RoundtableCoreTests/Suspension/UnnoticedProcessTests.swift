import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore
@testable import RoundtableGate

/// A process that the system freezes without notice, such as a widget (rule F5b). The system may refuse it an assertion when the freeze is near.
@Suite struct UnnoticedProcessTests {
    private let folder: TemporaryFolder
    private let url: URL
    private let hasNotices: Shared<Bool>
    private let process: ProcessSuspension
    private let system = FakeSystem()
    private let db: SharedDatabase

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("players.sqlite")
        let hasNotices = Shared(false)
        self.hasNotices = hasNotices
        process = ProcessSuspension { hasNotices.value }
        process.assertions.provider = system
        var options = SharedDatabase.Options()
        options.process = process
        db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "widget", options: options)
    }

    private func refuse() {
        process.assertions.endIfIdle()
        system.grants.change { $0 = false }
    }

    /// The blocking function fails where the asynchronous one waits.
    private func checkpoint() throws { try db.checkpoint() }

    private func add() throws { try db.write { _ = try Player(name: "A").inserted($0) } }
    private func count() throws -> Int { try db.read { try Player.fetchCount($0) } }

    /// A write does not begin that has been refused an assertion, and neither does a later one, until the system grants one again. Asynchronous
    /// writes wait for that. Reads continue.
    @Test func aRefusalClosesTheGate() async throws {
        refuse()
        let error = #expect(throws: DatabaseError.self) { try add() }
        #expect(error?.isSuspension == true)
        #expect(db.isSuspended)
        let asked = system.asked.value.count
        #expect(throws: DatabaseError.self) { try add() }
        #expect(try system.asked.value.count == asked && count() == 0)
        let write = Task { try await db.write { _ = try Player(name: "B").inserted($0) } }
        system.grants.change { $0 = true }
        try await write.value
        #expect(try !db.isSuspended && count() == 1)
    }

    /// The same write begins in a process that is notified, because it can still be aborted then.
    @Test func aRefusalIsIgnoredInTheForeground() throws {
        hasNotices.change { $0 = true }
        refuse()
        try add()
        #expect(try !db.isSuspended && count() == 1)
    }

    /// A checkpoint takes a lock, and so it holds an assertion, or does not begin.
    @Test func aCheckpointHoldsAnAssertion() async throws {
        try add()
        refuse()
        #expect(throws: DatabaseError.self) { try checkpoint() }
        system.grants.change { $0 = true }
        try await eventually("the gate opens") { !db.isSuspended }
        process.assertions.endIfIdle()
        let asked = system.asked.value.count
        try checkpoint()
        #expect(system.asked.value.count == asked + 1)
    }

    /// A protected access throws if it is refused, although nothing is suspended: its writes could not begin.
    @Test func aProtectedAccessIsRefused() throws {
        refuse()
        #expect(throws: SharedDatabaseError.self) { try db.withProtectedAccess("push") { try add() } }
        #expect(try count() == 0)
    }

    /// The assertion of a protected access prevents the system from freezing the whole process, so it also backs the writes of other databases.
    @Test func aProtectedAccessBacksOtherDatabases() throws {
        var options = SharedDatabase.Options()
        options.process = process
        let other = try SharedDatabase.open(
            at: folder.file("other.sqlite"),
            schema: SharedSchema(migrator()),
            as: "widget",
            options: options
        )
        refuse()
        system.grants.change { $0 = true }
        try db.withProtectedAccess("push") {
            system.grants.change { $0 = false }
            try other.write { _ = try Player(name: "A").inserted($0) }
            #expect(!db.isSuspended)
            try add()
        }
        #expect(try count() == 1 && other.read { try Player.fetchCount($0) } == 1)
    }

    /// Begins a write within a protected access that was granted, which ends before the write. No assertion is granted to the write.
    ///
    /// - parameter body: runs within the access, once the write has begun.
    private func outlastingWrite(
        _ body: () async -> Void = {}
    ) async throws -> (task: Task<Void, any Error>, mayEnd: DispatchSemaphore) {
        process.assertions.endIfIdle()
        let (hasBegun, mayEnd) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
        let write = try await db.withProtectedAccess("push") {
            system.grants.change { $0 = false }
            let write = Task {
                try await db.write { db in
                    hasBegun.continuation.yield()
                    mayEnd.wait()
                    _ = try Player(name: "A").inserted(db)
                }
            }
            for await _ in hasBegun.stream { break }
            await body()
            return write
        }
        return (write, mayEnd)
    }

    /// Within a protected access that was granted, a write needs no assertion of its own. It keeps that one when it runs for longer than the access.
    @Test func aProtectedAccessLeavesItsAssertionToWrites() async throws {
        let (write, mayEnd) = try await outlastingWrite()
        #expect(system.names == ["push"])
        mayEnd.signal()
        try await write.value
        try await eventually("the assertion ends") { system.held.value.isEmpty }
        #expect(try count() == 1)
    }

    /// If that assertion expires then, the write is aborted as one with an assertion of its own.
    @Test func anAssertionThatWasLeftExpires() async throws {
        let (write, mayEnd) = try await outlastingWrite()
        let expiry = Task.detached { [system] in system.expireAll(in: .milliseconds(200)) }
        try await eventually("the gate closes") { db.isSuspended }
        #expect(await expiry.value)
        mayEnd.signal()
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.isSuspension == true)
        #expect(try system.held.value.isEmpty && count() == 0)
    }

    /// An assertion that expires within its protected access is left to no write, which would count as protected from then on.
    @Test func anExpiredAssertionIsLeftToNoWrite() async throws {
        let (write, mayEnd) = try await outlastingWrite {
            await Task.detached { [system] in _ = system.expireAll(in: .milliseconds(200)) }.value
        }
        #expect(process.assertions.isMissing && system.held.value.isEmpty)
        mayEnd.signal()
        await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(try count() == 0)
    }

    /// A write that was aborted may still compute, with its lock, when the system grants an assertion again. It keeps that one until it ends.
    @Test func anAbortedWriteKeepsTheNextAssertion() async throws {
        let (write, mayEnd) = try await outlastingWrite()
        await Task.detached { [system] in _ = system.expireAll(in: .milliseconds(200)) }.value
        system.grants.change { $0 = true }
        try await eventually("the gate opens") { !db.isSuspended }
        #expect(system.names == ["Roundtable"] && process.assertions.isProtecting)
        mayEnd.signal()
        await #expect(throws: DatabaseError.self) { try await write.value }
        try await eventually("the assertion ends") { system.held.value.isEmpty }
        #expect(try count() == 0)
    }

    /// A visit that starts after the gate has closed requests nothing, because a request takes the system time.
    @Test func noRequestBehindAClosedGate() throws {
        let gate = SuspensionGate(path: url.path, policy: .writeLocks, process: process)
        let id = try #require(gate.enter(.write, at: nil, isRunning: false))
        process.assertions.endIfIdle()
        let asked = system.asked.value.count
        _ = gate.request { $0.own.isSuspended = true }
        #expect(gate.start(id) == nil && system.asked.value.count == asked)
        gate.leave(id)
    }

    /// The suspending thread waits for a request no longer than until the deadline. The assertion is ended after it.
    @Test(.timeLimit(.minutes(1))) func suspendingDoesNotWaitForARequest() async throws {
        let (assertions, system) = (WriteAssertions(), SlowSystem())
        assertions.provider = system
        let hasBegun = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            assertions.beginUse()
            assertions.endUse()
            hasBegun.signal()
        }
        system.isAsked.wait()
        assertions.endIfIdle(until: MonotonicClock.now + 10_000_000)
        system.mayAnswer.signal()
        await onThread { hasBegun.wait() }
        try await eventually("the assertion ends") { assertions.isMissing }
    }

    /// A renewal that has expired before it is used does not replace the assertion that protects.
    @Test func anExpiredRenewalKeepsTheAssertion() async throws {
        struct Hasty: SuspensionAssertions {
            let system = FakeSystem()
            func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
                let isRenewal = !system.asked.value.isEmpty
                let assertion = system.begin(name, onExpiry: onExpiry)
                if isRenewal { onExpiry(.seconds(1)) }
                return assertion
            }
        }
        let (assertions, provider) = (WriteAssertions(renewal: .milliseconds(5)), Hasty())
        assertions.provider = provider
        assertions.beginUse()
        let first = try #require(provider.system.held.value.keys.min())
        try await eventually("it is renewed twice") { provider.system.asked.value.count >= 3 }
        try await eventually("renewals are ended") { Array(provider.system.held.value.keys) == [first] }
        #expect(assertions.isProtecting)
        assertions.endUse()
        assertions.endIfIdle()
    }

    /// The expiry of an assertion counts, even if it comes before the answer to the request.
    @Test func anAssertionExpiresWhileItIsGranted() {
        struct Assertion: SuspensionAssertion { func end() {} }
        struct Hasty: SuspensionAssertions {
            func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
                onExpiry(.seconds(1))
                return Assertion()
            }
        }
        let assertions = WriteAssertions()
        assertions.provider = Hasty()
        assertions.beginUse()
        defer { assertions.endUse() }
        #expect(!assertions.isProtecting && assertions.isMissing)
    }

    /// An assertion that is held stays, if the system refuses its renewal, and its expiry counts.
    @Test func aRefusedRenewalKeepsTheAssertion() async throws {
        let (assertions, system) = (WriteAssertions(renewal: .milliseconds(5)), FakeSystem())
        assertions.provider = system
        let expiries = Shared(0)
        assertions.onExpiry = { _ in expiries.change { $0 += 1 } }
        assertions.beginUse()
        system.grants.change { $0 = false }
        let asked = system.asked.value.count
        try await eventually("renewals are refused") { system.asked.value.count >= asked + 2 }
        #expect(assertions.isProtecting && system.held.value.count == 1)
        try #require(system.held.value.values.first).onExpiry(.seconds(1))
        #expect(assertions.isMissing && expiries.value == 1)
        assertions.endUse()
    }

    /// An assertion is not taken over while another one is being requested, whose expiry would be missed then.
    @Test func noAssertionIsTakenOverDuringARequest() throws {
        let (assertions, system) = (WriteAssertions(), SlowSystem())
        assertions.provider = system
        let expiries = Shared(0)
        assertions.onExpiry = { _ in expiries.change { $0 += 1 } }
        let (hasBegun, hasTaken) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            assertions.beginUse()
            hasBegun.signal()
        }
        system.isAsked.wait()
        let taken = Shared(true)
        Thread.detachNewThread {
            taken.change { $0 = assertions.take(SlowSystem.Granted()) }
            hasTaken.signal()
        }
        // The thread waits for the answer. It may also be late, and take nothing for that reason.
        #expect(hasTaken.wait(timeout: .now() + .milliseconds(50)) == .timedOut)
        system.mayAnswer.signal()
        hasBegun.wait()
        hasTaken.wait()
        #expect(!taken.value && assertions.isProtecting)
        let expire = try #require(system.onExpiry.value)
        expire(.seconds(1))
        #expect(assertions.isMissing && expiries.value == 1)
        assertions.endUse()
    }
}

/// A system that takes its time to grant an assertion.
private final class SlowSystem: SuspensionAssertions {
    final class Granted: SuspensionAssertion { func end() {} }

    let (isAsked, mayAnswer) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let onExpiry = Shared<(@Sendable (Duration) -> Void)?>(nil)

    func begin(_ name: String, onExpiry: @escaping @Sendable (Duration) -> Void) -> (any SuspensionAssertion)? {
        self.onExpiry.change { $0 = onExpiry }
        isAsked.signal()
        mayAnswer.wait()
        return Granted()
    }
}
