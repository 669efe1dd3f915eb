import Foundation
import GRDB
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableRoles

/// Participants of one process, each with its own `SharedDatabase`.
@Suite(.timeLimit(.minutes(1))) struct RolesTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    func open(_ author: String) throws -> SharedDatabase {
        func openNow() throws -> SharedDatabase {
            try SharedDatabase.open(at: folder.file("db.sqlite"), schema: SharedSchema(migrator()), as: author)
        }
        return try openNow()
    }

    /// A participant in errors.
    func name(_ author: String) -> String {
        "'\(author)' (pid \(ProcessInfo.processInfo.processIdentifier))"
    }

    func claims(_ db: SharedDatabase) throws -> [RoleClaim] {
        func read() throws -> RoleView? { try db.read { try RoleTable.view(of: "sync", $0) } }
        return try read()?.claims ?? []
    }

    /// Starts a wait, and returns when its claim is filed.
    func waiting(
        _ db: SharedDatabase,
        _ priority: SharedDatabase.TurnPriority = .default,
        timeout: Duration? = nil,
        patience: Duration = .seconds(1)
    ) async throws -> Task<RoleTerm, any Error> {
        let before = try claims(db).count
        let task = Task {
            try await db.role("sync").acquire(priority: priority, timeout: timeout, patience: patience)
        }
        try await eventually("the claim is filed") { try claims(db).count > before }
        return task
    }

    // MARK: Terms

    @Test func oneParticipantAtATimeHasIt() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let first = try await a.role("sync").acquire()
        #expect(first.generation == 1 && first.isHeld && first.role == "sync")
        #expect(try await b.role("sync").holder()?.name == "a")
        let wait = try await waiting(b)
        try await first.write { try Player(name: "A").add($0) }
        await first.end()
        let second = try await wait.value
        #expect(second.generation == 2 && second.isHeld && !first.isHeld)
        #expect(try await a.role("sync").holder()?.name == "b")
        try await second.write { try Player(name: "B").add($0) }
        await #expect(throws: RoleError.lost(path: a.path, role: "sync", holder: name("b"))) {
            try await first.write { try Player(name: "C").add($0) }
        }
        #expect(try a.names() == ["A", "B"])
        await second.end()
        #expect(try await a.role("sync").holder() == nil)
        #expect(try claims(a) == [])
    }

    /// Each role has its own holder.
    @Test func roles() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let sync = try await a.role("sync").acquire()
        let index = try await b.role("index").acquire()
        #expect(sync.isHeld && index.isHeld && index.generation == 1)
        await sync.end()
        await index.end()
    }

    /// A check in a transaction of its own.
    @Test func check() async throws {
        let db = try open("a")
        let term = try await db.role("sync").acquire()
        try await db.write { try term.check($0) }
        await term.end()
        await #expect(throws: RoleError.lost(path: db.path, role: "sync", holder: nil)) {
            try await db.write { try term.check($0) }
        }
    }

    /// The most urgent first, and then the one that waits the longest.
    @Test func order() async throws {
        let holder = try await open("holder").role("sync").acquire()
        let names = ["background", "first", "second", "urgent"]
        let databases = try names.map { try open($0) }
        var waits: [Task<RoleTerm, any Error>] = []
        for (db, priority) in zip(
            databases,
            [SharedDatabase.TurnPriority.background, .default, .default, .interactive]
        ) {
            waits.append(try await waiting(db, priority))
        }
        await holder.end()
        for (index, generation) in zip([3, 1, 2, 0], 2...) {
            let term = try await waits[index].value
            #expect(term.generation == Int64(generation))
            await term.end()
        }
    }

    /// Of one participant, too, one task at a time has it.
    @Test func tasksOfOneParticipant() async throws {
        let db = try open("a")
        let count = Shared(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    try await db.role("sync").hold { term in
                        count.change { $0 += 1 }
                        #expect(count.value == 1)
                        try await term.write { try Player(name: "\(term.generation)").add($0) }
                        count.change { $0 -= 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try db.names() == (1...8).map(String.init))
    }

    @Test func aReleasedTermEnds() async throws {
        let (a, b) = (try open("a"), try open("b"))
        var term: RoleTerm? = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        #expect(term?.isHeld == true)
        term = nil
        let next = try await wait.value
        await next.end()
    }

    @Test func status() async throws {
        let (a, b) = (try open("a"), try open("b"))
        #expect(try DatabaseStatus(ofDatabaseAt: folder.file("db.sqlite")).roles == nil)
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        let (first, last) = (try DatabaseStatus(ofDatabaseAt: folder.file("db.sqlite")), Date())
        let role = try #require(first.roles?.first)
        #expect(role.name == "sync" && role.generation == 1 && !role.isSuspended)
        #expect(role.holder?.name == "a" && role.holder?.liveness == .alive && role.waiting.map(\.name) == ["b"])
        #expect(try abs(#require(role.since).timeIntervalSince(last)) < 60)
        #expect(first.description.contains("role: 'sync': \(name("a")), 1 waits"))
        a.suspendNow()
        let next = try await wait.value
        a.resume()
        await term.waitUntilLost()
        b.suspendNow()
        let second = try #require(try DatabaseStatus(ofDatabaseAt: folder.file("db.sqlite")).roles?.first)
        #expect(second.isSuspended && second.holder?.name == "b" && second.generation == 2)
        b.resume()
        await next.end()
        let third = try #require(try DatabaseStatus(ofDatabaseAt: folder.file("db.sqlite")).roles?.first)
        #expect(third.holder == nil && third.since == nil && "\(third)" == "'sync': free")
    }

    // MARK: Ends

    @Test func timeout() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        await #expect(throws: RoleError.timedOut(path: a.path, role: "sync", holder: name("a"))) {
            _ = try await b.role("sync").acquire(timeout: .milliseconds(100))
        }
        try await eventually("the claim is removed") { try claims(a).count == 1 }
        await term.end()
    }

    @Test func cancellation() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        wait.cancel()
        await #expect(throws: CancellationError.self) { _ = try await wait.value }
        try await eventually("the claim is removed") { try claims(a).count == 1 }
        #expect(term.isHeld)
        await term.end()
    }

    /// A claim that is given the role while it is being cancelled passes it on.
    @Test func cancellationAtTheLastMoment() async throws {
        let (a, b, c) = (try open("a"), try open("b"), try open("c"))
        for _ in 0..<10 {
            let term = try await a.role("sync").acquire()
            let (second, third) = (try await waiting(b), try await waiting(c))
            async let end: Void = term.end()
            second.cancel()
            await end
            if let term = try? await second.value { await term.end() }
            await (try await third.value).end()
        }
        try await eventually("all claims are removed") { try claims(a).isEmpty }
    }

    @Test func closingHandsOver() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        let lost = Task { await term.waitUntilLost() }
        try a.closeNow()
        #expect(!term.isHeld)
        await lost.value
        let next = try await wait.value
        #expect(next.generation == 2)
        #expect(try claims(b).map(\.author) == ["b"])
        await next.end()
    }

    /// A participant that closes while it waits is passed over.
    @Test func aWaitEndsWithTheDatabase() async throws {
        let (a, b, c) = (try open("a"), try open("b"), try open("c"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        let other = try await waiting(c)
        try b.closeNow()
        await #expect(throws: (any Error).self) { _ = try await wait.value }
        #expect(try claims(a).map(\.author) == ["a", "c"])
        await term.end()
        await (try await other.value).end()
    }

    /// A suspended participant that closes cannot remove its claim, of which others see that it is gone.
    @Test func aWaitEndsWithASuspendedDatabase() async throws {
        let (a, b, c) = (try open("a"), try open("b"), try open("c"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        let other = try await waiting(c)
        b.suspendNow()
        try b.closeNow()
        await #expect(throws: (any Error).self) { _ = try await wait.value }
        #expect(try claims(a).map(\.author) == ["a", "b", "c"])
        await term.end()
        await (try await other.value).end()
    }

    /// A claim is not filed again after closing has removed it.
    @Test func aClaimThatClosingHasRemoved() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        // As closing does, before the database is closed.
        b.companion(Roles.self).databaseIsClosing()
        try a.run("DELETE FROM roundtable_role_claim WHERE author = 'b'")
        await #expect(throws: DatabaseError.self) { _ = try await wait.value }
        #expect(try claims(a).map(\.author) == ["a"])
        await term.end()
    }

    /// **Rule P19**: who waits does not wait for a participant whose gate is closed.
    @Test func suspension() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let body = Task {
            try await a.role("other").hold { _ in try await Task.sleep(for: .seconds(3600)) }
        }
        try await eventually("the other role is held") { try await b.role("other").holder() != nil }
        a.suspendNow()
        let other = try await b.role("other").acquire()
        let next = try await b.role("sync").acquire()
        #expect(next.generation == 2 && other.generation == 2)
        try await next.write { try Player(name: "B").add($0) }
        a.resume()
        await term.waitUntilLost()
        #expect(!term.isHeld)
        await #expect(throws: RoleError.lost(path: a.path, role: "other", holder: name("b"))) { try await body.value }
        await #expect(throws: RoleError.lost(path: a.path, role: "sync", holder: name("b"))) {
            try await term.write { try Player(name: "A").add($0) }
        }
        #expect(try b.names() == ["B"])
        await next.end()
        await other.end()
    }

    /// A holder that nobody waits for keeps the role while it is suspended.
    @Test func aSuspensionThatNobodyUses() async throws {
        let db = try open("a")
        let term = try await db.role("sync").acquire()
        db.suspendNow()
        db.resume()
        try await term.write { try Player(name: "A").add($0) }
        #expect(term.isHeld && term.generation == 1)
        await term.end()
    }

    /// A suspended participant that waits is passed over, and keeps its place.
    @Test func aSuspendedWait() async throws {
        let (a, b, c) = (try open("a"), try open("b"), try open("c"))
        let term = try await a.role("sync").acquire()
        let (second, third) = (try await waiting(b), try await waiting(c))
        b.suspendNow()
        await term.end()
        let next = try await third.value
        b.resume()
        await next.end()
        await (try await second.value).end()
    }

    /// A term that ends while the database is suspended is given up afterwards.
    @Test func anEndWhileSuspended() async throws {
        let db = try open("a")
        let term = try await db.role("sync").acquire()
        db.suspendNow()
        await term.end()
        #expect(try claims(db).count == 1)
        db.resume()
        try await eventually("the claim is removed") { try claims(db).isEmpty }
    }
}

extension SharedDatabase {
    func closeNow() throws { try close() }
    func suspendNow() { _ = suspend(deadline: .now + .seconds(5)) }
}

extension Player {
    func add(_ db: Database) throws {
        try db.execute(sql: "INSERT INTO player (name) VALUES (?)", arguments: [name])
    }
}
