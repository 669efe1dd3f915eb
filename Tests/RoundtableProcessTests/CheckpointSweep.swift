import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Synchronization
import Testing

@testable import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// One way in which a participant checkpoints, and dies, at every call of it in turn.
struct CheckpointSweep {
    enum Way: String, CaseIterable, CustomTestStringConvertible {
        /// By `checkpoint(_:)`.
        case passive, restart, truncate
        /// By itself (rules K4, K6, K5): in another thread; within the turn after a long transaction; in another thread, and then in a turn, to make
        /// the file shorter.
        case background, writer, turn
        /// As `turn`, of a file that is too long to be made shorter at once: it is cut in pieces (rule K5).
        case cutting
        /// The last participant that closes (rule K11).
        case closing

        var testDescription: String { rawValue }
    }

    /// Whether other participants have the database open, and continue with the wal-index as the dead one left it. If not, it is rebuilt from the
    /// WAL.
    enum Company: String, CaseIterable, CustomTestStringConvertible {
        case alone, withOthers
        var testDescription: String { rawValue }
    }

    static let threshold = 16
    /// As long as the WAL's file may stay, in frames, and the pieces that it is cut in (rule K5).
    private static let (longest, piece) = (4 * threshold, 32 * threshold)
    private static let allPages = longest + 8

    let way: Way
    let fleet: PeerFleet
    /// How long the first write and checkpoint after each death took together, in ms.
    private(set) var recoveries: [Double] = []
    private(set) var deaths = 0
    private var versions: [Int: Int] = [:]
    private var version = 0

    init(_ way: Way, in fleet: PeerFleet) throws {
        self.way = way
        self.fleet = fleet
        let database = try inspector()
        // All rows that there will be: so a checkpoint makes the same calls each time, and none to make the file longer.
        let sql = put(Self.allPages)
        try database.write { db in
            try db.execute(
                sql: "CREATE TABLE page (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, payload TEXT NOT NULL)"
            )
            try db.execute(sql: sql)
        }
        try database.close()
    }

    /// A participant of the test's own, which checkpoints only when the test requests it.
    func inspector() throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.checkpointing = .manual
        return try SharedDatabase.open(at: fleet.database, schema: .unmanaged, as: "inspector", options: options)
    }

    // MARK: The victim

    /// Rows that take a page each.
    private var pages: Int {
        switch way {
        case .passive, .restart, .truncate, .closing: 5
        case .background, .cutting: Self.threshold + 2
        // So many are copied in the background, and make the file too long.
        case .turn: Self.allPages
        case .writer: 3 * Self.threshold + 4
        }
    }

    /// Sets everything up to the checkpoint.
    ///
    /// - parameter fate: of the checkpoint; nil: only its calls are noted.
    private mutating func victim(_ fate: CheckpointFate?) throws -> Peer {
        var options = PeerOptions()
        switch way {
        case .passive, .restart, .truncate, .closing: options.checkpointing = .manual
        case .background, .writer, .turn, .cutting: options.checkpointing = .automatic(threshold: Self.threshold)
        }
        let victim = try fleet.spawn()
        // Where a stranger has read, more calls are made than those of the last participant's checkpoint.
        try victim.call(.watchCheckpoints(beyond: way != .closing))
        try victim.call(.open(fleet.opening(victim, schema: PeerSchema(.unmanaged), options: options)))
        switch way {
        case .passive, .restart, .truncate, .closing: try victim.call(.execute(sql: put(pages)))
        case .background, .writer, .turn: break
        case .cutting: try lengthenFile()
        }
        try victim.call(.watchCheckpoints(fate))
        return victim
    }

    /// The command that makes the victim checkpoint.
    private mutating func trigger(_ victim: Peer) throws {
        switch way {
        case .passive: try victim.send(.checkpoint(.passive))
        case .restart: try victim.send(.checkpoint(.restart))
        case .truncate: try victim.send(.checkpoint(.truncate))
        case .background, .writer, .turn, .cutting: try victim.send(.execute(sql: put(pages)))
        case .closing: try victim.send(.close)
        }
    }

    /// Makes the WAL's file so long that it is cut more than once, and has everything copied, so that the next transaction restarts it.
    private mutating func lengthenFile() throws {
        let writer = try inspector()
        for _ in 0...(Self.longest + 2 * Self.piece) / Self.allPages {
            let sql = put(Self.allPages)
            try writer.write { try $0.execute(sql: sql) }
        }
        guard try writer.checkpoint(.passive).isComplete, try isFileLong else {
            throw TestKitError("the WAL's file was to be long, and all of it copied")
        }
        try writer.close()
    }

    /// Whether the WAL's file is longer than it is to be.
    private var isFileLong: Bool {
        get throws {
            let status = try #require(try System.status(ofFileAt: fleet.database.path + "-wal"))
            return Int(status.st_size) > 32 + Self.longest * (4096 + 24)
        }
    }

    /// A transaction that gives the first rows a new version. It is noted as committed: all ways checkpoint after the commit.
    private mutating func put(_ count: Int) -> String {
        version += 1
        for id in 1...count { versions[id] = version }
        return """
            WITH RECURSIVE ids(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < \(count))
            INSERT OR REPLACE INTO page SELECT id, \(version), printf('%03000d', \(version)) FROM ids
            """
    }

    // MARK: The sweep

    /// The calls of a checkpoint of this way, none of which kills a process.
    mutating func calls() throws -> [CheckpointSchedule.Point] {
        var peer: Peer?
        let before = counts
        defer { peer?.process.end() }
        let victim = try victim(nil)
        peer = victim
        try trigger(victim)
        _ = try victim.reply()
        if way != .closing {
            try eventually("the checkpoints are made") {
                switch way {
                case .background: return counts.checkpoints > before.checkpoints
                case .writer, .turn: return counts.restarts > before.restarts
                case .cutting: return try !isFileLong && noProcessCheckpoints
                case .passive, .restart, .truncate, .closing: return true
                }
            }
        }
        let calls = try victim.call(.checkpointCalls).calls ?? []
        try victim.process.killAndReap()
        try endLease()
        return calls
    }

    private var counts: (checkpoints: UInt64, restarts: UInt64) {
        guard let block = try? ControlBlock.open(forDatabaseAt: fleet.database.path, writable: false) else {
            return (0, 0)
        }
        return (block.value(of: .checkpoints), block.value(of: .walRestarts))
    }

    /// The process that was checkpointing has finished.
    private var noProcessCheckpoints: Bool {
        get throws {
            let block = try ControlBlock.open(forDatabaseAt: fleet.database.path, writable: false)
            return block.word(at: Layout.Header.checkpointer).pointee.load(ordering: .acquiring) == 0
        }
    }

    /// All fates at these calls; of the calls that copy pages, one like the other, some.
    func fates(at calls: [CheckpointSchedule.Point]) -> [CheckpointFate] {
        var copied: [CheckpointSchedule.Point: Int] = [:]
        let last = Dictionary(calls.enumerated().map { ($1, $0) }) { $1 }
        // What comes before the first cut is the way *background*.
        let first =
            way == .cutting ? calls.firstIndex(of: .truncateWAL).flatMap { calls[..<$0].lastIndex(of: .syncMain) } : nil
        return calls.enumerated().dropFirst(first ?? 0).flatMap { number, point -> [CheckpointFate] in
            var moments: [CheckpointFate.Moment] = [.before, .after]
            if point == .writeMain { moments.append(.halfway) }
            if point == .writeMain || point == .readWAL, !isLongRun {
                copied[point, default: 0] += 1
                guard copied[point]! <= 2 || number == last[point] else { return [] }
            }
            return moments.map { CheckpointFate(call: number, moment: $0) }
        }
    }

    /// One death, and a look at what is left.
    ///
    /// - throws: `Damage`, or an error of the test's own machinery, a victim that outlived its fate among them.
    mutating func run(_ fate: CheckpointFate, _ company: Company) throws {
        let others = company == .withOthers && way != .closing ? try inspector() : nil
        let victim = try victim(fate)
        defer { victim.process.end() }
        // It keeps the wal-index in use.
        try others?.read { _ = try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM page") }
        let stranger = company == .withOthers && way == .closing ? try self.stranger() : nil
        defer { try? stranger?.close() }
        try trigger(victim)
        let exit = try victim.process.waitForExit(within: .seconds(20))
        guard exit == .signal(SIGKILL) else { throw TestKitError("\(victim) ended with \(exit), not by its fate") }
        deaths += 1
        let survivor = try others ?? inspector()
        defer { try? survivor.close() }
        try survivor.read(expectEverything)
        if way == .cutting { try finishCutting() }
        let sql = put(3)
        let start = ContinuousClock.now
        try survivor.write { try $0.execute(sql: sql) }
        let result = try survivor.checkpoint(.truncate)
        recoveries.append((ContinuousClock.now - start) / .milliseconds(1))
        guard result.isComplete, result.frames == 0 else { throw Damage("the WAL is not restarted: \(result)") }
        try survivor.read(expectEverything)
        try endLease()
    }

    /// The next participant that commits enough finishes it.
    private mutating func finishCutting() throws {
        try endLease()
        var options = SharedDatabase.Options()
        options.checkpointing = .automatic(threshold: Self.threshold)
        let next = try SharedDatabase.open(at: fleet.database, schema: .unmanaged, as: "next", options: options)
        let sql = put(pages)
        try next.write { try $0.execute(sql: sql) }
        try eventually("the file is short") { try !isFileLong }
        try next.read(expectEverything)
        try next.close()
    }

    /// The next participant that is to checkpoint does not wait until the dead one's lease is over (rule K2).
    private func endLease() throws {
        let block = try ControlBlock.open(forDatabaseAt: fleet.database.path, writable: true)
        block.word(at: Layout.Header.checkpointer).pointee.store(0, ordering: .releasing)
    }

    /// What a death must not leave.
    struct Damage: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// Each row in its last version, and the database whole.
    private func expectEverything(_ db: Database) throws {
        let rows = try Row.fetchAll(db, sql: "SELECT id, version, payload = printf('%03000d', version) FROM page")
        let found = Dictionary(uniqueKeysWithValues: rows.map { ($0[0] as Int, $0[2] ? $0[1] as Int : -1) })
        let wrong = versions.filter { found[$0.key] != $0.value }.keys.sorted()
        guard wrong.isEmpty, found.count == versions.count else {
            throw Damage("not as they were written last: rows \(wrong), of \(versions.count); \(found.count) are there")
        }
        let problems = try String.fetchAll(db, sql: "PRAGMA integrity_check(3)")
        guard problems == ["ok"] else { throw Damage("integrity_check: \(problems)") }
    }

    /// A connection that is no participant, so that the victim is the last participant that closes.
    private func stranger() throws -> DatabaseQueue {
        let queue = try DatabaseQueue(path: fleet.database.path)
        try queue.inDatabase { _ = try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM page") }
        return queue
    }
}
