import Foundation
import GRDB
import RoundtableKernel
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Tests with real processes: one test at a time, since they measure.
@Suite(.serialized) enum ProcessTests {}

let isSuperuser = geteuid() == 0
/// `nobody`, on every system that we know.
let nobody: UInt32 = 65534

/// What the database holds. Opens it in this process, through GRDB.
struct Ledger {
    let integrity: String
    /// How many transactions of an author there are.
    let entries: [String: Int]
    /// The highest transaction number of an author.
    let highest: [String: Int]
    let migrations: [String]

    init(of database: URL) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        let queue = try DatabaseQueue(path: database.path, configuration: configuration)
        defer { try? queue.close() }
        integrity = try queue.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } ?? "nothing"
        let rows = try queue.read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT author, COUNT(DISTINCT n) AS entries, MAX(n) AS highest FROM entry GROUP BY author"
            )
        }
        // A damaged database may return an author twice; `integrity` says so.
        entries = Dictionary(rows.map { ($0["author"], $0["entries"]) }) { first, _ in first }
        highest = Dictionary(rows.map { ($0["author"], $0["highest"]) }) { first, _ in first }
        let log = "SELECT migration FROM migrationLog ORDER BY rowid"
        migrations = try queue.read { try String.fetchAll($0, sql: log) }
    }

    /// Rows expected = rows found, and the database is whole.
    ///
    /// - parameter dead: the peers that were killed: one transaction of theirs may have been committed and not yet
    ///   acknowledged.
    func expectEverything(
        acknowledgedBy peers: [Peer],
        dead: [Peer] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(integrity == "ok", sourceLocation: sourceLocation)
        for peer in peers {
            let found = entries[peer.name] ?? 0
            let acknowledged = peer.acknowledged
            let isDead = dead.contains { $0.name == peer.name }
            #expect(
                found == acknowledged || (isDead && found == acknowledged + 1),
                "\(peer): acknowledged \(acknowledged), found \(found)",
                sourceLocation: sourceLocation
            )
            #expect(highest[peer.name] ?? 0 == found, "\(peer): a hole", sourceLocation: sourceLocation)
        }
    }
}

extension WriteReport {
    func expectNoErrors(_ peer: Peer, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(errorCount == 0, "\(peer): \(errors)", sourceLocation: sourceLocation)
        #expect(commits > 0, "\(peer) wrote nothing", sourceLocation: sourceLocation)
    }
}

extension PeerFleet {
    /// `run`, in a timed trial. On a machine that is never quiet, the test is cancelled: it says so, and does not pass.
    static func runTimed(
        inMemory: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: (PeerFleet, TimedTrial) throws -> Void
    ) throws {
        do {
            let violations = try TimedTrial.run { trial in
                try run(inMemory: inMemory) { fleet in try body(fleet, trial) }
            }
            #expect(violations == [], sourceLocation: sourceLocation)
        } catch let unknown as TimedTrial.NotMeasured {
            #if compiler(>=6.3)
                try Test.cancel("\(unknown)", sourceLocation: sourceLocation)
            #else
                // Nothing lies between a pass and a failure there.
                Issue.record(unknown, sourceLocation: sourceLocation)
            #endif
        }
    }

    /// Runs the load in all peers at once, to its end.
    func writeAtOnce(_ peers: [Peer], _ load: WriteLoad) throws -> [WriteReport] {
        for peer in peers { try peer.send(.writeLoop(load)) }
        return try peers.map { try $0.report() }
    }

    /// Waits until each peer has committed this often since the call.
    func waitForProgress(of peers: [Peer], commits: Int = 5, within timeout: Duration = .seconds(10)) throws {
        let before = peers.map(\.acknowledged)
        for (peer, count) in zip(peers, before) {
            try eventually("\(peer) commits after number \(count)", within: timeout) {
                guard peer.process.isRunning else { throw TestKitError("\(peer) ended: \(peer.process.errorText)") }
                return peer.acknowledged >= count + commits
            }
        }
    }

    /// The participants at the control block that lies beside the database now.
    func participants() throws -> [ParticipantRecord] {
        try ControlBlock.open(forDatabaseAt: database.path, writable: false).participants()
    }
}
