import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableTestSupport

extension PeerSession {
    func perform(_ command: SnapshotCommand) throws -> PeerReply {
        switch command {
        case .make:
            snapshot = try opened.shared.makeSnapshot()
            return PeerReply(moments: [try moment([])])
        case .look:
            return PeerReply(moments: [try moment([])])
        case .advance:
            return PeerReply(moments: [try advance()])
        case .follow(let seconds, let pause):
            let end = MonotonicClock.now + Nanoseconds(seconds * 1e9)
            var moments: [PeerMoment] = []
            while MonotonicClock.now < end, !channel.hasInput {
                moments.append(try advance())
                RoundtableTestSupport.pause(milliseconds: pause * .random(in: 0...1))
            }
            return PeerReply(moments: moments)
        case .close:
            try snapshot?.close()
            snapshot = nil
            return PeerReply()
        }
    }

    private func advance() throws -> PeerMoment {
        guard let snapshot else { throw TestKitError("there is no snapshot") }
        return try moment(try snapshot.advance().map(PeerChange.init))
    }

    /// Reads twice. Both reads must show the same moment.
    private func moment(_ changes: [PeerChange]) throws -> PeerMoment {
        guard let snapshot else { throw TestKitError("there is no snapshot") }
        let count = try snapshot.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM ledger") ?? 0 }
        let last = try snapshot.read { try Int.fetchOne($0, sql: "SELECT MAX(n) FROM ledger") ?? 0 }
        return PeerMoment(last: last, count: count, changes: changes)
    }

    func commitToLedger(seconds: Double, pause: Double, seed: UInt64) throws -> PeerReply {
        var random = SeededGenerator(seed: seed)
        let database = try opened
        let end = MonotonicClock.now + Nanoseconds(seconds * 1e9)
        var commits = 0
        while MonotonicClock.now < end, !channel.hasInput {
            let tables = LedgerSchema.tables.shuffled(using: &random).prefix(.random(in: 1...3, using: &random))
            let sql = LedgerSchema.transaction(author: author, tables: Array(tables))
            try database.write { try $0.execute(sql: sql) }
            commits += 1
            RoundtableTestSupport.pause(milliseconds: pause * .random(in: 0...1, using: &random))
        }
        return PeerReply(number: commits)
    }
}
