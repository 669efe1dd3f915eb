import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Files that a process opens, or waits for, while other processes have the database.
    @Suite struct Locations {
        /// A file that another process has open is not opened without locks, whether that process shares or not.
        @Test(.timeLimit(.minutes(1)), arguments: [true, false])
        func noLocksBesideOthers(isParticipant: Bool) throws {
            try PeerFleet.run { fleet in
                let peer = try fleet.spawn("app")
                try peer.call(isParticipant ? .open(fleet.opening(peer)) : .openPool(fleet.opening(peer)))
                try peer.call(.write(rows: 1))
                func with(_ parameter: String) -> URL {
                    fleet.database.appending(queryItems: [URLQueryItem(name: parameter, value: "1")])
                }
                for url in [with("nolock"), with("immutable")] {
                    let error = #expect(throws: DatabaseLocationError.self) {
                        try UnsharedDatabase.openQueue(at: url)
                    }
                    let name = isParticipant ? "app" : "roundtable-peer"
                    #expect(error?.description.contains("'\(name)' (pid \(peer.pid)) has the file open") == true)
                }
                // With SQLite's locks it is one of several.
                let queue = try UnsharedDatabase.openQueue(at: fleet.database)
                #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM entry") } == 1)
                try queue.close()
                try peer.call(.close)
                let alone = try UnsharedDatabase.openQueue(
                    at: with("immutable").appending(queryItems: [URLQueryItem(name: "mode", value: "ro")])
                )
                try alone.close()
            }
        }

        /// The callback of a busy mode names the holder in another process, and that it is stopped.
        @Test(.timeLimit(.minutes(1)), arguments: [true, false])
        func busyCallbackNamesTheHolder(isParticipant: Bool) throws {
            try PeerFleet.run { fleet in
                let first = try fleet.spawnOpen("first")
                let holder = try fleet.spawn("holder")
                try holder.call(isParticipant ? .open(fleet.opening(holder)) : .openPool(fleet.opening(holder)))
                try first.call(.close)
                let waits = Waits()
                var options = SharedDatabase.Options()
                options.busyMode = .callback { wait in
                    waits.append(wait)
                    return wait.holder?.liveness != .stopped
                }
                let db: SharedDatabase = try SharedDatabase.open(
                    at: fleet.database,
                    schema: .unmanaged,
                    as: "asked",
                    options: options
                )
                try holder.call(.holdTransaction)
                try holder.process.stop()
                #expect(throws: DatabaseError.self) { try db.write { try $0.execute(sql: "DELETE FROM entry") } }
                let wait = try #require(waits.all.last)
                let seen = try #require(wait.holder)
                #expect(seen.pid == holder.pid && seen.isParticipant == isParticipant && seen.liveness == .stopped)
                #expect(seen.name == (isParticipant ? "holder" : "roundtable-peer"))
                #expect((wait.holderSince != nil) == isParticipant && (wait.holderCallSite != nil) == isParticipant)
                holder.process.resume()
                try holder.call(.release(commit: false))
                try db.write { try $0.execute(sql: "DELETE FROM entry") }
                try db.close()
            }
        }
    }
}

// @unchecked: guarded by `lock`.
private final class Waits: @unchecked Sendable {
    private let lock = NSLock()
    private var waits: [SharedDatabase.BusyWait] = []

    func append(_ wait: SharedDatabase.BusyWait) { lock.withLock { waits.append(wait) } }
    var all: [SharedDatabase.BusyWait] { lock.withLock { waits } }
}
