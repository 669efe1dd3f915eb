import GRDB

/// The extensions of a database, seen from outside.
public struct ExtensionsStatus: Codable, Sendable, Equatable {
    /// Of the set (``ExtensionSet/revision``).
    public var revision: Int
    /// By name.
    public var extensions: [Extension]

    public struct Extension: Codable, Sendable, Equatable {
        public enum State: String, Codable, Sendable {
            case ready
            /// Not all is derived yet.
            case building
            /// The table that it is derived from is gone, or is not what it was.
            case baseTableMissing = "base_table_missing"
            /// Triggers are gone that derive, so that writes are not followed; who declares the extension puts them back with its next write.
            case triggersMissing = "triggers_missing"
        }

        public var name: String
        public var version: Int
        public var baseTable: String
        public var state: State
        /// Rows of the base table that were derived from, of about how many, since building began.
        public var done: Int
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
                // Whoever declares it has not written since.
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
