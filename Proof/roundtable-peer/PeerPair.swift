import Foundation
import GRDB
import GRDBSQLite
import Roundtable
import RoundtableTestSupport
import Synchronization

/// A database with a second one attached, which is also open with the turns of the first, as SQLiteData's metadatabase.
final class PeerPair: Sendable {
    let first: SharedDatabase
    private let second: SharedDatabase
    private let author: String

    init(_ opening: PeerOpening, second path: String, onEvent: @escaping @Sendable (SharedDatabase.Event) -> Void)
        throws
    {
        author = opening.author
        var options = opening.options.options
        options.onEvent = onEvent
        var attaching = options
        attaching.configuration.prepareDatabase { try $0.execute(sql: "ATTACH ? AS second", arguments: [path]) }
        let url = URL(fileURLWithPath: opening.path)
        first = try SharedDatabase.open(at: url, schema: opening.schema.schema, as: author, options: attaching)
        options.turnsOf = first
        var notes = DatabaseMigrator()
        notes.registerMigration("note") { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, author TEXT, side TEXT)")
        }
        let file = URL(fileURLWithPath: path)
        second = try SharedDatabase.open(at: file, schema: SharedSchema(notes), as: author, options: options)
    }

    /// - returns: a reply with the number of writes that found a lock, and the first other error.
    func write(_ count: Int?) throws -> PeerReply {
        let locks = Atomic(0)
        let failure = Mutex<(any Error)?>(nil)
        let isDone = DispatchGroup()
        func run(_ write: @escaping @Sendable (Int) throws -> Void) {
            let thread = Thread {
                for number in 0..<(count ?? .max) {
                    do {
                        try write(number)
                    } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                        locks.add(1, ordering: .relaxed)
                    } catch {
                        failure.withLock { $0 = $0 ?? error }
                        break
                    }
                }
                isDone.leave()
            }
            isDone.enter()
            thread.start()
        }
        let author = author
        run { [first] number in
            try first.write { db in
                try db.execute(
                    sql: PeerSchema.insertEntry,
                    arguments: [author, number, 0]
                )
                try db.execute(sql: "INSERT INTO second.note (author, side) VALUES (?, 'first')", arguments: [author])
            }
        }
        run { [second] _ in
            try second.write { db in
                try db.execute(sql: "INSERT INTO note (author, side) VALUES (?, 'second')", arguments: [author])
            }
        }
        isDone.wait()
        if let error = failure.withLock({ $0 }) { throw error }
        return PeerReply(number: locks.load(ordering: .relaxed))
    }
}
