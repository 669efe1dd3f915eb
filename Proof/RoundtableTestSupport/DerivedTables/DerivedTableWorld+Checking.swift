import GRDB
import Roundtable
import RoundtableTestKit

extension DerivedTableWorld {
    /// The differences between the content of the derived tables and what follows from their base tables; empty when there are none.
    package static func discrepancies(of derivedTables: [any DerivedTable] = all, _ db: Database) throws -> [String] {
        try DerivedTableRecomputation.discrepancies(of: derivedTables, words: RandomStatements.vocabulary, db)
    }

    /// Changes a row of `item` while its triggers are missing, so that the content of its derived tables becomes wrong. A defect on purpose.
    package static func changeBehindDerivedTables(_ db: Database) throws {
        let sql = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'item'"
        let triggers = try Row.fetchAll(db, sql: sql)
        for trigger in triggers { try db.execute(sql: "DROP TRIGGER \"\(trigger[0] as String)\"") }
        try db.execute(sql: "INSERT OR REPLACE INTO item (id, box, name, size) VALUES (1000, 'a', 'x', 1000)")
        for trigger in triggers { try db.execute(sql: trigger[1]) }
    }
}
