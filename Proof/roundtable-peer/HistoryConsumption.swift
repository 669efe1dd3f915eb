import GRDB
import Roundtable
import RoundtableTestSupport

extension PeerSession {
    /// Consumes the history until a command arrives. One named consumer writes a journal, another one a table of the database.
    func consume(_ load: ConsumeLoad, in database: SharedDatabase) throws {
        try ConsumerJournal.append([.begin], to: load.journal)
        while !channel.hasInput {
            let noted = try database.history.consume(as: "journal", in: ["entry"], limit: load.limit) { changes in
                try ConsumerJournal.append(
                    changes.map { .change(id: $0.id ?? -1, author: $0.author) },
                    to: load.journal
                )
                pause(milliseconds: load.milliseconds)
            }
            if !noted.changes.isEmpty { try ConsumerJournal.append([.acknowledged], to: load.journal) }
            let mirrored = try database.history.consumeInTransaction(as: "mirror", in: ["entry"], limit: load.limit) {
                db,
                changes in
                let statement = try db.cachedStatement(sql: "INSERT INTO mirror (entry) VALUES (?)")
                for change in changes { try statement.execute(arguments: [change.id]) }
            }
            if noted.changes.isEmpty, mirrored.changes.isEmpty { pause(milliseconds: 0.5) }
        }
    }

    /// Does what a sync engine does with deletions, until a command arrives: it records the ids of rows that are gone.
    func followDeletions(limit: Int, in database: SharedDatabase) throws {
        while !channel.hasInput {
            let page = try database.history.consumeInTransaction(
                as: TombstoneWorld.consumer,
                in: ["item"],
                limit: limit
            ) { db, changes in
                for change in changes where change.operation != .update {
                    guard let id = change.oldValue("serverID"), !id.isNull else { continue }
                    try db.cachedStatement(sql: TombstoneWorld.recordIfGone).execute(arguments: ["id": id])
                }
            }
            if page.changes.isEmpty { pause(milliseconds: 0.5) }
        }
    }
}
