import GRDB
import RoundtableDerived

/// The derived tables of a database, seen from outside.
package struct DerivedTablesStatus: Codable, Sendable, Equatable {
    /// The revision of the set (``DerivedTableSet/revision``).
    package var revision: Int
    /// The derived tables, ordered by name.
    package var tables: [Table]

    /// One derived table, as the database has stored it.
    package struct Table: Codable, Sendable, Equatable {
        package enum State: String, Codable, Sendable {
            case ready
            /// Not all rows are derived yet.
            case building
            /// The table that it is derived from is gone, or is not what it was.
            case baseTableMissing = "base_table_missing"
            /// Triggers of the derived table are missing, so it does not follow writes. A program that declares the derived table restores them
            /// with its next write.
            case triggersMissing = "triggers_missing"
        }

        package var name: String
        package var version: Int
        package var baseTable: String
        package var state: State
        /// The number of rows of the base table that were processed since building began.
        package var done: Int
        /// The approximate number of rows to process.
        package var total: Int

        enum CodingKeys: String, CodingKey {
            case name, version, state, done, total
            case baseTable = "base_table"
        }
    }
}

extension DerivedTablesStatus {
    /// - returns: nil when the database has no derived tables.
    /// - throws: ``DerivedTableError/newerFormat(path:format:)``, `DatabaseError`.
    init?(_ db: Database) throws {
        revision = try StoredDerivedTable.revision(db)
        let triggers = try Set(
            String.fetchAll(db, sql: "SELECT lower(name) FROM main.sqlite_master WHERE type = 'trigger'")
        )
        let names = try Set(
            String.fetchAll(db, sql: "SELECT lower(name) FROM main.sqlite_master WHERE type = 'table'")
        )
        self.tables = try StoredDerivedTable.fetchAll(db).map { stored in
            let needed = Projection.indispensableTriggers.map { DerivedTableNames.part(stored.name, $0).lowercased() }
            let state: Table.State =
                switch stored.state {
                case .missing: .baseTableMissing
                // No program that declares the derived table has written since the table was dropped.
                case _ where !names.contains(stored.baseTable.lowercased()): .baseTableMissing
                case _ where !triggers.isSuperset(of: needed): .triggersMissing
                case .building: .building
                case .ready: .ready
                }
            return Table(
                name: stored.name,
                version: stored.version,
                baseTable: stored.baseTable,
                state: state,
                done: stored.done,
                total: stored.total
            )
        }
        if revision == 0, tables.isEmpty { return nil }
    }
}
