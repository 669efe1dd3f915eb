import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDiagnostics

@Suite struct WALHealthTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("shared.sqlite")
    }

    private func open(
        _ author: String,
        _ options: SharedDatabase.Options = SharedDatabase.Options()
    ) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
    }

    private func add(_ count: Int = 1, to db: SharedDatabase) throws {
        for _ in 0..<count { try db.write { db in try db.execute(sql: "INSERT INTO player (name) VALUES ('A')") } }
    }

    private func status(of author: String) throws -> ParticipantStatus {
        try #require(DatabaseStatus(ofDatabaseAt: url).participants.first { $0.author == author })
    }

    // MARK: Reads are shown (rule O2)

    /// Each kind of read is shown, with its line, as long as it runs.
    @Test func readsAreShown() async throws {
        let (db, other) = (try open("app"), try open("other"))
        func expectShown(_ line: Int?) throws {
            try add(to: other)
            let read = try #require(try status(of: "app").oldestRead)
            #expect(read.callSite == line.map { "RoundtableCoreTests/WALHealthTests.swift:\($0)" })
            #expect(read.heldFrames ?? 0 > 0 && read.age < .seconds(60))
        }
        func expectNone() throws { #expect(try status(of: "app").oldestRead == nil) }

        let synchronous = { try db.read { _ in try expectShown(#line) } }
        for _ in 0..<2 { try synchronous() }
        try expectNone()
        let pin = Shared<ParticipantStatus.Read?>(nil)
        let (url, line) = (url, #line + 1)
        try await db.read { _ in
            pin.change { $0 = try? DatabaseStatus(ofDatabaseAt: url).participants.first?.oldestRead }
        }
        #expect(pin.value?.callSite?.hasSuffix(":\(line)") == true)
        try expectNone()
        try synchronousReads(db, expectShown)
        try expectNone()
        let generic: any DatabaseReader = db
        try readGenerically(generic) { try expectShown(nil) }
        try expectNone()
        let snapshot = try db.makeSnapshotNow()
        try add(to: other)
        #expect(try status(of: "app").oldestRead?.callSite == snapshot.callSite)
        try snapshot.close()
        try expectNone()
        struct Failure: Error {}
        #expect(throws: Failure.self) { try self.readAndFail(db) { throw Failure() } }
        try expectNone()
    }

    private func synchronousReads(_ db: SharedDatabase, _ expectShown: (Int?) throws -> Void) throws {
        try db.unsafeRead { _ in try expectShown(#line) }
        try db.unsafeReentrantRead { _ in try expectShown(#line) }
    }
    private func readGenerically(_ reader: any DatabaseReader, _ body: () throws -> Void) throws {
        try reader.read { _ in try body() }
    }
    private func readAndFail(_ db: SharedDatabase, _ body: () throws -> Void) throws { try db.read { _ in try body() } }

    /// These reads return at once.
    @Test func scheduledReadsAreShown() async throws {
        let db = try open("app")
        for isSafe in [true, false] {
            let seen = Shared<(site: String?, line: Int)?>(nil)
            let look: @Sendable (Int) -> Void = { [url] line in
                let status = try? DatabaseStatus(ofDatabaseAt: url)
                seen.change { $0 = (status?.participants.first?.oldestRead?.callSite, line) }
            }
            if isSafe { db.asyncRead { _ in look(#line) } } else { db.asyncUnsafeRead { _ in look(#line) } }
            try await eventually("it has read") { seen.value != nil }
            let (site, line) = try #require(seen.value)
            #expect(site?.hasSuffix("WALHealthTests.swift:\(line)") == true, "\(site ?? "nothing")")
            try await eventually("it has ended") { try status(of: "app").oldestRead == nil }
        }
    }

    /// Of several reads, the oldest is shown; when it ends, the next one is shown.
    @Test(.timeLimit(.minutes(1)))
    func theOldestIsShown() async throws {
        let (db, other) = (try open("app"), try open("other"))
        var ends: [DispatchSemaphore] = []
        var tasks: [Task<Void, any Error>] = []
        var held: [Int] = []
        for _ in 0..<3 {
            let (begun, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            tasks.append(
                Task.detached {
                    try await onThread {
                        Result {
                            try db.read { _ in
                                begun.signal()
                                end.wait()
                            }
                        }
                    }.get()
                }
            )
            await onThread { begun.wait() }
            ends.append(end)
            try add(5, to: other)
        }
        for (index, end) in ends.enumerated() {
            held.append(try #require(try status(of: "app").oldestRead?.heldFrames))
            end.signal()
            try await tasks[index].value
        }
        #expect(held[0] > held[1] && held[1] > held[2] && held[2] >= 5, "\(held)")
        #expect(try status(of: "app").oldestRead == nil)
    }

    /// Of a snapshot and a read, the older one is shown.
    @Test func aSnapshotIsShownBesideReads() throws {
        let (db, other) = (try open("app"), try open("other"))
        let snapshot = try db.makeSnapshotNow()
        let made = MonotonicClock.now
        try add(to: other)
        // The clock of reads is a little late.
        while MonotonicClock.approximateNow <= made {}
        #expect(try db.readNow { _ in try status(of: "app") }.oldestRead?.callSite == snapshot.callSite)
        #expect(try status(of: "app").oldestRead?.callSite == snapshot.callSite)
        try db.read { _ in
            let line = #line - 1
            try snapshot.close()
            #expect(try status(of: "app").oldestRead?.callSite?.hasSuffix(":\(line)") == true)
        }
    }

    // MARK: Health

    @Test func healthNamesThePin() throws {
        let (db, other) = (try open("app"), try open("widget"))
        try add(to: db)
        #expect(try db.walHealth().pins.isEmpty)
        try other.read { _ in
            let line = #line - 1
            try add(7, to: db)
            let health = try db.walHealth()
            let pin = try #require(health.pins.first)
            #expect(health.pins.count == 1 && pin.holder.isParticipant && pin.holder.liveness == .alive)
            #expect(pin.holder.name == "widget" && pin.holder.pid == getpid())
            #expect(pin.heldFrames >= 7 && pin.heldFrames < health.committedFrames)
            #expect(pin.callSite == "RoundtableCoreTests/WALHealthTests.swift:\(line)")
            #expect(try #require(pin.age) < .seconds(60))
            #expect(health.description.contains("'widget' (pid \(getpid())) holds \(pin.heldFrames) frames back, for "))
            #expect(health.description.contains("since \(pin.callSite!)"))
            #expect(health.size > health.committedFrames * 4096)
            // The pin is also reported from the inside of the read.
            #expect(try other.walHealth().pins.count == 1)
            #expect(try DatabaseStatus(ofDatabaseAt: url).wal?.pins.map(\.callSite) == [pin.callSite])
        }
        #expect(try db.walHealth().pins.isEmpty)
        #expect(try db.walHealth().counters != nil)
    }

    /// A reader that holds nothing back is no pin: everything is copied, or was committed before.
    @Test func whatHoldsNothingBackIsLeftOut() throws {
        let (db, other) = (try open("app"), try open("widget"))
        try add(3, to: db)
        #expect(try other.readNow { _ in try db.walHealth() }.pins.isEmpty)
        try db.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
        let health = try db.walHealth()
        #expect(health.committedFrames == health.backfilledFrames)
        #expect(try other.readNow { _ in try db.walHealth() }.pins.isEmpty)
    }

    /// The reader that holds most comes first.
    @Test func pinsAreInOrder() throws {
        let (db, first, second) = (try open("app"), try open("first"), try open("second"))
        let young = try second.makeSnapshotNow()
        try add(4, to: db)
        let old = try first.makeSnapshotNow()
        try add(4, to: db)
        let pins = try db.walHealth().pins
        #expect(pins.map(\.holder.name) == ["second", "first"])
        #expect(pins[0].heldFrames > pins[1].heldFrames)
        try young.close()
        try old.close()
    }

    /// A read-only participant may ask, too; a database that is closed, or not in WAL mode, is refused.
    @Test func whichParticipantsMayAsk() throws {
        let db = try open("app")
        try add(2, to: db)
        guard
            case .available(let reader) = try SharedDatabase.openReadOnlyNow(at: url, schema: SharedSchema(migrator()))
        else {
            return #expect(Bool(false))
        }
        #expect(try reader.walHealth().committedFrames == db.walHealth().committedFrames)
        try db.close()
        for use in [{ _ = try db.walHealth() }, { try db.checkpoint() }, { try db.checkpoint(.truncate) }] {
            let error = #expect(throws: DatabaseError.self) { try use() }
            #expect(error?.resultCode == .SQLITE_MISUSE)
            #expect(error?.message == "\(db.path): closed by close(): open it again")
        }

        let rollback = folder.file("rollback.sqlite")
        try DatabaseQueue(path: rollback.path).write { try $0.execute(sql: "CREATE TABLE t (x)") }
        guard case .available(let other) = try SharedDatabase.openReadOnlyNow(at: rollback, schema: .unmanaged) else {
            return #expect(Bool(false))
        }
        let error = #expect(throws: DatabaseError.self) { try other.walHealth() }
        #expect(error?.message?.contains("not in WAL mode") == true)
        #expect(!FileManager.default.fileExists(atPath: rollback.path + "-shm"))
    }

    /// **Rule K9**: the growth is the rate of frames since the last sample.
    @Test func growth() {
        let sample = ControlBlock.WalSample(time: 1_000_000_000, mark: WalMark(frames: 100, salt: 1))
        func rate(_ frames: UInt32, _ salt: UInt32, at time: Nanoseconds) -> Double? {
            WALHealth.growth(from: sample, to: WalMark(frames: frames, salt: salt), at: time)
        }
        #expect(rate(300, 1, at: 3_000_000_000) == 100)
        #expect(rate(100, 1, at: 3_000_000_000) == 0)
        // The WAL was restarted, or its time is in the future, was set back, or comes too soon.
        #expect(rate(300, 2, at: 3_000_000_000) == nil)
        #expect(rate(300, 1, at: 500_000_000) == nil)
        #expect(rate(50, 1, at: 3_000_000_000) == nil)
        #expect(rate(300, 1, at: 1_249_999_999) == nil)
        #expect(rate(300, 1, at: 1_250_000_000) == 800)
        // What was written a second ago, and not since, is no growth.
        let end = WalMark(frames: 300, salt: 1)
        func idle(_ time: Nanoseconds) -> Double? {
            WALHealth.growth(from: sample, to: end, at: 3_000_000_000, idleFor: time)
        }
        #expect(idle(999_999_999) == 100)
        #expect(idle(1_000_000_000) == 0)
    }

    /// **Rule K9**: an idle database does not grow, however much was written since the last attempt.
    @Test func anIdleDatabaseDoesNotGrow() throws {
        let db = try open("app")
        let block = try #require(db.seat.participant).block
        let header = try #require(db.writer.queue.inDatabase { WalIndex($0)?.header })
        let mark = WalMark(frames: 0, salt: header.mark.salt)
        block.setWalSample(.init(time: MonotonicClock.now &- 1_000_000_000, mark: mark))
        try db.write { try $0.execute(sql: "CREATE TABLE growth (a)") }
        #expect(try db.walHealth().growth ?? 0 > 0)
        let past = Date(timeIntervalSinceNow: -2)
        try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: db.path + "-wal")
        #expect(try db.walHealth().growth == 0)
        #expect(try DatabaseStatus(ofDatabaseAt: URL(fileURLWithPath: db.path)).wal?.growth == 0)
    }

    @Test func checkpointerAndGrowthAreRead() throws {
        let (db, other) = (try open("app"), try open("widget"))
        try add(to: other)
        #expect(try db.walHealth().checkpointer == nil)
        let participant = try #require(other.seat.participant)
        #expect(participant.takeCheckpointing(at: MonotonicClock.now))
        let mark = WalMark(frames: 0, salt: try db.readers.walState(insideWrite: false).end.salt)
        participant.block.setWalSample(.init(time: MonotonicClock.now - 1_000_000_000, mark: mark))
        participant.block.count(.checkpointsHeldUp)
        let before = try #require(try db.walHealth().counters)
        let health = try db.walHealth()
        #expect(health.checkpointer?.name == "widget")
        let growth = try #require(health.growth)
        #expect(growth > 0 && growth <= Double(health.committedFrames))
        #expect(before.heldUp >= 1)
        participant.giveCheckpointingUp()
    }

    /// The health is coded as JSON and decoded again.
    @Test func coding() throws {
        let party = SharingProcess(pid: 7, name: "x", isParticipant: false, liveness: .stopped)
        let health = WALHealth(
            committedFrames: 9,
            backfilledFrames: 1,
            size: 4000,
            growth: 2.5,
            checkpointer: party,
            checkpointLock: party,
            pins: [.init(holder: party, heldFrames: 8, age: .milliseconds(1500), since: 12, callSite: "A.swift:1")],
            counters: .init(checkpoints: 1, walRestarts: 2, heldUp: 3, byWriters: 4)
        )
        let data = try JSONEncoder().encode(health)
        #expect(try JSONDecoder().decode(WALHealth.self, from: data) == health)
        let text = String(decoding: data, as: UTF8.self)
        for key in ["committed_frames", "growth_frames_per_s", "held_frames", "age_s", "call_site", "held_up"] {
            #expect(text.contains("\"\(key)\""), "\(key)")
        }
        #expect(
            health.description == """
                the WAL has 9 frames (pages, in a file of 4,000 B), of which 1 are copied, and grows by 3 frames/s; 'x' (pid 7, stopped) holds \
                the lock for checkpoints, so no other process can checkpoint; 'x' (pid 7, stopped) holds 8 frames back, for 1.5 s, \
                since A.swift:1; it is no participant
                """
        )
    }

    #if os(Linux)
        /// Linux lists neighbouring bytes of one process as one lock.
        @Test func locksAreRead() {
            let list = """
                1: POSIX  ADVISORY  READ  10 fe:00:55 123 125
                2: POSIX  ADVISORY  READ  11 fe:00:55 127 127
                2: -> POSIX  ADVISORY  READ  12 fe:00:55 126 126
                3: POSIX  ADVISORY  WRITE 13 fe:00:55 120 121
                4: POSIX  ADVISORY  WRITE 14 fe:00:55 124 124
                5: POSIX  ADVISORY  READ  15 fe:00:55 128 128
                6: POSIX  ADVISORY  READ  16 fe:00:56 124 124
                7: POSIX  ADVISORY  WRITE 17 103:1a3:55 120 121
                """
            func locks(_ device: UInt64?) -> SystemLocks.WalLocks {
                SystemLocks.WalLocks(list: list, of: .init(inode: 55, device: device))
            }
            let marks: [Int32: Set<Int>] = [10: [0, 1, 2], 11: [4]]
            #expect(locks(0xFE00) == .init(checkpointing: 13, readMarks: marks))
            // This is another file with this number, on another file system.
            #expect(locks(0x11_03A3) == .init(checkpointing: 17))
            #expect(locks(0xFE01) == .init())
            // Where the list names another device than stat(2), the inode must suffice.
            #expect(locks(nil).readMarks == marks)
        }

        /// Strangers, and participants whose slot shows nothing, are found by the locks they hold; the process that checkpoints is no pin.
        @Test func pinsByLocks() {
            let state = WalIndexView.State(
                frames: .init(committed: 100, backfilled: 40),
                end: WalMark(frames: 100, salt: 1),
                readMarks: [0, 100, 50, 40, .max]
            )
            let locks = SystemLocks.WalLocks(
                checkpointing: 4,
                readMarks: [1: [1], 2: [1, 2], 3: [3], 4: [3], 5: [0], 6: [4]]
            )
            let pins = WALHealth.pins(state, locks: locks, participants: [], at: 1)
            #expect(Set(pins.map(\.holder.pid)) == [2, 3, 5])
            #expect(pins.map(\.heldFrames) == [60, 60, 50])
            #expect(pins.allSatisfy { !$0.holder.isParticipant && $0.since == nil })
        }
    #endif

    // MARK: Being held up

    /// A read prevents a checkpoint from continuing. The process that checkpoints is notified of the reader, and the reader is notified that it is
    /// asked to advance, each once (rule K8).
    @Test(.timeLimit(.minutes(1)))
    func aHeldUpCheckpointIsReported() async throws {
        let reported = Shared<[WALHealth]>([])
        let asked = Shared(0)
        var options = SharedDatabase.Options()
        options.checkpointing = .automatic(threshold: 16)
        options.follow { (health: WALHealth) in reported.change { $0.append(health) } }
        let db = try open("app", options)
        options.longReadLimit = LongRead.Limit(age: .seconds(1000), frames: .max)
        options.follow { (_: LongRead) in asked.change { $0 += 1 } }
        let other = try open("widget", options)
        let snapshot = try other.makeSnapshotNow()
        try await eventually("it is reported") {
            try add(to: db)
            return !reported.value.isEmpty
        }
        let pin = try #require(reported.value[0].pins.first)
        #expect(pin.holder.name == "widget" && pin.callSite == snapshot.callSite)
        #expect(reported.value[0].committedFrames >= 48)
        try await eventually("the reader is asked") {
            _ = try snapshot.readNow { try Player.fetchCount($0) }
            return asked.value == 1
        }
        try snapshot.close()
    }

    // MARK: Asking to advance

    /// **Rule K8.** Only readers that hold something back are asked.
    @Test func askingToAdvance() throws {
        let (db, other) = (try open("app"), try open("widget"))
        let snapshot = try other.makeSnapshotNow()
        let block = try #require(db.seat.participant?.block)
        func ask() throws -> Int { block.askToAdvance(end: try db.readers.walState(insideWrite: false).end) }
        #expect(try ask() == 0)
        #expect(other.readers.askedToAdvance == nil)
        try add(2, to: db)
        #expect(try ask() == 1)
        #expect(other.readers.askedToAdvance != nil && db.readers.askedToAdvance == nil)
        try snapshot.advance()
        #expect(try ask() == 0)
        try snapshot.close()
    }
}

extension SharedDatabase {
    /// The blocking form can be called from async code.
    func makeSnapshotNow(file: StaticString = #fileID, line: UInt = #line) throws -> SharedDatabaseSnapshot {
        try makeSnapshot(file: file, line: line)
    }

    static func openReadOnlyNow(at url: URL, schema: SharedSchema) throws -> Availability {
        try openReadOnly(at: url, schema: schema, as: "reader")
    }
}
