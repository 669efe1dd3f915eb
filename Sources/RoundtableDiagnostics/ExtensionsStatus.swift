import GRDB
import RoundtableExtensions

/// The extensions of a database, seen from outside.
public struct ExtensionsStatus: Codable, Sendable, Equatable {
    /// The revision of the set (``ExtensionSet/revision``).
    public var revision: Int
    /// The extensions, ordered by name.
    public var extensions: [Extension]

    /// One extension, as the database has stored it.
    public struct Extension: Codable, Sendable, Equatable {
        public enum State: String, Codable, Sendable {
            case ready
            /// Not all rows are derived yet.
            case building
            /// The table that it is derived from is gone, or is not what it was.
            case baseTableMissing = "base_table_missing"
            /// Triggers of the extension are missing, so it does not follow writes. A program that declares the extension restores them
            /// with its next write.
            case triggersMissing = "triggers_missing"
        }

        public var name: String
        public var version: Int
        public var baseTable: String
        public var state: State
        /// The number of rows of the base table that were processed since building began.
        public var done: Int
        /// The approximate number of rows to process.
        public var total: Int

        enum CodingKeys: String, CodingKey {
            case name, version, state, done, total
            case baseTable = "base_table"
        }
    }
}

extension ExtensionsStatus {
    /// - returns: nil when the database has no extensions.
    /// - throws: ``ExtensionError/newerFormat(path:format:)``, `DatabaseError`.
    init?(_ db: Database) throws {
        revision = try StoredExtension.revision(db)
        let triggers = try Set(
            String.fetchAll(db, sql: "SELECT lower(name) FROM main.sqlite_master WHERE type = 'trigger'")
        )
        let tables = try Set(
            String.fetchAll(db, sql: "SELECT lower(name) FROM main.sqlite_master WHERE type = 'table'")
        )
        extensions = try StoredExtension.fetchAll(db).map { stored in
            let needed = Projection.indispensableTriggers.map { ExtensionNames.part(stored.name, $0).lowercased() }
            let state: Extension.State =
                switch stored.state {
                case .missing: .baseTableMissing
                // No program that declares the extension has written since the table was dropped.
                case _ where !tables.contains(stored.baseTable.lowercased()): .baseTableMissing
                case _ where !triggers.isSuperset(of: needed): .triggersMissing
                case .building: .building
                case .ready: .ready
                }
            return Extension(
                name: stored.name,
                version: stored.version,
                baseTable: stored.baseTable,
                state: state,
                done: stored.done,
                total: stored.total
            )
        }
        if revision == 0, extensions.isEmpty { return nil }
    }
}
