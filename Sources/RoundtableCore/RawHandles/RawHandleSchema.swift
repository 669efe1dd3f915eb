// Rule S12: A raw handle looks with the turn, before its owner gets it, if another connection has committed since it last looked. If the
// database is newer, the handle gets no turn, but the error of S6. A migration during the turn, by a process that takes no turns, is not
// seen. If the owner's authorizer denies the look, the turn is not refused.

/// Refuses turns of a raw handle while the database's schema is newer than its participant knows (rule S12). Confined to the thread that
/// has passed the turnstile.
final class RawHandleSchema {
    private let raw: RawConnection
    private let watch: NewerSchemaWatch?
    private var sight = NewerSchemaWatch.Sight()
    /// The connection's data version at the last check. It changes when another connection commits.
    private var dataVersion: Int64?

    init(_ raw: RawConnection, _ watch: NewerSchemaWatch?) {
        self.raw = raw
        self.watch = watch
    }

    /// Call it with the turn, outside a transaction.
    ///
    /// - throws: ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)``.
    func admitTurn() throws {
        guard let watch else { return }
        let version = raw.dataVersion
        if version == nil || version != dataVersion {
            dataVersion = look(watch) ? version : nil
        }
        try watch.admitWrite(sight)
    }

    /// Reads the schema version and the applied migrations.
    ///
    /// - returns: false when they cannot be read, for example because an authorizer of the owner denies it. The turn is not refused then.
    private func look(_ watch: NewerSchemaWatch) -> Bool {
        guard let schemaVersion = raw.schemaVersion else { return false }
        let last = raw.text(NewerSchemaWatch.Mark.lastMigrationQuery)
        let mark = NewerSchemaWatch.Mark(schemaVersion: schemaVersion, lastMigration: last)
        if mark == sight.mark {
            sight = watch.look(after: sight, at: mark) { [] }
            return true
        }
        let applied = Set(raw.texts("SELECT identifier FROM main.grdb_migrations"))
        if applied.isEmpty != (last == nil) { return false }
        sight = watch.look(after: sight, at: mark) { applied }
        return true
    }
}
