import GRDB

/// What the writer connection does when the database is newer than the participant (rules S8–S10, S13). All on its queue.
extension WriterConnection {
    /// The state of the schema, while the database is being opened.
    func schemaStateAtOpening(_ db: Database) throws -> SchemaState {
        guard let watch else { return .current }
        let (state, sight) = try watch.stateAtOpening(db)
        self.sight = sight
        return state
    }

    /// Whenever other connections have committed.
    func lookAtMigrations(_ db: Database, _ schemaVersion: Int32) throws {
        guard let watch else { return }
        let mark = SchemaWatch.Mark(
            schemaVersion: Int64(schemaVersion),
            lastMigration: lastMigration.identifier(db)
        )
        try watch.look(&sight, at: mark) { try watch.applied(db) }
    }

    func hasNoNewMigration(_ db: Database) -> Bool {
        watch == nil || lastMigration.identifier(db) == sight.mark?.lastMigration
    }

    /// Whether all writes fail at present.
    var refusesWrites: Bool { !sight.unknown.isEmpty && watch?.policy != .continue }

    /// Within a write transaction that has looked at the schema, before anything is written.
    ///
    /// - throws: ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``.
    func admitWrite() throws { try watch?.admitWrite(sight) }

    /// In SQLite's commit hook, where this connection must not be used.
    ///
    /// - parameter isSchemaKnown: whether the schema was looked at after the last commit of others.
    func admitCommit(_ isSchemaKnown: Bool) throws {
        guard let watch, watch.policy != .continue else { return }
        if !isSchemaKnown {
            try lookAside? { aside in try watch.look(&sight, at: SchemaWatch.Mark(aside)) { try watch.applied(aside) } }
        }
        try watch.admitWrite(sight)
    }

    /// This connection has just committed something to the table of migrations.
    func noteOwnMigrations(_ db: Database) {
        guard let watch else { return }
        defer { watch.isMigrating = false }
        let version = dataVersion(db)
        // What others have committed since is not known (rule S13).
        guard let applied = try? watch.applied(db), let version, version == dataVersion(db) else { return }
        watch.add(own: applied.subtracting(sight.unknown))
    }
}
