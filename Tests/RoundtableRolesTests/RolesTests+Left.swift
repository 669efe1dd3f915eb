import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableCore
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableRoles

/// Claims that are left by who cannot remove them, and what must not take a role.
extension RolesTests {
    /// The claims of processes that have died, of another boot, and of this one that nobody knows.
    @Test(arguments: ["dead", "boot", "own"])
    func claimsThatAreLeft(kind: String) async throws {
        let db = try open("a")
        let term = try await db.role("sync").acquire()
        await term.end()
        let own = ProcessIdentity.current
        let parent = ProcessIdentity(pid: getppid(), startTime: 0, namespace: own.namespace)
        let dead = ProcessIdentity(pid: own.pid, startTime: own.startTime &- 1000, namespace: own.namespace)
        let process = kind == "dead" ? dead : kind == "boot" ? parent : own
        let boot = kind == "boot" ? "another boot" : BootClock.bootID
        try await db.write { db in
            try db.execute(
                sql: """
                    INSERT INTO roundtable_role_claim VALUES (17, 'sync', 1, 1, 'ghost', ?, ?, ?, ?, 0, 99);
                    UPDATE roundtable_role SET holder = 17
                    """,
                arguments: [
                    process.pid, Int64(bitPattern: process.startTime), Int64(bitPattern: process.namespace), boot,
                ]
            )
        }
        let next = try await db.role("sync").acquire(patience: .seconds(60))
        #expect(next.generation == 2)
        #expect(try claims(db).map(\.author) == ["a"])
        await next.end()
    }

    /// The claim of a process that lives, and has no slot: it is waited for, and then passed over.
    @Test func aClaimWithoutASlot() async throws {
        let db = try open("a")
        let term = try await db.role("sync").acquire()
        await term.end()
        let own = ProcessIdentity.current
        try await db.write { db in
            try db.execute(
                sql: """
                    INSERT INTO roundtable_role_claim VALUES (17, 'sync', 1, 1, 'ghost', ?, 0, ?, '', 0, 99);
                    UPDATE roundtable_role SET holder = 17
                    """,
                arguments: [getppid(), Int64(bitPattern: own.namespace)]
            )
        }
        let began = ContinuousClock.now
        let next = try await db.role("sync").acquire(patience: .milliseconds(400))
        #expect(next.generation == 2 && ContinuousClock.now - began >= .milliseconds(200))
        await next.end()
    }

    /// **Rule P17**: the claims of a copy are those of another file.
    @Test func aCopy() async throws {
        let a = try open("a")
        let term = try await a.role("sync").acquire()
        let copy = folder.file("copy.sqlite")
        try a.backup(to: DatabaseQueue(path: copy.path))
        let other = try await SharedDatabase.open(at: copy, schema: SharedSchema(migrator()), as: "a")
        let next = try await other.role("sync").acquire(patience: .seconds(60))
        #expect(next.generation == 2 && term.isHeld)
        await next.end()
        await term.end()
    }

    /// **Rule P18**: a participant that refuses its own writes gives up what it cannot use.
    @Test func aNewerSchema() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        let newer = try await SharedDatabase.open(
            at: folder.file("db.sqlite"),
            schema: SharedSchema(migrator(upTo: 2)),
            as: "newer"
        )
        await #expect(throws: (any Error).self) { try await term.write { try Player(name: "A").add($0) } }
        await term.end()
        let next = try await newer.role("sync").acquire(patience: .seconds(60))
        #expect(next.isHeld)
        wait.cancel()
        await next.end()
    }

    /// A database that could not be closed gives up what it has ended.
    @Test func aCloseThatFails() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b, patience: .seconds(60))
        let statement = makeStatement(a)
        _ = try await b.whileWriting {
            // The claim cannot be removed now, and the database cannot be closed.
            await onThread { #expect(throws: DatabaseError.self) { try a.close() } }
        }
        #expect(!term.isHeld)
        let next = try await wait.value
        #expect(next.generation == 2)
        await next.end()
        sqlite3_finalize(statement.statement)
    }

    /// A statement of the writer that outlives its access, as a mistake does.
    private func makeStatement(_ db: SharedDatabase) -> Held {
        db.writeWithoutTransaction { db in
            var statement: OpaquePointer?
            #expect(sqlite3_prepare_v2(db.sqliteConnection, "SELECT 1", -1, &statement, nil) == SQLITE_OK)
            return Held(statement: statement)
        }
    }

    // @unchecked: no other thread uses the statement, which only keeps the connection from closing.
    private struct Held: @unchecked Sendable { let statement: OpaquePointer? }

    /// A program that shuts down gives its roles up at once.
    @Test func shutdown() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b, patience: .seconds(60))
        func refuse() { a.refuseNewWrites() }
        refuse()
        #expect(!term.isHeld)
        await (try await wait.value).end()
    }

    /// With the policy that closes all connections, too, a suspension that nobody uses takes no role.
    @Test func suspensionsThatCloseAll() async throws {
        var options = SharedDatabase.Options()
        options.suspensionPolicy = .everything
        let db = try await SharedDatabase.open(
            at: folder.file("db.sqlite"),
            schema: SharedSchema(migrator()),
            as: "a",
            options: options
        )
        let isOver = Shared(false)
        let hasEnded = Shared(false)
        let suspensions = Thread {
            while !isOver.value {
                db.suspendNow()
                db.resume()
            }
            hasEnded.change { $0 = true }
        }
        suspensions.start()
        for _ in 0..<50 { try await db.role("sync").hold { term in try await term.write { _ in } } }
        isOver.change { $0 = true }
        try await eventually("the thread ends") { hasEnded.value }
    }

    /// What the body has done counts, also if the task is cancelled meanwhile.
    @Test func aBodyThatEndsAllTheSame() async throws {
        let db = try open("a")
        let task = Task {
            try await db.role("sync").hold { term in
                withUnsafeCurrentTask { $0?.cancel() }
                return try await Task { try await term.write { try Player(name: "A").add($0) } }.value
            }
        }
        let (begun, end) = (Shared(false), Shared(false))
        let other = Task {
            try await db.role("other").hold { _ in
                begun.change { $0 = true }
                while !end.value { await Task.yield() }
                return 17
            }
        }
        try await eventually("it has the role") { begun.value }
        other.cancel()
        end.change { $0 = true }
        #expect(try await other.value == 17)
        try await task.value
        // The body may end its term itself.
        let number = try await db.role("sync").hold { term in
            await term.end()
            for _ in 0..<1_000 {
                await Task.yield()
                try Task.checkCancellation()
            }
            return 18
        }
        #expect(number == 18)
    }

    /// A table of somebody else's keeps no database open.
    @Test func otherTables() async throws {
        weak var released: SharedDatabase?
        do {
            let db = try open("a")
            released = db
            try db.run("CREATE TABLE roundtable_role (a); CREATE TABLE roundtable_role_claim (b)")
            await #expect(throws: DatabaseError.self) { _ = try await db.role("sync").acquire() }
        }
        try await eventually("the database is released") { released == nil }
    }

    /// A holder whose claim another program has removed.
    @Test func aRemovedClaim() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        try a.run("DELETE FROM roundtable_role_claim")
        let next = try await wait.value
        await term.waitUntilLost()
        await next.end()
    }

    /// **Rule S15**: the claims of another file mean nothing.
    @Test func replacedContent() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let old = try await a.role("sync").acquire()
        let copy = folder.file("copy.sqlite")
        try a.backup(to: DatabaseQueue(path: copy.path))
        await old.end()
        let term = try await b.role("sync").acquire()
        try await a.replaceContent(with: copy)
        await term.waitUntilLost()
        let next = try await a.role("sync").acquire()
        #expect(next.isHeld && next.generation == 2)
        // The content has the term that runs.
        let second = folder.file("second.sqlite")
        try a.backup(to: DatabaseQueue(path: second.path))
        try await a.replaceContent(with: second)
        await next.waitUntilLost()
        #expect(try claims(a) == [])
    }

    /// The tables may be gone.
    @Test func erasedTables() async throws {
        let db = try open("a")
        let term = try await db.role("sync").acquire()
        try db.run("DROP TABLE roundtable_role")
        await term.waitUntilLost()
        await #expect(throws: RoleError.self) { try await term.write { _ in } }
        await term.end()
        let next = try await db.role("sync").acquire()
        #expect(next.isHeld)
        await next.end()
    }

    @Test func readOnly() async throws {
        let db = try open("a")
        guard
            case .available(let reader) = try await SharedDatabase.openReadOnly(
                at: folder.file("db.sqlite"),
                schema: SharedSchema(migrator()),
                as: "reader"
            )
        else {
            Issue.record("the database is not available")
            return
        }
        #expect(try await reader.role("sync").holder() == nil)
        await #expect(throws: DatabaseError.self) { _ = try await reader.role("sync").acquire() }
        let term = try await db.role("sync").acquire()
        #expect(try await reader.role("sync").holder()?.name == "a")
        await term.end()
    }

    // MARK: Slots

    /// **Rule P21**: a participant that gets another slot shows it in its claims.
    @Test func anotherSlot() async throws {
        let (a, b) = (try open("a"), try open("b"))
        let term = try await a.role("sync").acquire()
        let wait = try await waiting(b)
        let before = try #require(a.seat.participant)
        try FileManager.default.removeItem(atPath: ControlBlock.path(forDatabaseAt: a.path))
        try await eventually("both have another slot, and the claims name it") {
            try a.insert("A")
            try b.insert("B")
            let owners = [a, b].map { $0.seat.participant?.owner }
            return try a.seat.participant !== before && claims(a).map(\.owner) == owners
        }
        // It answers there, for longer than the patience of the other one.
        let block = try #require(a.seat.participant?.block)
        try await eventually("it was asked three times") { block.lastQuestion >= 3 }
        #expect(term.isHeld)
        try await term.write { _ in }
        await term.end()
        await (try await wait.value).end()
    }
}
