import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport
import Testing

/// A sender of commands, through all its lives.
final class MortalSender {
    let number: Int
    private let progress: String
    private let pauseMilliseconds: Double
    private let path: String
    private(set) var peer: Peer?
    private var lives = 0
    var acknowledged: Int { ProgressFile.count(at: progress) }

    /// - parameter path: the database beside whose place the outbox is; nil: the fleet's.
    init(_ number: Int, _ fleet: PeerFleet, pauseMilliseconds: Double, path: String? = nil) {
        self.number = number
        self.path = path ?? fleet.database.path
        self.pauseMilliseconds = pauseMilliseconds
        progress = fleet.folder.appendingPathComponent("sender-\(number)").path
    }

    /// Kills the process before. A killed sender does not know what became of its last command: it submits that again under the same id,
    /// acknowledged or not.
    func live(_ fleet: PeerFleet, through last: Int) throws {
        peer?.process.end()
        peer = nil
        guard acknowledged < last else { return }
        lives += 1
        let peer = try fleet.spawn("sender-\(number)-\(lives)")
        var load = SubmitLoad(
            path: path,
            sender: number,
            progress: progress,
            from: max(1, acknowledged),
            through: last,
            isDurable: false
        )
        load.pauseMilliseconds = pauseMilliseconds
        try peer.send(.submitLoop(load))
        self.peer = peer
    }

    /// - throws: when it has ended by itself before its work was done.
    func checkIsWell(through last: Int) throws {
        guard let peer, acknowledged < last, !peer.process.isRunning else { return }
        throw TestKitError("\(peer) ended: \(peer.process.errorText)")
    }
}

extension PeerFleet {
    /// Of a sender, each number once, and ascending in the order in which they were applied. Opens the database in this process.
    func expectOnceInOrder(
        sender: Int,
        through last: Int,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let queue = try DatabaseQueue(path: database.path)
        defer { try? queue.close() }
        let sql = "SELECT n FROM applied WHERE sender = ? ORDER BY id"
        let numbers = try queue.read { try Int.fetchAll($0, sql: sql, arguments: [sender]) }
        let outOfPlace = zip(numbers, 1...).first { $0 != $1 }.map { "\($0) instead of \($1)" } ?? "none"
        #expect(
            numbers.count == last && outOfPlace == "none",
            "sender \(sender): \(numbers.count) of \(last) applied; first out of place: \(outOfPlace)",
            sourceLocation: sourceLocation
        )
        let integrity = try queue.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
        #expect(integrity == "ok", sourceLocation: sourceLocation)
    }

    func expectNothingSetAside(sourceLocation: SourceLocation = #_sourceLocation) throws {
        let queue = try DatabaseQueue(path: database.path)
        defer { try? queue.close() }
        let dead = try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM roundtable_outbox_dead") }
        #expect(dead == 0, sourceLocation: sourceLocation)
    }
}
