import GRDB

// Rule S10: An access without a transaction compares the mark (S8) when it begins, and runs even if the database is newer, because it may
// only read. Each of its commits is checked in SQLite's commit hook, under WRITE: it is refused, and rolled back, if the database is newer.
// If the commit counter there is not the one at which the schema was last looked at, another connection reads the mark first, because the
// hook must not run SQL on the connection that commits; if that fails, the commit is refused.

/// What the writer connection does when the database is newer than the participant (rules S8–S10, S13). Everything runs on its queue.
extension WriterConnection {
    /// The state of the schema, while the database is being opened.
    func schemaStateAtOpening(_ db: Database) throws -> SchemaState {
        guard let watch else { return .current }
        let (state, sight) = try watch.stateAtOpening(db)
        self.sight = sight
        return state
    }

    /// Inspects the migrations, whenever other connections have committed.
    func lookAtMigrations(_ db: Database, _ schemaVersion: Int32) throws {
        guard let watch else { return }
        let mark = NewerSchemaWatch.Mark(
            schemaVersion: Int64(schemaVersion),
            lastMigration: try lastMigration.text(db)
        )
        sight = try watch.look(after: sight, at: mark) { try watch.applied(db) }
    }

    func hasNoNewMigration(_ db: Database) -> Bool {
        watch == nil || (try? lastMigration.text(db)) == sight.mark?.lastMigration
    }

    /// Whether all writes fail at present.
    var refusesWrites: Bool { !sight.unknown.isEmpty && watch?.policy != .continue }

    /// Checks, before anything is written, that the policy admits a write, and that the database is not fenced. Called within a write
    /// transaction that has inspected the schema.
    ///
    /// - throws: ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``, `SQLITE_READONLY`.
    func admitWrite() throws {
        try Fence.refuse(databasePath: path, ifSo: seat?.mayBeFenced)
        try watch?.admitWrite(sight)
    }

    /// Checks that the policy admits a commit, and that the database is not fenced. Called in SQLite's commit hook, where this connection must not be used.
    ///
    /// - parameter isSchemaKnown: whether the schema was inspected after the last commit of another connection.
    func admitCommit(_ isSchemaKnown: Bool) throws {
        try Fence.refuse(databasePath: path, ifSo: seat?.mayBeFenced)
        guard let watch, watch.policy != .continue else { return }
        if !isSchemaKnown {
            try lookAside? { aside in
                sight = try watch.look(after: sight, at: NewerSchemaWatch.Mark(aside)) { try watch.applied(aside) }
            }
        }
        try watch.admitWrite(sight)
    }

    /// Called when this connection has just committed a change to the table of migrations.
    func noteOwnMigrations(_ db: Database) {
        guard let watch else { return }
        defer { watch.isMigrating = false }
        let version = dataVersion(db)
        // If another connection has committed meanwhile, the participant's own migrations are not known (rule S13).
        guard let applied = try? watch.applied(db), let version, version == dataVersion(db) else { return }
        watch.add(own: applied.subtracting(sight.unknown))
    }
}
