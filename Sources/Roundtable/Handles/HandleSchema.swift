/// Whether a raw handle may have a turn: not while the database is newer than its participant (rule S12). Confined to who has the turn.
final class HandleSchema {
    private let raw: RawConnection
    private let watch: SchemaWatch?
    private var sight = SchemaWatch.Sight()
    /// Of the connection, at the last look. It moves when another connection commits.
    private var dataVersion: Int64?

    init(_ raw: RawConnection, _ watch: SchemaWatch?) {
        self.raw = raw
        self.watch = watch
    }

    /// With the turn, outside of a transaction.
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

    /// - returns: false when it cannot be read, such as when an authorizer of the owner denies it: then the turn is not refused.
    private func look(_ watch: SchemaWatch) -> Bool {
        guard let schemaVersion = raw.schemaVersion else { return false }
        let last = raw.text(SchemaWatch.Mark.lastMigrationQuery)
        let mark = SchemaWatch.Mark(schemaVersion: schemaVersion, lastMigration: last)
        if mark == sight.mark {
            watch.look(&sight, at: mark) { [] }
            return true
        }
        let applied = Set(raw.texts("SELECT identifier FROM main.grdb_migrations"))
        if applied.isEmpty != (last == nil) { return false }
        watch.look(&sight, at: mark) { applied }
        return true
    }
}
