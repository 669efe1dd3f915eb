import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import Testing

@testable import RoundtableCore

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
        db = try SharedDatabase.open(at: url, schema: Schema(migrator()), as: "widget", options: options)
    }

    private func refuse() {
        process.assertions.endIfIdle()
        system.grants.change { $0 = false }
    }

    /// The blocking function, which fails where the asynchronous one waits.
    private func checkpoint() throws { try db.checkpoint() }

    private func add() throws { try db.write { _ = try Player(name: "A").inserted($0) } }
    private func count() throws -> Int { try db.read { try Player.fetchCount($0) } }

    /// A write does not begin that has been refused an assertion, and neither does a later one, until the system grants one again. Asynchronous
    /// writes wait for that. Reads go on.
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

    /// Within a protected access that was granted, a write needs no assertion of its own. It keeps that one when it runs for longer than the access.
    @Test func aProtectedAccessLeavesItsAssertionToWrites() async throws {
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
            return write
        }
        #expect(system.names == ["push"])
        mayEnd.signal()
        try await write.value
        try await eventually("the assertion ends") { system.held.value.isEmpty }
        #expect(try count() == 1)
    }

    /// If that assertion expires then, the write is aborted as one with an assertion of its own.
    @Test func anAssertionThatWasLeftExpires() async throws {
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
            return write
        }
        let expiry = Task.detached { [system] in system.expireAll(in: .milliseconds(200)) }
        try await eventually("the gate closes") { db.isSuspended }
        #expect(await expiry.value)
        mayEnd.signal()
        let error = await #expect(throws: DatabaseError.self) { try await write.value }
        #expect(error?.isSuspension == true)
        #expect(try system.held.value.isEmpty && count() == 0)
    }

    /// An assertion that is held stays, if the system refuses its renewal, and its expiry counts.
    @Test func aRefusedRenewalKeepsTheAssertion() throws {
        let (assertions, system) = (WriteAssertions(renewal: 0), FakeSystem())
        assertions.provider = system
        let expiries = Shared(0)
        assertions.onExpiry = { _ in expiries.change { $0 += 1 } }
        assertions.beginUse()
        let first = try #require(system.held.value.values.first)
        system.grants.change { $0 = false }
        assertions.beginUse()
        #expect(assertions.isProtecting && system.held.value.count == 1)
        first.onExpiry(.seconds(1))
        #expect(!assertions.isProtecting && expiries.value == 1)
        assertions.beginUse()
        #expect(assertions.isMissing && system.held.value.isEmpty)
        for _ in 0..<3 { assertions.endUse() }
    }
}
