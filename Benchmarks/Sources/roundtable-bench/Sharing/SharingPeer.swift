import Foundation
import GRDB
import Roundtable

/// What another process does for `sharing`. It says `ready`, and goes on, or ends, when its input does.
enum SharingPeer: Codable {
    /// Drains the outbox, and publishes after each commit.
    case owner(SharingPlace)
    /// Submits so many commands, one after the other.
    case sender(SharingPlace, number: Int, count: Int)
    /// Opens the database as an owner, which applies what waits.
    case latecomer(SharingPlace)

    /// What it tells in the end.
    struct Result: Codable {
        /// On the clock that all processes share.
        var began = Clock.now
        var ended = Clock.now
        var submits = Latencies()
        var rows = 0
    }

    func run() throws -> Result {
        switch self {
        case .owner(let place):
            let database = try place.open(drainingFor: SharingPlace.handlers)
            let publisher = try database.publish(to: place.snapshot(), atMostEvery: .zero) { db in
                RowCount(try Int.fetchOne(db.cachedStatement(sql: Statements.newest)) ?? 0)
            }
            try publisher.publish()
            sayReadyAndWait()
            try database.close()
            return Result()
        case .sender(let place, let number, let count):
            let outbox = try place.outbox("sender-\(number)")
            sayReadyAndWait()
            var result = Result()
            for n in 1...count {
                let began = Clock.now
                try outbox.submit(AddRow(sender: number, n: n))
                result.submits.record(Clock.now - began)
            }
            result.ended = Clock.now
            return result
        case .latecomer(let place):
            sayReadyAndWait()
            var result = Result()
            let database = try place.open(drainingFor: SharingPlace.handlers)
            result.ended = Clock.now
            result.rows = try database.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") ?? 0 }
            try database.close()
            return result
        }
    }

    private func sayReadyAndWait() {
        print("ready")
        fflush(nil)
        while readLine() != nil {}
    }
}

extension ParticipantProcess {
    /// Returns when it is ready.
    convenience init(_ peer: SharingPeer, name: String, in folder: URL) throws {
        let json = String(decoding: try JSONEncoder().encode(peer), as: UTF8.self)
        try self.init(["sharing-peer", json], name: name, in: folder)
        do {
            try waitUntilReady()
        } catch {
            end()
            throw error
        }
    }
}
